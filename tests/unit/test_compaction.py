"""Compaction changes no row, leaves open plans alone, meets others in clean conflicts (A3, A6, A10, E3)."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from photon.adapters import ROW_COLUMNS
from photon.cli.compact import compacted_text
from photon.process import in_time
from photon.process.faults import watched
from photon.storage import archived_log, replacing, table_log
from photon.storage.archived_log import ArchivedLog, Bundle, BundleDamaged, LogEntries, runs_of
from photon.storage.changes import ChangedFiles, Commit, changed_since, commit_at
from photon.storage.compaction import SMALL_BYTES, Group, RowsDiffer, compact, groups_of
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import LOG_FOLDER, log_entry
from photon.storage.joined_rows import CommittedRows
from photon.storage.output_files import write_rows
from photon.storage.replacing import PlannedReplacement, replace_files
from photon.storage.store import store_of
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import CommitConflict, LastCommit, OutputTable, app_id
from photon.storage.vacuum import vacuum
from photon.tokens import Occurrence, PlanKey, Token
from photon.upkeep.compact import Compacted

APP, COMPACTION, REBUILD = app_id("east", "e"), "photon:east:compaction", "photon:east:rebuild"
LARGE, WEEK_SECONDS = 2**30, 7 * 86_400
BATCHES = 12


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    """Make a table with `BATCHES` batches of two rows each."""
    made = OutputTable(tmp_path, "joined_events")
    made.create("clicks", "east")
    for batch in range(1, BATCHES + 1):
        append(made, batch)
    return made


def append(table: OutputTable, batch: int) -> None:
    table.commit([rows_of_batch(table, batch)], APP, batch, batch - 1, plan_of(batch))


def rows_of_batch(table: OutputTable, batch: int) -> Any:
    row = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": plan_of(batch)}
    rows = [row | {"_occurrence": f"{batch}:{n}", "_event_id": f"{batch}-{n}"} for n in range(2)]
    return write_rows(table.folder.parent, table.name, batch, pa.Table.from_pylist(rows, ROW_COLUMNS))


def plan_of(batch: int) -> str:
    return f"plan{batch}"


def groups(table: OutputTable, least_files: int = 2) -> list[Group]:
    handle = table.load()
    last = {"e": handle.transaction_version(APP) or 0}
    return groups_of(DataFiles(handle).all(), last, LARGE, least_files)


def compact_all(table: OutputTable) -> None:
    for group in groups(table):
        assert compact(table, group, COMPACTION) is not None


def rows(table: OutputTable) -> list[dict[str, Any]]:
    found = table.load().to_pyarrow_table().sort_by([("_batch", "ascending"), ("_occurrence", "ascending")])
    return list(found.to_pylist())


def again(table: OutputTable) -> OutputTable:
    """Open the table as another process does."""
    return OutputTable(table.folder.parent, "joined_events")


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


# -- the log


@pytest.fixture
def cleaned(table: OutputTable) -> OutputTable:
    compact_all(table)
    checkpoint(table.folder)
    append(table, BATCHES + 1)
    assert clean(table.folder, _now_us() + 1_000_000) > BATCHES
    return table


def _now_us() -> int:
    return time.time_ns() // 1_000


def test_the_log_begins_with_a_checkpoint_and_the_table_is_as_it_was(cleaned: OutputTable) -> None:
    names = sorted(path.name for path in (cleaned.folder / "_delta_log").iterdir())
    version = cleaned.load().version()
    assert names == [
        f"{version - 1:020d}.checkpoint.parquet",
        f"{version - 1:020d}.json",
        f"{version:020d}.json",
        "_last_checkpoint",
    ]
    assert len(rows(again(cleaned))) == 2 * (BATCHES + 1)
    assert again(cleaned).version_of(APP) == BATCHES + 1


def test_an_epoch_goes_on_and_a_zombie_fails_after_the_log_was_cleaned(cleaned: OutputTable) -> None:
    append(again(cleaned), BATCHES + 2)
    with pytest.raises(CommitConflict):
        append(again(cleaned), BATCHES + 2)


def test_the_plan_of_a_batch_whose_entry_is_gone_is_told_by_its_rows(cleaned: OutputTable) -> None:
    checkpoint(cleaned.folder)
    for batch in range(1, 20):  # batches of another epoch, `f`
        cleaned.commit([], app_id("east", "f"), batch, batch - 1)
    checkpoint(cleaned.folder)
    clean(cleaned.folder, _now_us() + 1_000_000)
    shutil.rmtree(cleaned.folder / archived_log.FOLDER)
    assert again(cleaned).last_commit(APP) == LastCommit(BATCHES + 1, plan_of(BATCHES + 1))


def test_entries_that_are_young_stay(table: OutputTable) -> None:
    checkpoint(table.folder)
    assert clean(table.folder, _now_us() - 3_600_000_000) == 0


def test_no_entry_goes_before_the_checkpoint_that_stands_for_it_is_whole(table: OutputTable) -> None:
    version = checkpoint(table.folder)
    path = table.folder / "_delta_log" / f"{version:020d}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert clean(table.folder, _now_us() + 1_000_000) == 0
    (table.folder / "_delta_log" / "_last_checkpoint").unlink()
    path.unlink()
    assert len(rows(again(table))) == 2 * BATCHES


def test_a_crash_while_entries_go_leaves_a_table_that_is_read_as_before(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(point: str, place: object) -> None:
        if point == "compact.after_removed":
            raise Crash

    checkpoint(table.folder)
    monkeypatch.setattr(table_log, "MOST_REMOVED", 3)
    with watched(crash), pytest.raises(Crash):
        clean(table.folder, _now_us() + 1_000_000)
    assert not (table.folder / log_entry(0)).exists()
    assert (table.folder / log_entry(5)).exists()
    assert len(rows(again(table))) == 2 * BATCHES


# -- the archive of the log


def test_commits_that_left_the_log_are_known_again_with_what_they_changed(table: OutputTable) -> None:
    since, first = commit_at(table.folder, 3), commit_at(table.folder, 0)
    before = changed_since(table.folder, since, BATCHES)
    compact_all(table)
    version = checkpoint(table.folder)
    assert clean(table.folder, _now_us() + 1_000_000) == version
    assert not (table.folder / log_entry(3)).exists()
    assert (commit_at(table.folder, 3), commit_at(table.folder, 0)) == (since, first)
    assert changed_since(table.folder, since, BATCHES) == before
    assert changed_since(table.folder, since, version) == before
    assert changed_since(table.folder, replace(since, digest="of another"), version) is None


def test_a_plan_is_named_by_a_commit_that_left_the_log(cleaned: OutputTable) -> None:
    app = app_id("east", "f")
    cleaned.commit([], app, 1, 0, "without rows")
    append(cleaned, BATCHES + 2)
    checkpoint(cleaned.folder)
    clean(cleaned.folder, _now_us() + 1_000_000)
    assert again(cleaned).last_commit(app) == LastCommit(1, "without rows")


@pytest.mark.parametrize("point", ["compact.after_archived", "compact.after_removed"])
def test_a_crash_on_the_way_into_the_archive_loses_no_commit(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Crash(BaseException):
        pass

    def crash(passed: str, place: object) -> None:
        if passed == point:
            raise Crash

    entries = {version: (table.folder / log_entry(version)).read_bytes() for version in range(BATCHES)}
    checkpoint(table.folder)
    monkeypatch.setattr(table_log, "MOST_REMOVED", 5)
    with watched(crash), pytest.raises(Crash):
        clean(table.folder, _now_us() + 1_000_000)
    (table.folder / log_entry(0)).unlink(missing_ok=True)  # while entries went
    monkeypatch.setattr(table_log, "MOST_REMOVED", 7)
    clean(table.folder, _now_us() + 1_000_000)
    found = LogEntries(table.folder)
    assert {version: found.read(version) for version in range(BATCHES)} == entries
    bundles = ArchivedLog(table.folder).bundles()
    assert all(one.last < other.first for one, other in pairwise(bundles))


def test_commits_of_a_copy_that_was_put_back_count_and_those_that_it_lacks_do_not(table: OutputTable) -> None:
    entry = table.folder / log_entry(BATCHES - 1)
    mine = entry.read_bytes()
    ArchivedLog(table.folder).add(range(BATCHES))
    entry.write_bytes(mine + b"\n")
    assert commit_at(table.folder, BATCHES - 1) != commit_at(table.folder, BATCHES - 2)
    ArchivedLog(table.folder).add([BATCHES - 2, BATCHES - 1])
    entry.unlink()
    assert LogEntries(table.folder).read(BATCHES - 1) == mine + b"\n"


def test_an_older_copy_that_is_put_over_a_table_takes_no_commit_from_the_archive(table: OutputTable) -> None:
    entries = {version: (table.folder / log_entry(version)).read_bytes() for version in range(BATCHES)}
    archive = ArchivedLog(table.folder)
    archive.add(range(2, BATCHES - 1))
    archive.add([0, 1, 2, BATCHES - 1])  # the entries that the copy brought back, and the newest
    shutil.rmtree(table.folder / LOG_FOLDER)
    found = LogEntries(table.folder)
    assert {version: found.read(version) for version in range(BATCHES)} == entries
    assert archive.bundles() == [Bundle(0, BATCHES - 1)]


def test_of_two_passes_at_once_none_takes_what_the_other_has_archived(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, other = ArchivedLog(table.folder), ArchivedLog(table.folder)

    def bundles(self: ArchivedLog) -> list[Bundle]:
        monkeypatch.undo()
        other.add(range(BATCHES))  # after the first has read its own entries
        return other.bundles()

    monkeypatch.setattr(ArchivedLog, "bundles", bundles)
    archive.add(range(3))
    shutil.rmtree(table.folder / LOG_FOLDER)
    assert [LogEntries(table.folder).read(version) for version in range(BATCHES)]


def test_commits_with_a_gap_are_in_bundles_without_one() -> None:
    assert runs_of([1, 2, 3, 7, 9, 10]) == [Bundle(1, 3), Bundle(7, 7), Bundle(9, 10)]


def test_a_damaged_bundle_is_named_with_what_to_do(table: OutputTable) -> None:
    archive = ArchivedLog(table.folder)
    archive.add(range(BATCHES))
    (bundle,) = archive.bundles()
    (table.folder / archived_log.FOLDER / bundle.name).write_bytes(b"")
    with pytest.raises(BundleDamaged, match=f"{bundle.name} is damaged.*put it back"):
        archive.removed(bundle)
    shutil.rmtree(table.folder / LOG_FOLDER)
    assert changed_since(table.folder, Commit(0, "digest"), BATCHES) is None


def test_a_commit_that_somebody_has_removed_is_not_in_the_archive(table: OutputTable) -> None:
    ArchivedLog(table.folder).add([0, 1, 3])
    (table.folder / log_entry(2)).unlink()
    with pytest.raises(FileNotFoundError):
        LogEntries(table.folder).read(2)
    assert changed_since(table.folder, commit_at(table.folder, 1), BATCHES) is None


def test_checkpoints_have_no_tombstones_of_a_compaction(table: OutputTable) -> None:
    compact_all(table)
    version = checkpoint(table.folder)
    rows = pq.read_table(table.folder / "_delta_log" / f"{version:020d}.checkpoint.parquet")
    assert rows["add"].null_count == rows.num_rows - 2
    assert rows["remove"].null_count == rows.num_rows


def test_they_have_those_of_a_rebuild_for_a_week(table: OutputTable) -> None:
    (path, *_) = (file.path for file in DataFiles(table.load()).all())
    replace_files(table, PlannedReplacement(frozenset([path]), [rows_of_batch(table, 1)], REBUILD, 1, {}))
    version = checkpoint(table.folder)
    rows = pq.read_table(table.folder / "_delta_log" / f"{version:020d}.checkpoint.parquet")
    assert rows["remove"].null_count == rows.num_rows - 1


# -- old data files

DAY_US = 86_400_000_000


def age(table: OutputTable, name: str) -> None:
    then = time.time() - WEEK_SECONDS - 60
    os.utime(table.folder / name, (then, then))


def test_readers_that_are_open_go_on_for_a_week(table: OutputTable) -> None:
    reader = DeltaTable(str(table.folder))
    compact_all(table)
    for path in table.folder.glob("*.parquet"):
        age(table, path.name)  # the files are old, and left the table just now
    assert vacuum(table, None, True, _now_us()) == 0
    checkpoint(table.folder)
    clean(table.folder, _now_us() + 1_000_000)
    assert vacuum(table, None, True, _now_us() + DAY_US) == 0
    assert reader.to_pyarrow_table().num_rows == 2 * BATCHES


def test_files_that_left_the_table_a_week_ago_go_with_the_commits_that_say_so(table: OutputTable) -> None:
    compact_all(table)
    append(table, BATCHES + 1)
    before = rows(table)
    checkpoint(table.folder)
    clean(table.folder, _now_us() + 1_000_000)
    assert vacuum(table, None, False, _now_us() + 6 * DAY_US) == 0
    assert vacuum(table, None, False, _now_us() + 8 * DAY_US) == BATCHES - 1
    data_files = [path for path in table.folder.rglob("*.parquet") if LOG_FOLDER not in path.parts]
    assert len(data_files) == 3
    assert ArchivedLog(table.folder).bundles() == []
    assert rows(again(table)) == before


def test_a_file_stays_that_is_in_the_table_again(table: OutputTable) -> None:
    version = table.load().version()
    compact_all(table)
    DeltaTable(str(table.folder)).restore(version)
    append(table, BATCHES + 1)
    checkpoint(table.folder)
    clean(table.folder, _now_us() + 1_000_000)
    vacuum(table, None, False, _now_us() + 8 * DAY_US)
    assert ArchivedLog(table.folder).bundles() == []
    assert len(rows(again(table))) == 2 * (BATCHES + 1)


def test_files_that_were_never_committed_go_after_a_week_but_those_of_an_open_plan(
    table: OutputTable,
) -> None:
    open_plan = PlanKey("east", "e", BATCHES + 1, "its")
    names = [f"batch-{BATCHES + 1}-its-0-0.parquet", "batch-1-ended-0-0.parquet", "batch-1-young-0-0.parquet"]
    for name in names:
        (table.folder / name).write_bytes(b"candidates")
    age(table, names[0])
    age(table, names[1])
    assert vacuum(table, None, False, _now_us()) == 0  # nobody knows here which plan is open
    assert vacuum(table, open_plan, True, _now_us()) == 1
    assert [name for name in names if (table.folder / name).exists()] == [names[0], names[2]]
    assert vacuum(table, None, True, _now_us()) == 0  # the folder was looked at just now
    assert vacuum(table, None, True, _now_us() + DAY_US) == 1
    assert len(rows(again(table))) == 2 * BATCHES


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
    assert compacted_text(done, dry_run=False) == says
