"""The layout of the real logs: nothing lost in laying out, and the expectation is that of their README."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import pytest

from tests.e2e.real_logs import (
    FOLDER_VARIABLE,
    FOREIGN_FILE,
    JOINED,
    PRIMARY_FILE,
    SET_FOLDER,
    UNJOINABLE,
    Order,
    RealLogs,
    cut_anywhere,
)


@pytest.fixture(scope="module")
def real_logs() -> RealLogs:
    found = RealLogs.open()
    if found is None:
        pytest.skip(f"the real logs are not on this machine; {FOLDER_VARIABLE} says where they are")
    return found


def original(real_logs: RealLogs, file: str) -> list[bytes]:
    with gzip.open(real_logs.folder / file) as lines:
        return sorted(lines.read().splitlines())


def laid_out(folder: Path, file: str) -> list[bytes]:
    """The lines of all files of one side, with one header."""
    side = "ssl" if file == PRIMARY_FILE else "events"
    files = [path.read_bytes().splitlines() for path in sorted((folder / side).iterdir())]
    return sorted([files[0][0], *(line for lines in files for line in lines[1:])])


def test_a_finished_layout_holds_every_line_once_in_each_datacenter(
    real_logs: RealLogs, tmp_path: Path
) -> None:
    real_logs.lay_out(tmp_path).finish()
    for file in (PRIMARY_FILE, FOREIGN_FILE):
        lines = original(real_logs, file)
        assert laid_out(tmp_path / "logs" / "east", file) == lines
        assert laid_out(tmp_path / "logs" / "west", file) == lines


@pytest.mark.parametrize(("order", "first"), [("primary_first", "ssl"), ("primary_last", "events")])
def test_the_other_side_begins_when_the_first_is_complete(
    order: Order, first: str, real_logs: RealLogs, tmp_path: Path
) -> None:
    layout = real_logs.lay_out(tmp_path, order=order, steps=3)
    for _ in range(3):
        layout.write_step()
    assert [path.name for path in (tmp_path / "logs" / "east").iterdir()] == [first]
    file = PRIMARY_FILE if first == "ssl" else FOREIGN_FILE
    assert laid_out(tmp_path / "logs" / "east", file) == original(real_logs, file)


def test_files_grow_by_steps_and_end_within_lines_between_them(real_logs: RealLogs, tmp_path: Path) -> None:
    layout = real_logs.lay_out(tmp_path)
    layout.write_step()
    sizes = {path: path.stat().st_size for path in tmp_path.rglob("*.csv")}
    partial = [path for path in sizes if not path.read_bytes().endswith(b"\n")]
    layout.write_step()
    assert len(sizes) == 3 + 4
    assert len(partial) > len(sizes) / 2
    assert all(path.stat().st_size > size for path, size in sizes.items())


def test_the_datacenters_are_cut_at_different_places(real_logs: RealLogs, tmp_path: Path) -> None:
    real_logs.lay_out(tmp_path).write_step()
    east, west = ((tmp_path / "logs" / name / "ssl" / "ssl-0.csv").read_bytes() for name in ("east", "west"))
    assert east != west


def test_the_expectation_is_that_of_the_readme(real_logs: RealLogs) -> None:
    expectation = real_logs.expectation()
    ids = expectation.joined.column("event_id").to_pylist()
    assert len(ids) == len(set(ids)) == JOINED
    assert len(expectation.unjoinable) == UNJOINABLE
    assert not expectation.unjoinable & set(ids)


def test_the_expected_values_are_those_of_a_join_in_plain_python(real_logs: RealLogs) -> None:
    def rows(file: str) -> list[dict[str, str]]:
        with gzip.open(real_logs.folder / file, "rt", newline="") as text:
            return list(csv.DictReader(text))

    primary = {row["key"]: row for row in rows(PRIMARY_FILE)}
    expected = {}
    for row in rows(FOREIGN_FILE):
        of = primary.get(row["key"])
        if of is not None:
            expected[row["event_id"]] = row | {f"primary_{name}": value for name, value in of.items()}
    assert {row["event_id"]: row for row in real_logs.expectation().joined.to_pylist()} == expected


def test_a_place_that_is_named_and_has_no_logs_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        RealLogs.open()


@pytest.mark.parametrize("below", ["", SET_FOLDER])
def test_the_logs_are_found_in_the_folder_that_is_named_or_in_theirs_below_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, below: str
) -> None:
    place = tmp_path / below
    place.mkdir(exist_ok=True)
    for name in (PRIMARY_FILE, FOREIGN_FILE):
        (place / name).touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert RealLogs.open() == RealLogs(place)


def test_cutting_loses_no_byte() -> None:
    data = bytes(range(256)) * 40
    pieces = list(cut_anywhere(data, 7, random.Random(5)))
    assert len(pieces) == 7
    assert b"".join(pieces) == data
