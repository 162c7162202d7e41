"""Verification keeps results: they count while logs and tables allow it, and survive damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from photon.logs.files import LogFile, TrackedFile
from photon.storage.changes import Commit, changed_since, commit_at
from photon.storage.tokens import Occurrence
from photon.verification.kept import KeptFile, KeptRun, still_needed
from photon.verification.reading import NEIGHBOUR_BYTES, neighbours
from photon.verification.since import FileLook, is_trusted, look_at, mended_since

KEPT = KeptFile(end_bytes=100, since_run=1, size_bytes=120, changed_ns=5)
AS_IT_WAS = FileLook(120, 5)


def tracked(read_up_to: int = 100, compressed: bool = False) -> TrackedFile:
    file = LogFile(1, "foreign", "c1.csv", 7, compressed, b"id,key,at", 10, 20, b"hash")
    return TrackedFile(file, read_up_to, b"tail", False, read_up_to, 0, None)


# -- log files


@pytest.mark.parametrize(
    ("look", "file", "counts"),
    [
        (AS_IT_WAS, tracked(), True),
        (FileLook(500, 9), tracked(300), True),  # grown
        (None, tracked(), False),  # gone
        (FileLook(119, 9), tracked(), False),  # shorter
        (FileLook(120, 9), tracked(), False),  # something was written into it
        (AS_IT_WAS, replace(tracked(), state="replaced"), False),
        (AS_IT_WAS, tracked(90), False),  # the state knows less than was kept
        (FileLook(500, 9), tracked(compressed=True), False),  # another compressed file
    ],
)
def test_results_of_a_log_count_while_it_is_as_it_was_or_grows(
    look: FileLook | None, file: TrackedFile, counts: bool
) -> None:
    assert is_trusted(KEPT, file, look) is counts


def test_runs_go_that_no_file_needs_and_the_first_one_still_says_when_all_was_read() -> None:
    """Broken variant: all stay. Where files come and go, each verification reads more than the one before."""
    runs = [KeptRun(number, 10 * number, f"run-{number}", {"primaries/1.parquet": 9}) for number in (1, 2, 3)]
    emptied, newer = replace(runs[0], files={}), replace(KEPT, since_run=3)
    assert still_needed(runs, {7: newer}) == [emptied, runs[2]]
    assert still_needed(runs, {7: newer, 8: KEPT}) == runs
    assert still_needed(runs, {}) == [emptied]


def test_a_log_that_is_not_there_has_no_look(tmp_path: Path) -> None:
    assert look_at({1: tracked()}, tmp_path) == {1: None}
    (tmp_path / "c1.csv").write_text("12345")
    look = look_at({1: tracked()}, tmp_path)[1]
    assert look is not None
    assert look.size_bytes == 5


def test_records_near_each_other_are_read_in_one_go() -> None:
    far = 200 + NEIGHBOUR_BYTES
    assert stretches([10, 200, far, far + 1]) == [(10, far + 2)]
    assert stretches([10, 200, far + 1]) == [(10, 201), (far + 1, far + 2)]


def stretches(offsets: list[int]) -> list[tuple[int, int]]:
    return [(each.start_bytes, each.end_bytes) for each in neighbours(tracked(), np.array(offsets))]


# -- tables


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "a table"
    write_deltalake(str(folder), pa.table({"id": ["a", "b"]}))
    return folder


def version(folder: Path) -> int:
    return DeltaTable(str(folder)).version()


def test_a_table_tells_which_files_have_come_and_gone(table: Path) -> None:
    before = commit_at(table, version(table))
    (first,) = DeltaTable(str(table)).file_uris()
    write_deltalake(str(table), pa.table({"id": ["c"]}), mode="append")
    DeltaTable(str(table)).delete("id = 'a'")
    found = changed_since(table, before, version(table))
    assert found is not None
    assert [Path(path).name for path in found.removed] == [Path(first).name]
    now = {Path(path).name for path in DeltaTable(str(table)).file_uris()}
    assert {Path(path).name for path in found.added} == now


def test_a_file_that_came_and_went_in_between_is_none(table: Path) -> None:
    before = commit_at(table, version(table))
    write_deltalake(str(table), pa.table({"id": ["c"]}), mode="append")
    DeltaTable(str(table)).delete("id = 'c'")
    found = changed_since(table, before, version(table))
    assert found is not None
    assert not found.all


def test_a_table_that_was_made_since_is_new_as_a_whole(table: Path) -> None:
    found = changed_since(table, commit_at(table, None), version(table))
    assert found is not None
    assert len(found.added) == 1


def test_nobody_can_tell_what_changed_in_another_table(table: Path, tmp_path: Path) -> None:
    before = commit_at(table, version(table))
    write_deltalake(str(tmp_path / "other"), pa.table({"id": ["a", "b"]}))
    assert changed_since(tmp_path / "other", before, 0) is None
    assert changed_since(table, before, None) is None  # gone
    assert changed_since(table, Commit(0, ""), 0) is None  # the commit was cleaned up
    write_deltalake(str(table), pa.table({"id": ["c"]}), mode="overwrite")
    for path in table.glob("*.parquet"):
        path.unlink()
    assert changed_since(table, before, version(table)) is None  # removed files are gone


# -- letters


def test_a_letter_that_is_taken_up_once_more_is_looked_at_again() -> None:
    one, other = Occurrence.parse("1:7"), Occurrence.parse("1:9")
    assert mended_since({"1:7": 4, "1:9": 4}, [(one, 4), (other, 5)]) == (other,)
    assert mended_since({}, [(one, 4)]) == (one,)
