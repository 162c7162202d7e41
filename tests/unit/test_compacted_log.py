"""The log of a table is cleaned behind a checkpoint, and its commits are known from an archive."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from photon.process.faults import watched
from photon.storage import archived_log, table_log
from photon.storage.archived_log import ArchivedLog, Bundle, BundleDamaged, LogEntries, runs_of
from photon.storage.changes import Commit, changed_since, commit_at
from photon.storage.data_files import DataFiles
from photon.storage.delta import LOG_FOLDER, log_entry
from photon.storage.replacing import PlannedReplacement, replace_files
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import CommitConflict, LastCommit, OutputTable, app_id
from tests.unit.compacted_table import (
    APP,
    BATCHES,
    REBUILD,
    again,
    append,
    compact_all,
    new_table,
    now_us,
    plan_of,
    rows,
    rows_of_batch,
)


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    return new_table(tmp_path)


# -- the log


@pytest.fixture
def cleaned(table: OutputTable) -> OutputTable:
    compact_all(table)
    checkpoint(table.folder)
    append(table, BATCHES + 1)
    assert clean(table.folder, now_us() + 1_000_000) > BATCHES
    return table


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
    clean(cleaned.folder, now_us() + 1_000_000)
    shutil.rmtree(cleaned.folder / archived_log.FOLDER)
    assert again(cleaned).last_commit(APP) == LastCommit(BATCHES + 1, plan_of(BATCHES + 1))


def test_entries_that_are_young_stay(table: OutputTable) -> None:
    checkpoint(table.folder)
    assert clean(table.folder, now_us() - 3_600_000_000) == 0


def test_no_entry_goes_before_the_checkpoint_that_stands_for_it_is_whole(table: OutputTable) -> None:
    version = checkpoint(table.folder)
    path = table.folder / "_delta_log" / f"{version:020d}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert clean(table.folder, now_us() + 1_000_000) == 0
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
        clean(table.folder, now_us() + 1_000_000)
    assert not (table.folder / log_entry(0)).exists()
    assert (table.folder / log_entry(5)).exists()
    assert len(rows(again(table))) == 2 * BATCHES


# -- the archive of the log


def test_commits_that_left_the_log_are_known_again_with_what_they_changed(table: OutputTable) -> None:
    since, first = commit_at(table.folder, 3), commit_at(table.folder, 0)
    before = changed_since(table.folder, since, BATCHES)
    compact_all(table)
    version = checkpoint(table.folder)
    assert clean(table.folder, now_us() + 1_000_000) == version
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
    clean(cleaned.folder, now_us() + 1_000_000)
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
        clean(table.folder, now_us() + 1_000_000)
    (table.folder / log_entry(0)).unlink(missing_ok=True)  # while entries went
    monkeypatch.setattr(table_log, "MOST_REMOVED", 7)
    clean(table.folder, now_us() + 1_000_000)
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


@pytest.mark.parametrize("altered", [b"PAR1", b"\x28\xb5\x2f\xfd"], ids=["the ends", "the pages"])
def test_a_damaged_bundle_is_named_with_what_to_do(table: OutputTable, altered: bytes) -> None:
    """Broken variant: a file that ends as Parquet, but with other pages, counts as a store that is away."""
    archive = ArchivedLog(table.folder)
    archive.add(range(BATCHES))
    (bundle,) = archive.bundles()
    file = table.folder / archived_log.FOLDER / bundle.name
    file.write_bytes(file.read_bytes().replace(altered, bytes(4)))
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
