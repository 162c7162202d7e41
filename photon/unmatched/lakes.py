"""The tables that a run goes by: the rows of a release, and what any datacenter has called unmatched."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.registry.known_tables import known_tables
from photon.registry.register import Register
from photon.releases.files import ReleaseFiles
from photon.releases.finding import bring_back, remedy
from photon.releases.reading import OpenRelease
from photon.releases.release import Part
from photon.storage.columns import UNMATCHED_COLUMNS
from photon.storage.data_files import DataFiles, pages_of_rows, paths_before
from photon.storage.delta import LakeUnavailable
from photon.storage.store import store_of
from photon.storage.tables import FENCE_VERSION, CommitConflict, OutputTable, app_id
from photon.unmatched.found import HeldBack

ROWS_AT_ONCE = 2**17
_NAMED = pa.schema([ROW_COLUMNS.field(name) for name in ("_primary_id", "_primary_time")])
_WRITTEN = pa.schema([UNMATCHED_COLUMNS.field(name) for name in ("primary_id", "primary_time")])
_TIMES = pa.schema([ROW_COLUMNS.field(name) for name in ("_event_time", "_primary_id")])


@dataclass(frozen=True)
class Lakes:
    """The lakes whose rows count, by datacenter; each is the one that the registry knows."""

    owner: str
    places: Mapping[str, Location]

    @property
    def own(self) -> OutputTable:
        return OutputTable(self.places[self.owner], "unmatched")

    def written(self) -> Iterator[pa.Table]:
        """The ids and times of all primaries that were called unmatched, by whichever datacenter (U2)."""
        for lake in self.places.values():
            table = OutputTable(lake, "unmatched")
            if table.exists():
                with table.reading():
                    files = DataFiles(table.load()).all()
                    yield from pages_of_rows(table.store, files, _WRITTEN, None, ROWS_AT_ONCE)

    def has_no_rows_behind(self, part: Part | None) -> bool:
        """Whether the owner has joined nothing that its part of a release lacks. LakeUnavailable."""
        if part is None:
            return False
        joined = OutputTable(self.places[self.owner], "joined_events")
        with joined.reading():
            files = DataFiles(joined.load()).of_epoch(str(part.place.epoch))
        return all(file.last_batch is not None and file.last_batch <= part.place.batch for file in files)

    def fence(self, register: Register) -> None:
        """Have no epoch commit any more but the owner's own one (U1). HeldBack, LakeUnavailable.

        The table may have been made after an epoch was ended, which fenced only those that were there.
        """
        for name, lake in self.places.items():
            table = OutputTable(lake, "unmatched")
            if not table.exists():
                continue
            ended = register.epochs.get(name, 0) + (name in register.given_up)
            handle = table.load()
            for number in range(1, ended):
                app = app_id(name, str(number), "unmatched")
                if table.version_in(handle, app) < FENCE_VERSION:
                    try:
                        table.fence(app)
                    except CommitConflict as error:
                        raise HeldBack(f"others commit to {table.folder}: {error}; try again") from error


def lakes_of(pipeline: Pipeline, register: Register, owner: str) -> Lakes:
    """The lakes of all tables that the registry knows. HeldBack: one does not answer, or is another one (U6).

    An empty folder is no lake without unmatched primaries: its disk may not be mounted.
    """
    found: dict[str, Location] = {}
    away: dict[str, str] = {}
    for name, place in pipeline.datacenters.items():
        table = OutputTable(place.lake, "joined_events")
        try:
            if table.exists():
                found[table.table_id()] = place.lake
            else:
                away[name] = f"{place.lake} has no table joined_events; {bring_back(pipeline, name)}"
        except LakeUnavailable as error:
            away[name] = f"{error}{remedy(pipeline, name, error)}"
    places: dict[str, Location] = {}
    for name, table_id in known_tables(register).items():
        if table_id not in found:
            lacks = f"no lake in {pipeline.file} has the table {table_id}; {bring_back(pipeline, name)}"
            why = away.get(name, lacks)
            raise HeldBack(f"the lake of datacenter {name} may have rows, and can't be asked: {why}")
        places[name] = found[table_id]
    if owner not in places:
        raise HeldBack(f"datacenter {owner}, the owner, has no table of joined rows yet: it has to join")
    return Lakes(owner, places)


def named_in(opened: OpenRelease, from_us: int | None) -> Iterator[pa.Table]:
    """The primaries of joined rows in a release, by id and time, from a time on. ReleaseUnreadable."""
    wanted = None if from_us is None else ds.field("_primary_time") >= _time(from_us)
    for one in opened.tables("joined_events"):
        with opened.reading(one.datacenter):
            table = next(table for table in opened.opened.values() if table.folder == one.folder)
            passed = set() if from_us is None else paths_before(table.load(), "_primary_time", from_us)
            yield from _pages(one, _NAMED, wanted, passed)


def earlier_rows_end_us(opened: OpenRelease) -> int | None:
    """The latest event time of rows that name no primary: an earlier version of Photon joined them.

    None: each row names its own. ReleaseUnreadable.
    """
    wanted = ds.field("_primary_id").is_null()
    latest: list[int | None] = []
    for one in opened.tables("joined_events"):
        with opened.reading(one.datacenter):
            latest += [pc.max(page["_event_time"]).value for page in _pages(one, _TIMES, wanted)]
    return max((value for value in latest if value is not None), default=None)


def _pages(
    one: ReleaseFiles, columns: pa.Schema, wanted: ds.Expression | None, passed: Collection[str] = ()
) -> Iterator[pa.Table]:
    """The wanted rows of a release in one table, but for files that are passed over."""
    partial = one.condition if wanted is None else one.condition & wanted
    for files, filtered in ((one.whole, wanted), (one.partial, partial)):
        read = [file for file in files if file.path not in passed]
        yield from pages_of_rows(store_of(one.folder), read, columns, filtered, ROWS_AT_ONCE)


def _time(time_us: int) -> pa.Scalar:
    return pa.scalar(time_us, pa.timestamp("us", "UTC"))
