"""Compaction changes no row, leaves open plans alone, meets others in clean conflicts (A3, A6, A10, E3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from photon.process import in_time
from photon.process.faults import watched
from photon.storage import replacing
from photon.storage.changes import ChangedFiles, changed_since, commit_at
from photon.storage.compaction import SMALL_BYTES, Group, RowsDiffer, compact, groups_of
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.joined_rows import CommittedRows
from photon.storage.replacing import PlannedReplacement, replace_files
from photon.storage.store import store_of
from photon.storage.tables import CommitConflict, OutputTable
from photon.storage.tokens import Occurrence, PlanKey, Token
from photon.upkeep.compact import Compacted
from tests.unit.compacted_table import (
    APP,
    BATCHES,
    COMPACTION,
    LARGE,
    REBUILD,
    again,
    append,
    compact_all,
    groups,
    new_table,
    plan_of,
    rows,
    rows_of_batch,
)


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    return new_table(tmp_path)


# -- what becomes of which file


def file(name: str, batch: int, size_bytes: int = 10, epoch: str = "e") -> DataFile:
    return DataFile(name, size_bytes, 1, epoch, epoch, batch, batch)


def test_small_files_become_one_up_to_a_size_and_large_ones_stay() -> None:
    files = [
        file("a", 1),
        file("b", 2, 60),
        file("c", 3),
        file("d", 4),
        *(file(str(n), n) for n in range(5, 16)),
    ]
    found = [[each.path for each in group.files] for group in groups_of(files, {"e": 99}, 100, 2)]
    assert found == [["c", "d", "5"], [str(n) for n in range(6, 16)]]


def test_a_file_is_rewritten_once_the_later_ones_are_as_large_together() -> None:
    large, small = 10 * SMALL_BYTES, [file(str(n), n, SMALL_BYTES) for n in range(2, 11)]
    assert paths([file("a", 1, large), *small]) == [[str(n) for n in range(2, 11)]]
    assert paths([file("a", 1, large), *small, file("11", 11, SMALL_BYTES)])[0][0] == "a"


def test_each_row_is_rewritten_a_few_times_though_passes_are_many() -> None:
    files, rewritten_bytes, passes = [file("0", 0, 0)], 0, 400
    for one in range(passes):
        files += [file(f"{one}-{n}", 10 * one + n, SMALL_BYTES // 10) for n in range(10)]
        for group in groups_of(files, {"e": 10**6}, LARGE, 8):
            rewritten_bytes += group.size_bytes
            files = [each for each in files if each not in group.files]
            merged = DataFile(
                "m", group.size_bytes, 1, "e", "e", group.files[0].first_batch, group.files[-1].last_batch
            )
            files.append(merged)
    assert rewritten_bytes < 10 * passes * SMALL_BYTES
    assert len(files) < 30


def paths(files: list[DataFile]) -> list[list[str]]:
    return [[each.path for each in group.files] for group in groups_of(files, {"e": 99}, LARGE, 2)]


def test_an_epoch_keeps_files_of_its_own_and_a_few_files_stay() -> None:
    files = [file("a", 1), file("b", 1, epoch="f"), file("c", 2), file("d", 2, epoch="f")]
    found = groups_of(files, {"e": 9, "f": 9}, 100, 2)
    assert [(group.epoch, [each.path for each in group.files]) for group in found] == [
        ("e", ["a", "c"]),
        ("f", ["b", "d"]),
    ]
    assert groups_of(files, {"e": 9, "f": 9}, 100, 3) == []


def test_files_of_the_last_batch_stay_for_its_plan_may_be_open() -> None:
    files = [file("a", 1), file("b", 2), file("c", 3), file("d", 3)]
    (found,) = groups_of(files, {"e": 3}, 100, 2)
    assert [each.path for each in found.files] == ["a", "b"]
    assert groups_of(files, {}, 100, 2) == []  # nobody knows the epoch


def test_files_of_several_epochs_or_without_bounds_stay() -> None:
    unknown = DataFile("a", 10, None, None, None, None, None)
    mixed = DataFile("b", 10, 5, "e", "f", 1, 2)
    assert groups_of([unknown, mixed], {"e": 9, "f": 9}, 100, 2) == []


# -- rows


def test_a_compaction_keeps_every_row_with_all_columns_in_the_order_of_batches(table: OutputTable) -> None:
    before = rows(table)
    compact_all(table)
    assert rows(again(table)) == before
    files = DataFiles(table.load()).all()
    assert len(files) == 2
    (compacted,) = [each for each in files if "compacted-" in each.path]
    assert (compacted.epoch, compacted.first_batch, compacted.last_batch) == ("e", 1, BATCHES - 1)
    with store_of(table.folder).open(compacted.path) as source:
        found = pq.read_table(source)["_batch"].to_pylist()
    assert found == sorted(found)


def test_a_plan_is_read_back_after_its_rows_were_compacted(table: OutputTable) -> None:
    compact_all(table)
    for batch in (3, BATCHES):
        assert again(table).occurrences_of("e", batch, plan_of(batch)) == [
            Occurrence(batch, n) for n in (0, 1)
        ]
    tokens = [Token(PlanKey("east", "e", 3, plan), Occurrence(3, 1)) for plan in (plan_of(3), "of another")]
    assert list(again(table).row_status_of(tokens).values()) == ["row", "no row"]


def test_rows_are_read_in_pages_that_small_files_share(table: OutputTable) -> None:
    pages = list(CommittedRows(table).pages("e", range(1, BATCHES + 1), 5))
    assert [page.num_rows for page in pages] == [5, 5, 5, 5, 4]


def test_only_files_that_may_have_a_batch_are_opened(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = type(table.store).open
    monkeypatch.setattr(
        type(table.store), "open", lambda self, name: (opened.append(name), real(self, name))[1]
    )
    table.occurrences_of("e", 7, plan_of(7))
    assert len(opened) == 1


def test_rows_that_do_not_add_up_are_never_committed(table: OutputTable) -> None:
    (group,) = groups(table)
    lying = Group("e", None, tuple(DataFile(f.path, f.size_bytes, 5, "e", "e", 1, 1) for f in group.files))
    before = rows(table)
    with pytest.raises(RowsDiffer):
        compact(table, lying, COMPACTION)
    assert rows(again(table)) == before


# -- beside others


def test_an_append_on_an_older_handle_goes_through_or_is_told_and_loses_nothing(table: OutputTable) -> None:
    written = rows_of_batch(table, BATCHES + 1)
    compacting = again(table)
    done = False

    def compact_before_the_commit(point: str, place: object) -> None:
        nonlocal done
        if point == "lake.before_commit" and not done:
            done = True
            compact_all(compacting)

    before = len(rows(table))
    with watched(compact_before_the_commit):
        table.commit([written], APP, BATCHES + 1, BATCHES, "new")
    assert done
    assert len(rows(again(table))) == before + 2
    with pytest.raises(CommitConflict):
        table.commit([written], APP, BATCHES + 1, BATCHES, "new")


def test_two_compactions_at_once_double_no_row(table: OutputTable) -> None:
    (group,) = groups(table)
    before = rows(table)
    assert compact(again(table), group, COMPACTION) is not None
    assert compact(again(table), group, COMPACTION) is None  # the group's files are gone
    assert rows(again(table)) == before


def test_a_compaction_whose_file_a_rebuild_replaces_meanwhile_changes_nothing(table: OutputTable) -> None:
    (group,) = groups(table)
    other, before = again(table), len(rows(table))

    def rebuild_meanwhile(point: str, place: object) -> None:
        if point == "compact.after_write":
            path = group.files[0].path
            replace_files(
                other, PlannedReplacement(frozenset([path]), [rows_of_batch(other, 1)], REBUILD, 1, {})
            )

    with watched(rebuild_meanwhile):
        assert compact(table, group, COMPACTION) is None
    assert len(rows(again(table))) == before
    assert not list(table.folder.rglob("compacted-*"))


LOST_TRIES = 30


def test_a_compaction_that_appends_beat_again_and_again_wins_and_reads_only_what_is_new(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = groups(table)
    other, before, looks = again(table), len(rows(table)), []
    batches = iter(range(BATCHES + 1, BATCHES + 1 + LOST_TRIES))

    class Looked(DataFiles):
        def __init__(self, handle: DeltaTable) -> None:
            looks.append(handle.version())
            super().__init__(handle)

    def append_first(place: object) -> None:
        if (batch := next(batches, None)) is not None:
            append(other, batch)

    monkeypatch.setattr(replacing, "DataFiles", Looked)
    with before_each_try(append_first):
        assert compact(table, group, COMPACTION) is not None
    assert next(batches, None) is None
    assert len(rows(again(table))) == before + 2 * LOST_TRIES
    assert len(looks) == 1, "it looked at all files again"
    assert len(list(table.folder.rglob("compacted-*"))) == 1, "it wrote its file again"


def test_a_compaction_that_is_beaten_by_a_rebuild_of_its_files_changes_nothing(table: OutputTable) -> None:
    (group,) = groups(table)
    other, before, done = again(table), len(rows(table)), []

    def rebuild_first(place: object) -> None:
        if not done:
            done.append(place)
            new = [rows_of_batch(other, 1)]
            replace_files(other, PlannedReplacement(frozenset([group.files[0].path]), new, REBUILD, 1, {}))

    with before_each_try(rebuild_first):
        assert compact(table, group, COMPACTION) is None
    assert len(rows(again(table))) == before
    assert not list(table.folder.rglob("compacted-*"))


@contextmanager
def before_each_try(meanwhile: Callable[[object], None]) -> Iterator[None]:
    """Do something right before each commit, but not before commits that this makes itself."""
    inside = False

    def watch(point: str, place: object) -> None:
        nonlocal inside
        if point == "lake.before_commit" and not inside:
            inside = True
            meanwhile(place)
            inside = False

    with watched(watch):
        yield


def test_files_are_rewritten_behind_others_and_committed_at_the_rank_of_joins(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    yielding: list[int] = []
    monkeypatch.setattr(in_time, "come_after_others", lambda: yielding.append(threading.get_ident()))
    committing: list[int] = []
    (group,) = groups(table)
    with before_each_try(lambda place: committing.append(threading.get_ident())):
        compact(table, group, COMPACTION)
    assert len(yielding) == 1
    assert committing == [threading.get_ident()]
    assert committing != yielding


# -- changes


def test_a_compaction_is_no_change_and_rows_that_came_before_it_are(table: OutputTable) -> None:
    first, since = commit_at(table.folder, 3), commit_at(table.folder, table.load().version())
    compact_all(table)
    version = table.load().version()
    assert changed_since(table.folder, since, version) == ChangedFiles()
    changed = changed_since(table.folder, first, version)
    assert changed is not None
    assert len(changed.added) == BATCHES - 3
    assert changed.removed == ()


def test_what_a_rebuild_does_to_compacted_rows_is_a_change(table: OutputTable) -> None:
    since = commit_at(table.folder, table.load().version())
    compact_all(table)
    (path,) = (file.path for file in DataFiles(table.load()).all() if "compacted-" in file.path)
    replace_files(table, PlannedReplacement(frozenset([path]), [rows_of_batch(table, 1)], REBUILD, 1, {}))
    changed = changed_since(table.folder, since, table.load().version())
    assert changed is not None
    assert changed.removed == (str(table.folder / path),)
    assert len(changed.added) == 1


# -- what the command says


@pytest.mark.parametrize(
    ("done", "says"),
    [
        (Compacted(), "0 data files; removed: nothing"),
        (Compacted(files_before=1, files_after=1), "1 data file; removed: nothing"),
        (
            Compacted(files_before=9, files_after=2, log_files_removed=1, data_files_removed=3),
            "9 data files became 2; removed: 1 old log entry, 3 old data files",
        ),
    ],
)
def test_a_compaction_says_what_became_of_each_table(done: Compacted, says: str) -> None:
    """Broken variant: "0 files would be 0"."""
    assert done.sentence(dry_run=False) == says
