"""Many lines are read again at their places: each as the file has it, or none (protocol A19)."""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from photon.logs import scattered
from photon.logs.files import LogFile, TrackedFile
from photon.logs.lines_at import GUESSED_BYTES, read_lines_at
from photon.logs.source import hash_bytes

LINE_BYTES = 3 * GUESSED_BYTES[-1]  # the longest that is a line
SEED = 5


def line_of(length: int, chance: random.Random) -> bytes:
    return bytes(chance.choices(b"abcdefgh", k=length))


def lines_of_a_file(chance: random.Random) -> list[bytes]:
    """Lines short and long, some just as long as a reader guesses, one a byte too long."""
    around = [guess + more for guess in GUESSED_BYTES for more in (-2, -1, 0, 1)]
    lengths = [*(chance.randrange(1, 300) for _ in range(200)), *around, LINE_BYTES, LINE_BYTES + 1]
    chance.shuffle(lengths)
    return [line_of(length, chance) for length in lengths]


def written(folder: Path, number: int, data: bytes, end: int | None = None) -> TrackedFile:
    """A file of these bytes, of which those before `end` were read; every third one is compressed."""
    compressed = number % 3 == 0
    path = folder / f"{number}.jsonl{'.gz' if compressed else ''}"
    path.write_bytes(gzip.compress(data) if compressed else data)
    head = data[:64]
    file = LogFile(
        number, "foreign", path.name, path.stat().st_ino, compressed, b"", 0, len(head), hash_bytes(head)
    )
    return TrackedFile(file, len(data) if end is None else end, b"", False, len(data), 0, None)


def read(folder: Path, files: Mapping[int, TrackedFile], places: list[tuple[int, int]]) -> list[bytes | None]:
    numbers, offsets = np.array(places, np.int64).reshape(-1, 2).T
    found: pa.Array = read_lines_at(folder, files, numbers, offsets, LINE_BYTES)
    return list(found.to_pylist())


@pytest.mark.parametrize("at_once", [None, 5_000], ids=["all at once", "in many portions"])
@pytest.mark.parametrize("end_of_line", [b"\n", b"\r\n"], ids=["newline", "return and newline"])
def test_lines_of_many_files_are_read_in_any_order_and_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int | None, end_of_line: bytes
) -> None:
    if at_once is not None:
        monkeypatch.setattr(scattered, "MOST_BYTES_AT_ONCE", at_once)
    chance, files, expected = random.Random(SEED), {}, {}
    for number in (1, 2, 3, 7):
        data = b""
        for line in lines_of_a_file(chance):
            expected[number, len(data)] = line if len(line) <= LINE_BYTES else None
            data += line + end_of_line
        files[number] = written(tmp_path, number, data)
    places = [chance.choice(list(expected)) for _ in range(3 * len(expected))]
    assert read(tmp_path, files, places) == [expected[place] for place in places]
    assert None in expected.values(), "a line that is too long is none"


def test_the_last_line_needs_no_newline_and_nothing_is_read_beyond_what_was_read(tmp_path: Path) -> None:
    data = b"one\ntwo\nthree"
    whole, part = written(tmp_path, 1, data), written(tmp_path, 2, data, end=8)
    places = [(1, 0), (1, 8), (2, 4), (2, 8), (1, 13), (1, 10**9)]
    assert read(tmp_path, {1: whole, 2: part}, places) == [b"one", b"three", b"two", None, None, None]


def test_what_is_in_no_known_file_or_in_none_any_more_is_null(tmp_path: Path) -> None:
    files = {number: written(tmp_path, number, b"one\ntwo\n") for number in (1, 2, 4, 5)}
    (tmp_path / files[2].file.path).unlink()
    (tmp_path / files[4].file.path).write_bytes(b"one\n")
    places = [(1, 4), (2, 4), (4, 4), (9, 0), (-1, -1), (5, 4)]
    assert read(tmp_path, files, places) == [b"two", None, None, None, None, b"two"]
    assert read(tmp_path, files, []) == []


def test_a_short_line_is_read_without_the_megabytes_that_a_line_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, asked = random.Random(SEED), []
    lines = [line_of(500, chance) for _ in range(2_000)]
    files = {1: written(tmp_path, 1, b"".join(line + b"\n" for line in lines))}
    read_stretches = scattered.read_stretches_in_order

    def counting(*given):  # type: ignore[no-untyped-def]
        asked.extend(end - start for start, end in given[-1])
        return read_stretches(*given)

    monkeypatch.setattr(scattered, "read_stretches_in_order", counting)
    rows = range(0, 2_000, 40)
    assert read(tmp_path, files, [(1, 501 * row) for row in rows]) == [lines[row] for row in rows]
    assert sum(asked) <= len(rows) * GUESSED_BYTES[0]
