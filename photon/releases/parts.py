"""A datacenter's part of a release, counted in its lake by who can read it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time

from deltalake import DeltaTable

from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.registry.register import Register
from photon.releases import copies
from photon.releases.files import rows_within, share_of
from photon.releases.making import Counted, lost_from_us
from photon.releases.release import NOTHING, Note, Part, Place, Release
from photon.storage.changes import changed_by_others
from photon.storage.columns import TableName
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import LakeUnavailable
from photon.storage.replaced_files import rebuild_app
from photon.storage.tables import OutputTable, app_id, batch_of

log = logging.getLogger(__name__)

READ_TABLES: tuple[TableName, ...] = ("dead_letters", "unjoined")  # beside the joined rows
MOST_NOTES = 10  # a datacenter may add so many: a release has room for some hundred


@dataclass
class LakeCounter:
    """Counts the rows of one datacenter's lake, as often as a release is made. For one thread at a time."""

    datacenter: str
    lake: Location
    _tables: dict[TableName, OutputTable] = field(default_factory=dict)

    def count(self, before: Part | None, closed: Place) -> Counted:
        """The part up to what is closed, as far as the table has it; `before`: the part of the last release.

        LakeUnavailable.
        """
        joined = self._table("joined_events")
        handle = joined.load()
        with joined.reading():
            place = max(self._place(handle, closed), before.place if before else NOTHING)
            lost = self._lost(handle, before)
            if lost:
                place = self._place(handle, closed)
            if before is not None and (handle.version(), place) == (before.version, before.place):
                return Counted(before)
            files = DataFiles(handle).all()
            part = Part(
                place,
                str(handle.metadata().id),
                rows_within(joined.store, files, place),
                handle.version(),
                joined.version_in(handle, rebuild_app(self.datacenter)),
                {name: self._side_batch(name, place.epoch) for name in READ_TABLES},
                _first_us(files),
                _first_us(file for file in files if _is_new(file, before, place)),
            )
            notes: tuple[Note, ...] = ()
            if before is not None and not lost:
                notes, lost = self._changed(before, part, files)
            has = place if before is None else self._reached(handle, before.place.epoch)
        # A start that began an epoch since has fenced those that an older copy lacks, at batch 0.
        return Counted(part, notes, lost, has if has.batch else NOTHING)

    def _table(self, name: TableName) -> OutputTable:
        return self._tables.setdefault(name, OutputTable(self.lake, name))

    def _place(self, handle: DeltaTable, closed: Place) -> Place:
        """The last place that is closed and that the table has; of an epoch that is over, all that it has."""
        return min(closed, self._reached(handle, closed.epoch))

    def _reached(self, handle: DeltaTable, epoch: int) -> Place:
        """How far the table had come at the end of an epoch.

        One that has a number and no batch 0 yet is no place: an older copy of the table lacks it as well.
        """
        for number in range(epoch, 0, -1):
            version = handle.transaction_version(app_id(self.datacenter, str(number)))
            if version is not None:
                return Place(number, batch_of(version))
        return NOTHING

    def _side_batch(self, name: TableName, epoch: int) -> int:
        table = self._table(name)
        app = app_id(self.datacenter, str(epoch), name)
        return batch_of(table.version_of(app)) if table.exists() else 0

    def _lost(self, handle: DeltaTable, before: Part | None) -> str:
        """Why the table lacks what the last release had of it, as an older copy does."""
        if before is None:
            return ""
        joined = self._table("joined_events")
        has = self._reached(handle, before.place.epoch)
        rebuilt = joined.version_in(handle, rebuild_app(self.datacenter))
        if has >= before.place and rebuilt >= before.rebuilt:
            return ""
        found, had = f"{has}, replacement {rebuilt}", f"{before.place}, replacement {before.rebuilt}"
        return f"the table {joined.folder} is at {found}, and was at {had}: its lake was put back"

    def _changed(self, before: Part, part: Part, files: Iterable[DataFile]) -> tuple[tuple[Note, ...], str]:
        """Tell what has become of the rows that the last release had, and why some are lost, if they are."""
        joined, is_rebuilt = self._table("joined_events"), part.rebuilt > before.rebuilt
        folder, rows = joined.folder, rows_within(joined.store, files, before.place)
        if rows == before.rows and not is_rebuilt:
            return (), ""
        notes: list[Note] = []
        if is_rebuilt:
            which = f"replacements {before.rebuilt + 1} to {part.rebuilt}"
            says = f"backfills of datacenter {self.datacenter} have made rows again ({which})"
            notes.append(Note("rebuilt", self.datacenter, says))
        changed = f"{before.rows:,} rows of {folder} up to {before.place} are {rows:,} now"
        commits = list(changed_by_others(folder, before.version + 1, part.version))
        nobody = f"{changed}, and no commit in its log says by whom"
        if commits:
            by = ", ".join(f"{operation} in version {version}" for version, operation in commits[:MOST_NOTES])
            what = f"besides, rows of {folder} were changed" if is_rebuilt else changed
            notes.append(Note("changed by others", self.datacenter, f"{what} by {by}"))
        elif not is_rebuilt and rows < before.rows:
            return (), f"{nobody}: its lake was put back"  # an older copy, and what it lacks was fenced since
        elif not is_rebuilt:
            notes.append(Note("changed by others", self.datacenter, nobody))
        return tuple(notes), ""


Count = Callable[[LakeCounter, Part | None, Place], Counted]


def count_lakes(
    counters: Mapping[str, LakeCounter],
    last: Release | None,
    closed: Mapping[str, Place],
    register: Register,
    count: Count = LakeCounter.count,
) -> dict[str, Counted]:
    """The parts of all lakes that can be read, as of a release to follow on the last one."""
    found: dict[str, Counted] = {}
    for name in closed.keys() & counters.keys() - {*register.lakes_gone}:
        try:
            one = count(counters[name], None if last is None else last.parts.get(name), closed[name])
        except LakeUnavailable as error:
            log.info("the next release goes without news of datacenter %s: %s", name, error)
            continue
        if last is not None and one.lost:
            kept = {one.number: one for counter in counters.values() for one in _kept(counter.lake)}
            one = replace(one, lost_from_us=lost_from_us(name, one.lost_beyond, last, kept))
        if one.part.table_id == register.tables.get(name):
            found[name] = one
    return found


def _kept(lake: Location) -> list[Release]:
    """The copies in a lake, none where it does not answer."""
    with suppress(OSError):
        return copies.kept(lake)
    return []


def _is_new(file: DataFile, before: Part | None, place: Place) -> bool:
    is_known = before is not None and share_of(file, before.place) == "whole"
    return not is_known and share_of(file, place) != "none"


def _first_us(files: Iterable[DataFile]) -> int | None:
    """The beginning of the first day that these files have events of; None: there is none."""
    days = [file.date for file in files if file.date is not None]
    if not days:
        return None
    return round(datetime.combine(min(days), time(), UTC).timestamp()) * MICROSECONDS
