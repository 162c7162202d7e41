"""Single records are read again at their places, each only if it is still the same event (protocol A19)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from photon.logs.files import LogFile
from photon.logs.one_record import FIRST_READ_BYTES, read_records
from photon.logs.source import hash_bytes
from photon.pipeline.sections import ForeignLog, Limits

LOG = ForeignLog(files="*.jsonl", format="jsonl", id="click", key="query", time="at", time_unit="us")


def line(click: str, text: str = "") -> bytes:
    return json.dumps({"click": click, "query": "q", "at": 1, "text": text}).encode() + b"\n"


LINES = [line("c0"), line("c1", "x" * 2 * FIRST_READ_BYTES), b"{broken\n", line("c3"), line("c4")[:-1]]
OFFSETS = [sum(map(len, LINES[:n])) for n in range(len(LINES))]


def written(folder: Path, compressed: bool = False, lines: list[bytes] = LINES) -> LogFile:
    name = "a.jsonl.gz" if compressed else "a.jsonl"
    data = b"".join(lines)
    (folder / name).write_bytes(gzip.compress(data) if compressed else data)
    head = LINES[0]
    return LogFile(3, "foreign", name, 1, compressed, b"", 0, len(head), hash_bytes(head))


@pytest.mark.parametrize("compressed", [False, True])
def test_records_are_read_at_their_places_short_and_long_and_unterminated(
    tmp_path: Path, compressed: bool
) -> None:
    wanted = {OFFSETS[n]: f"c{n}" for n in (4, 1, 0)}
    found = read_records(tmp_path, written(tmp_path, compressed), wanted, LOG, Limits())
    assert dict(zip(found["_offset"].to_pylist(), found["_id"].to_pylist(), strict=True)) == wanted
    assert found["_raw"].to_pylist()[1] == LINES[1][:-1]


@pytest.mark.parametrize(
    ("offset", "event_id"),
    [(OFFSETS[3], "other"), (OFFSETS[2], "broken"), (OFFSETS[3] + 1, "c3"), (10**9, "c3")],
    ids=["another event", "no record", "no line begins there", "beyond the end"],
)
def test_what_is_not_that_event_at_that_place_is_gone(tmp_path: Path, offset: int, event_id: str) -> None:
    found = read_records(tmp_path, written(tmp_path), {offset: event_id, 0: "c0"}, LOG, Limits())
    assert found["_id"].to_pylist() == ["c0"]


def test_another_file_in_its_place_has_none_of_its_records(tmp_path: Path) -> None:
    file = written(tmp_path)
    (tmp_path / file.path).write_bytes(line("x") + b"".join(LINES[1:]))
    assert read_records(tmp_path, file, {OFFSETS[3]: "c3"}, LOG, Limits()).num_rows == 0


def test_a_file_that_is_not_there_has_none(tmp_path: Path) -> None:
    file = written(tmp_path)
    (tmp_path / file.path).unlink()
    assert read_records(tmp_path, file, {0: "c0"}, LOG, Limits()).num_rows == 0
