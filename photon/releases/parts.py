"""A datacenter's part of a release, counted in its lake by who can read it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import cast

from deltalake import DeltaTable

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.registry.register import Register
from photon.releases import copies
from photon.releases.files import rows_within, share_of
from photon.releases.finding import kept_releases
from photon.releases.making import Counted, lost_from_us
from photon.releases.release import NOTHING, Note, Part, Place, Release
from photon.releases.unmatched_runs import last_run, with_last_run
from photon.storage.changes import Commit, commit_at
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import LakeUnavailable
from photon.storage.foreign_commits import ForeignCommits, ForeignCommitWatch, table_gone, together
from photon.storage.replaced_files import rebuild_app
from photon.storage.tables import OutputTable, app_id, batch_of

log = logging.getLogger(__name__)

READ_TABLES: tuple[TableName, ...] = ("dead_letters", "unjoined")  # beside the joined rows
UNMATCHED: TableName = "unmatched"
# On S3 a look at a table is a request. What others commit to a side table is a red fact within a minute: with
# a release each half minute that is each time. Of a table that is not there nothing was promised.
SIDE_LOOKED_SECONDS, ABSENT_LOOKED_SECONDS = 25.0, 170.0
Others = dict[str, tuple[ForeignCommits, ...]]  # commits of others, by table


@dataclass
class LakeCounter:
    """Counts the rows of one datacenter's lake, as often as a release is made. For one thread at a time."""

    datacenter: str
    lake: Location
    _tables: dict[TableName, OutputTable] = field(default_factory=dict)
    # The last look and its result: of batches without rows no release is made, and each would count anew.
    _counted: tuple[tuple[object, ...], Counted] | None = None
    _watches: dict[TableName, ForeignCommitWatch] = field(default_factory=dict)
    _sides: dict[TableName, DeltaTable | None] = field(default_factory=dict)  # as they were looked at last
    _looked_seconds: dict[TableName, float] = field(default_factory=dict)  # when
    _own: tuple[object, ...] = ()  # what the last look found of Photon's own commits
    elapsed_seconds: Callable[[], float] = monotonic

    def count(self, before: Part | None, closed: Place) -> Counted:
        """The part up to what is closed, as far as the table has it; `before`: the part of the last release.

        LakeUnavailable.
        """
        joined = self._table("joined_events")
        handle = joined.load_if_there() or joined.load()
        with joined.reading():
            place = max(self._place(handle, closed), before.place if before else NOTHING)
            lost = self._lost(handle, before)
            if lost:
                place = self._place(handle, closed)
            is_without = not isinstance(self.lake, Path) and self._sides.get(UNMATCHED, handle) is None
            last = None if is_without else last_run(self.lake)
            own = (before, place, last, handle.version(), joined.end.mark)
            handles = {**self._side_handles(own), joined.name: handle}
            versions = {name: one.version() for name, one in handles.items()}
            marks = {name: self._table(name).end.mark for name in handles}
            look = (*own, versions, marks)
            if self._counted is not None and self._counted[0] == look:
                return self._counted[1]
            files = DataFiles(handle).all()
            part = Part(
                place,
                str(handle.metadata().id),
                rows_within(joined.store, files, place),
                handle.version(),
                joined.version_in(handle, rebuild_app(self.datacenter)),
                {name: batch_of(self._version(name, handles, place)) for name in READ_TABLES},
                _first_us(files),
                _first_us(file for file in files if _is_new(file, before, place)),
            )
            version = self._version(UNMATCHED, handles, place)
            part, run_lost = with_last_run(part, before, self.datacenter, last, version)
            sides = [name for name in (*READ_TABLES, UNMATCHED) if name in handles]
            side_files = {name: DataFiles(handles[name]).all() for name in sides}
            # `unmatched` counts once a run is known to be on disk.
            kept = [name for name in sides if name != UNMATCHED or name in part.side_batches]
            side_rows: dict[str, int] = {
                name: _rows_of(self._table(name), side_files[name], part) for name in kept
            }
            part = replace(part, side_rows=side_rows)
            part, notes, lost = self._with_others(before, part, files, side_files, versions, lost)
            if run_lost and not lost:
                notes = (*notes, Note("unmatched put back", self.datacenter, run_lost))
            has = place if before is None else self._reached(handle, before.place.epoch)
        # A start that began an epoch since has fenced those that an older copy lacks, at batch 0.
        counted = Counted(part, notes, lost, has if has.batch else NOTHING)
        self._counted = (look, counted)
        return counted

    def _table(self, name: TableName) -> OutputTable:
        return self._tables.setdefault(name, OutputTable(self.lake, name))

    def _side_handles(self, own: tuple[object, ...]) -> dict[TableName, DeltaTable]:
        """Handles on the side tables that are there.

        In a store each look is a request. So where Photon has committed nothing since the last look, which
        `own` tells, those are looked at for commits of others whose last look is long ago.
        """
        now_seconds = self.elapsed_seconds()
        sides = [name for name in TABLE_COLUMNS if name != "joined_events"]
        if own == self._own and not isinstance(self.lake, Path):
            sides = [name for name in sides if self._is_due(name, now_seconds)]
        self._sides |= {name: self._table(name).load_if_there() for name in sides}
        self._looked_seconds |= dict.fromkeys(sides, now_seconds)
        self._own = own
        return {name: handle for name, handle in self._sides.items() if handle is not None}

    def _is_due(self, side: TableName, now_seconds: float) -> bool:
        every_seconds = ABSENT_LOOKED_SECONDS if self._sides[side] is None else SIDE_LOOKED_SECONDS
        return now_seconds - self._looked_seconds[side] >= every_seconds

    def _with_others(
        self,
        before: Part | None,
        part: Part,
        files: Iterable[DataFile],
        side_files: Mapping[TableName, Sequence[DataFile]],
        versions: Mapping[TableName, int],
        lost: str,
    ) -> tuple[Part, tuple[Note, ...], str]:
        """The part with what others have done to the tables since the last release, and how it is told.

        Of an older copy it is not known: that its lake was put back says more.
        """
        if lost:
            now = {str(name): commit_at(self.lake / name, version) for name, version in versions.items()}
            return replace(part, looked=now, foreign=before.foreign if before else ()), (), lost
        looked, others = self._look({} if before is None else before.looked, versions)
        part, notes = replace(part, looked=looked), tuple[Note, ...]()
        if before is not None:
            notes, lost = self._changed(before, part, files, others)
            if lost:
                return replace(part, foreign=before.foreign), (), lost
            notes = (*notes, *self._side_changes(before, side_files, others))
        had = () if before is None else before.foreign
        new = (one for one in chain.from_iterable(others.values()) if one.kind != "rewrote")
        return replace(part, foreign=together((*had, *new))), notes, ""

    def _look(
        self, known: Mapping[str, Commit], versions: Mapping[TableName, int]
    ) -> tuple[dict[str, Commit], Others]:
        """How far commits of others were looked for by now, in each table, and those found since `known`."""
        looked: dict[str, Commit] = {}
        found: Others = {}
        for name, version in versions.items():
            entries = self._table(name).end.entries
            watch = ForeignCommitWatch(self.lake / name, self.datacenter, name, entries)
            watch = self._watches.setdefault(name, watch)
            found[name] = watch.look(known.get(name, Commit()), version)
            looked[name] = watch.through
        found |= {name: (table_gone(name, known[name]),) for name in known.keys() - versions.keys()}
        return looked, found

    def _side_changes(
        self, before: Part, there: Mapping[TableName, Sequence[DataFile]], others: Others
    ) -> Iterator[Note]:
        """Tell of side tables that have other rows up to the place of the last release than it had.

        `there`: the files of those that are there. `others` is left with what has changed rows.
        """
        for name in sorted({*before.side_rows, *others} - {"joined_events"}):
            table, had = self._table(cast(TableName, name)), before.side_rows.get(name)
            rows = had if had is None else _rows_of(table, there.get(table.name, ()), before)
            others[name] = _counted_as(others.get(name, ()), rows != had)
            if not others[name] and rows == had:
                continue
            by = f" (others made {', '.join(map(str, others[name]))})" if others[name] else ""
            changed = f"rows of {table.folder} were changed"
            if had is not None and rows != had:
                changed = f"{had:,} rows of {table.folder} up to {before.place_in(name)} are {rows:,} now"
            yield Note("side rows changed by others", self.datacenter, f"{changed}{by}")

    def _place(self, handle: DeltaTable, closed: Place) -> Place:
        """The last place that is closed and that the table has; of an epoch that is over, all that it has."""
        return min(closed, self._reached(handle, closed.epoch))

    def _reached(self, handle: DeltaTable, epoch: int) -> Place:
        """How far the table had come at the end of an epoch.

        One that has a number and no batch 0 yet is no place: an older copy of the table lacks it as well.
        """
        joined = self._table("joined_events")
        for number in range(epoch, 0, -1):
            version = joined.end.version_of(app_id(self.datacenter, str(number)), handle)
            if version is not None:
                return Place(number, batch_of(version))
        return NOTHING

    def _version(self, name: TableName, handles: Mapping[TableName, DeltaTable], place: Place) -> int:
        """The version of an epoch in a side table; 0 before the first, and where there is no table."""
        if name not in handles:
            return 0
        return self._table(name).version_in(handles[name], app_id(self.datacenter, str(place.epoch), name))

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

    def _changed(
        self, before: Part, part: Part, files: Iterable[DataFile], others: Others
    ) -> tuple[tuple[Note, ...], str]:
        """Tell what has become of the rows that the last release had, and why some are lost, if they are.

        `others` is left with what has changed rows.
        """
        joined, is_rebuilt = self._table("joined_events"), part.rebuilt > before.rebuilt
        folder, rows = joined.folder, rows_within(joined.store, files, before.place)
        is_told = is_rebuilt or rows == before.rows
        found = others["joined_events"] = _counted_as(others["joined_events"], not is_told)
        changed = f"{before.rows:,} rows of {folder} up to {before.place} are {rows:,} now"
        nobody = f"{changed}, and no commit in its log says by whom"
        notes: list[Note] = []
        if is_rebuilt:
            which = f"replacements {before.rebuilt + 1} to {part.rebuilt}"
            says = f"backfills of datacenter {self.datacenter} have made rows again ({which})"
            notes.append(Note("rebuilt", self.datacenter, says))
        if not is_told and rows < before.rows and all(one.kind == "replaced" for one in found):
            return (), f"{nobody}: its lake was put back"  # an older copy, and what it lacks was fenced since
        if found:
            what = f"rows of {folder} were changed" if is_told else changed
            says = f"{what} by {', '.join(map(str, found))}"
            notes.append(Note("changed by others", self.datacenter, says))
        elif not is_told:
            notes.append(Note("changed by others", self.datacenter, nobody))
        return tuple(notes), ""


def _counted_as(found: Sequence[ForeignCommits], differs: bool) -> tuple[ForeignCommits, ...]:
    """Commits of others: those that only rewrote files, with as many rows as before, count as no change."""
    kept = (one for one in found if one.kind != "rewrote" or differs)
    return together(replace(one, kind="took") if one.kind == "rewrote" else one for one in kept)


Count = Callable[[LakeCounter, Part | None, Place], Counted]


def count_lakes(
    pipeline: Pipeline,
    counters: Mapping[str, LakeCounter],
    last: Release | None,
    closed: Mapping[str, Place],
    register: Register,
    count: Count = LakeCounter.count,
) -> dict[str, Counted]:
    """The parts of all lakes that can be read, as of a release to follow on the last one. LakeUnavailable."""
    found: dict[str, Counted] = {}
    parts = {} if last is None else last.parts
    # A datacenter that claims nothing has no close: of its batches the last release is known.
    closed = {**{name: part.place for name, part in parts.items()}, **closed}
    for name in sorted(closed.keys() & counters.keys() - {*register.lakes_gone}):
        try:
            one = count(counters[name], parts.get(name), closed[name])
        except LakeUnavailable as error:
            log.info("the next release goes without news of datacenter %s: %s", name, error)
            continue
        if last is not None and one.lost:
            kept = {one.number: one for one in kept_releases(pipeline)}
            one = replace(one, lost_from_us=lost_from_us(name, one.lost_beyond, last, kept))
        if one.part.foreign:
            one = replace(one, verified=copies.clean_release(pipeline, name, register.given_up))
        if one.part.table_id == register.tables.get(name):
            found[name] = one
    return found


def _rows_of(table: OutputTable, files: Iterable[DataFile], part: Part) -> int:
    """How many rows of a side table a part has."""
    with table.reading():
        return rows_within(table.store, files, part.place_in(table.name))


def _is_new(file: DataFile, before: Part | None, place: Place) -> bool:
    is_known = before is not None and share_of(file, before.place) == "whole"
    return not is_known and share_of(file, place) != "none"


def _first_us(files: Iterable[DataFile]) -> int | None:
    """The beginning of the first day that these files have events of; None: there is none."""
    days = [file.date for file in files if file.date is not None]
    if not days:
        return None
    return round(datetime.combine(min(days), time(), UTC).timestamp()) * MICROSECONDS
