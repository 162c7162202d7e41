"""Data files that nobody needs any more leave the folder of a table, after a week (protocol A10).

The archive of the log says which files left the table a week ago. What was never committed is found by a look
at the whole folder, which may have a million files: once a day. Files that a kept release needs stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile

from deltalake import DeltaTable

from photon.process.clock import MICROSECONDS
from photon.process.faults import fault_point
from photon.storage.archived_log import FOLDER, ArchivedLog, Bundle, removed_by
from photon.storage.candidate_files import prefix_of
from photon.storage.delta import LOG_FOLDER, lake_errors, open_table
from photon.storage.replacing import data_files
from photon.storage.store import store_of
from photon.storage.table_features import kept_hours
from photon.storage.tables import OutputTable
from photon.storage.tokens import PlanKey

# Readers may have opened a version so long ago; candidates of a plan may wait to be committed.
KEEP_HOURS = 7 * 24
HOUR_US = 3_600 * MICROSECONDS
BETWEEN_LOOKS_US = 24 * 3_600 * MICROSECONDS
LOOKED = "looked"  # in the archive: when the whole folder was looked at last
MOST_REMOVED = 1_000  # in one request


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """Files that stay for readers: for how long whatever left, and by path what a kept release needs.

    `looked`: behind this commit nobody has looked for those of others yet, so entries stay; None: no release
    has looked at all, and none is needed.
    """

    hours: int = KEEP_HOURS
    files: Collection[str] = frozenset()
    looked: int | None = None

    def hours_of(self, handle: DeltaTable) -> int:
        """People may want files kept for longer (`delta.deletedFileRetentionDuration`)."""
        return kept_hours(handle, "deletedFile", self.hours)


def vacuum(
    table: OutputTable,
    open_plan: PlanKey | None,
    knows_plans: bool,
    now_us: int,
    kept: KeptFiles = KeptFiles(),
) -> int:
    """Remove files that left the table at least a week ago, and such as it never had; how many.

    Candidates of `open_plan` stay however old they are. Unless `knows_plans`, what was never committed
    stays: it may be of a plan whose state is elsewhere. LakeUnavailable.
    """
    with lake_errors(f"remove old data files of {table.folder}"):
        done = _remove_what_left(table, now_us, kept)
        if knows_plans and now_us - _looked_us(table) >= BETWEEN_LOOKS_US:
            names = _never_committed(table, open_plan, kept)
            _remove(table, names)
            done += len(names)
            archive = store_of(table.folder / FOLDER)
            archive.make()
            archive.put(LOOKED, lambda sink: None)
    return done


def would_remove(
    table: OutputTable,
    open_plan: PlanKey | None,
    knows_plans: bool,
    now_us: int,
    kept: KeptFiles = KeptFiles(),
) -> int:
    """How many files `vacuum` would remove now, with a look at the whole folder. LakeUnavailable."""
    with lake_errors(f"look at {table.folder}"):
        left = sum(len(gone) for _, gone in _what_left(table, now_us, kept))
        return left + (len(_never_committed(table, open_plan, kept)) if knows_plans else 0)


def _remove_what_left(table: OutputTable, now_us: int, kept: KeptFiles) -> int:
    """Remove the files that commits took out of the table, and then the bundles of these commits."""
    archive, done = ArchivedLog(table.folder), 0
    for bundle, gone in _what_left(table, now_us, kept):
        _remove(table, gone)
        archive.remove(bundle)
        done += len(gone)
    return done


def _what_left(table: OutputTable, now_us: int, kept: KeptFiles) -> Iterator[tuple[Bundle, set[str]]]:
    """The bundles of old commits, each with the files that these took out of the table.

    A bundle stays whole while a kept release needs one of its files.
    """
    archive, before_us = ArchivedLog(table.folder), now_us - kept.hours_of(table.load()) * HOUR_US
    bundles = takewhile(lambda bundle: archive.changed_us(bundle) < before_us, archive.bundles())
    there: Collection[str] | None = None
    for bundle in bundles:
        if there is None:  # somebody may have restored the table to a version that has one of them
            there = data_files(open_table(table.folder)).keys()
        gone = set(archive.removed(bundle)).difference(there)
        is_looked_at = kept.looked is None or bundle.last <= kept.looked
        if is_looked_at and gone.isdisjoint(kept.files):
            yield bundle, gone


def _looked_us(table: OutputTable) -> int:
    try:
        return store_of(table.folder / FOLDER).changed_us(LOOKED)
    except FileNotFoundError:
        return 0


def _never_committed(table: OutputTable, open_plan: PlanKey | None, kept: KeptFiles) -> list[str]:
    """Files that are a week old and that the table has not, and has not had since."""
    handle = open_table(table.folder)  # one that was open before may lack entries that are gone
    old = handle.vacuum(kept.hours_of(handle), dry_run=True, full=True)
    prefix = prefix_of(open_plan) if open_plan is not None else None
    old = [path for path in old if prefix is None or not path.rpartition("/")[2].startswith(prefix)]
    return sorted(set(old) - _left_lately(table)) if old else []


def _left_lately(table: OutputTable) -> set[str]:
    """The files that left the table within the week, as archive and log say."""
    archive = ArchivedLog(table.folder)
    log = store_of(table.folder / LOG_FOLDER)
    found = {path for bundle in archive.bundles() for path in archive.removed(bundle)}
    entries = (name for name in log.names() if name.endswith(".json"))
    return found.union(*(removed_by(log.read(name)) for name in entries))


def _remove(table: OutputTable, names: Collection[str]) -> None:
    names = list(names)
    for start in range(0, len(names), MOST_REMOVED):
        table.store.remove(*names[start : start + MOST_REMOVED])
        fault_point("compact.after_vacuumed")
