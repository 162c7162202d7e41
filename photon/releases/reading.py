"""Open the tables of a release as they are now, and compare each with what the release says (R9).

A rebuild since the release left a list of the files that it replaced (R7): those count in place of the new
ones. `ReleaseUnreadable` names a lake that lacks something, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import pyarrow as pa
from deltalake import DeltaTable

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.readable import counted
from photon.releases import copies
from photon.releases.files import ReleaseFiles, before, condition, rows_within, shares
from photon.releases.finding import (
    ReleaseUnreadable,
    Wanted,
    asked_of_lakes,
    bring_back,
    find_release,
    remedy,
)
from photon.releases.release import Part, Place, Release
from photon.state.starting import what_starts
from photon.storage.archived_log import commits
from photon.storage.columns import TableName
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import APP_METADATA, NUMBER_METADATA, LakeUnavailable, columns_in_files, lake_errors
from photon.storage.foreign_commits import last_of_others
from photon.storage.mended_letters import MENDED_LETTERS
from photon.storage.replaced_files import LIST_METADATA, ReplacedFiles, rebuild_app
from photon.storage.replacing import data_files
from photon.storage.store import ObjectStore
from photon.storage.tables import OutputTable, app_id, batch_of

_MENDED_COLUMNS = ["_epoch", "_batch", "_occurrence"]


def open_release(pipeline: Pipeline, wanted: Wanted = "latest") -> OpenRelease:
    """Find a release. Its methods open and compare the tables.

    ReleaseUnreadable, NoRelease, FormatTooNew.
    """
    return OpenRelease(pipeline, find_release(pipeline, wanted))


@dataclass(frozen=True)
class JoinedFiles:
    """The files of a datacenter's joined rows: `now` as a release has them, `then` as an earlier one did."""

    store: ObjectStore
    columns: pa.Schema  # those that the files have
    now: tuple[DataFile, ...]
    then: tuple[DataFile, ...]


@dataclass(frozen=True)
class OpenRelease:
    """A release, and the tables of its datacenters as they are now.

    `opened`: tables of joined rows by datacenter, whose logs were read before and are not read again.
    """

    pipeline: Pipeline
    release: Release
    opened: dict[str, OutputTable] = field(default_factory=dict, compare=False, repr=False)

    def tables(self, table: TableName) -> list[ReleaseFiles]:
        """Check each datacenter's lake, and list the files of one table that have rows of the release.

        ReleaseUnreadable.
        """
        found = (self.table(name, table) for name in sorted(self.release.parts))
        return [files for files in found if files is not None]

    def table(self, datacenter: str, table: TableName) -> ReleaseFiles | None:
        """As `tables`, for one datacenter; None: it had made no such table. ReleaseUnreadable."""
        part, main = self.release.parts[datacenter], self._main_table(datacenter)
        with self.reading(datacenter):
            if table == "joined_events":
                handle = main.load()
                files = self._checked_files(datacenter, part, main, handle)
            else:
                side = OutputTable(main.folder.parent, table)
                # Runs make `unmatched`, and their rows are on disk for sure once a release names one.
                is_there = table in part.side_batches if table == "unmatched" else side.exists()
                if not is_there and not part.side_batches.get(table):
                    return None
                main, handle = side, side.load()
                self._check_batches(datacenter, handle, table, part.side_batches.get(table, 0))
                files = DataFiles(handle).all()
                self._check_side_rows(datacenter, side, handle.version(), files)
        schema = pa.schema(handle.schema().to_arrow())
        place = part.place_in(table)
        return ReleaseFiles(datacenter, table, main.folder, place, schema, *shares(files, place))

    def mended(self, datacenter: str) -> pa.Table:
        """The dead letters that batches of the release took up again: `_epoch`, `_batch`, `_occurrence`.

        `_batch` was completed before: a dead letter of a later one has failed again. ReleaseUnreadable.
        """
        nothing = pa.schema([MENDED_LETTERS.columns.field(one) for one in _MENDED_COLUMNS]).empty_table()
        if datacenter not in self.release.parts:  # it had not joined, or was retired without its lake
            return nothing
        place, lake = self.release.parts[datacenter].place, self._main_table(datacenter).folder.parent
        name = next(name for name, one in self.pipeline.datacenters.items() if one.lake == lake)
        # The batch behind `_batch` is the first that can take it up: the release has to have that one.
        taken_up = condition(Place(place.epoch, place.batch - 1))
        with self.reading(datacenter), MENDED_LETTERS.reading(self.pipeline, name) as rows:
            if rows is None:
                return nothing
            return rows.to_table(columns=_MENDED_COLUMNS, filter=taken_up)

    def joined_files(self, datacenter: str, earlier: Part | None = None) -> JoinedFiles:
        """The files of joined rows now and as an earlier part has them, from one view of the table.

        Rows are not counted. ReleaseUnreadable.
        """
        part, main = self.release.parts[datacenter], self._main_table(datacenter)
        with self.reading(datacenter):
            handle = main.load()
            now = self._files_at(datacenter, main, handle, part)
            other = earlier or part
            then = now if other.rebuilt == part.rebuilt else self._files_at(datacenter, main, handle, other)
        columns = columns_in_files(handle)
        return JoinedFiles(main.store, columns, tuple(now.values()), tuple(then.values()))

    def _main_table(self, datacenter: str) -> OutputTable:
        """The table of a datacenter's joined rows, by its id: the datacenter may have a new name."""
        ids, away = self._tables_by_id
        part, known = self.release.parts[datacenter], self.pipeline.datacenters.get(datacenter)
        if part.table_id not in ids:
            if datacenter in away:
                raise self._unreadable(datacenter, away[datacenter])
            where = self.pipeline.file if known is None else known.lake
            why = f"{where} has no table joined_events with the id {part.table_id}"
            advice = self._newer_release(datacenter, "joined_events") or bring_back(self.pipeline, datacenter)
            raise self._unreadable(datacenter, f"{why}; {advice}")
        return ids[part.table_id]

    @cached_property
    def _tables_by_id(self) -> tuple[dict[str, OutputTable], dict[str, str]]:
        """The tables of joined rows in all lakes, and why others can't be opened, with what to do."""
        ids: dict[str, OutputTable] = {}
        away: dict[str, str] = {}
        for name, place in self.pipeline.datacenters.items():
            table = self.opened.get(name) or OutputTable(place.lake, "joined_events")
            try:
                if name in self.opened or table.exists():
                    ids[table.table_id()] = self.opened[name] = table
            except LakeUnavailable as error:
                away[name] = f"{error}{remedy(self.pipeline, name, error)}"
        return ids, away

    # -- what a table has to hold

    def _checked_files(
        self, datacenter: str, part: Part, table: OutputTable, handle: DeltaTable
    ) -> list[DataFile]:
        """The files of joined rows as the release had them; count their rows, which are as many as then."""
        files = self._files_at(datacenter, table, handle, part)
        found = rows_within(table.store, files.values(), part.place)
        if found != part.rows:
            others = last_of_others(table, datacenter, handle.version(), part.version)
            rows = counted(found, "row")
            why = f"{table.folder} has {rows} up to {part.place}, and must have {part.rows:,}{others}"
            raise self._changed(datacenter, why)
        return list(files.values())

    def _check_side_rows(
        self, datacenter: str, side: OutputTable, version: int, files: Iterable[DataFile]
    ) -> None:
        """Count the rows of a side table, if the release did: those of earlier versions did not."""
        part = self.release.parts[datacenter]
        place, expected = part.place_in(side.name), part.side_rows.get(side.name)
        if expected is None or (found := rows_within(side.store, files, place)) == expected:
            return
        others, rows = last_of_others(side, datacenter, version), counted(found, "row")
        why = f"{side.folder} has {rows} up to {place}, and must have {expected:,}{others}"
        raise self._changed(datacenter, why, side.name)

    def _files_at(
        self, datacenter: str, table: OutputTable, handle: DeltaTable, then: Part
    ) -> Mapping[str, DataFile]:
        """The files of joined rows as a part had them, before later rebuilds; each has to be there."""
        part = self.release.parts[datacenter]
        self._check_batches(datacenter, handle, "joined_events", part.place.batch)
        rebuilt = handle.transaction_version(rebuild_app(datacenter)) or 0
        if rebuilt < part.rebuilt:
            why = f"{table.folder} is at rebuild {rebuilt}, and must have {part.rebuilt}"
            raise self._older(datacenter, "joined_events", why)
        files = self._before_rebuilds(datacenter, table, handle, rebuilt, then)
        for path in sorted(files.keys() - data_files(handle).keys()) if rebuilt > then.rebuilt else ():
            if table.store.size_bytes(path) != files[path].size_bytes:
                why = f"the data file {table.folder / path}, which a rebuild replaced, is gone"
                raise self._changed(datacenter, why)
        return files

    def _check_batches(self, datacenter: str, handle: DeltaTable, table: TableName, batch: int) -> None:
        epoch = self.release.parts[datacenter].place.epoch
        found = batch_of(handle.transaction_version(app_id(datacenter, str(epoch), table)) or 0)
        if found < batch:
            why = f"{table} is at batch {found} of epoch {epoch}, and must have {batch}"
            raise self._older(datacenter, table, why)

    def _before_rebuilds(
        self, datacenter: str, table: OutputTable, handle: DeltaTable, rebuilt: int, part: Part
    ) -> Mapping[str, DataFile]:
        """The table's files as a part had them: take back each later rebuild, the last one first."""
        files: Mapping[str, DataFile] = {file.path: file for file in DataFiles(handle).all()}
        kept = ReplacedFiles(table.folder.parent)
        lists = [kept.read(name) for name in kept.names(above=part.rebuilt)] if rebuilt > part.rebuilt else []
        for number in range(rebuilt, part.rebuilt, -1):
            done = [one for one in lists if one.number == number and one.is_done_in(files.keys())]
            if len(done) > 1:  # a rebuild that was killed before its commit left a list too
                name = _list_of(table.folder, handle.version(), part.version, rebuild_app(datacenter), number)
                done = [one for one in done if one.name == name]
            if len(done) != 1:
                others = last_of_others(table, datacenter, handle.version(), part.version)
                why = f"nobody can tell which rows of {table.folder} rebuild {number} has replaced{others}"
                raise self._changed(datacenter, why)
            files = before(files, done[0])
        return files

    # -- errors

    @contextmanager
    def reading(self, datacenter: str) -> Iterator[None]:
        """Raise what goes wrong with a lake as ReleaseUnreadable."""
        try:
            with lake_errors(f"read the tables of datacenter {datacenter}"):
                yield
        except LakeUnavailable as error:
            why = f"{error}{remedy(self.pipeline, datacenter, error)}"
            raise self._unreadable(datacenter, why) from error

    def _unreadable(self, datacenter: str, why: str) -> ReleaseUnreadable:
        return ReleaseUnreadable(self.release.number, datacenter, why)

    def _changed(self, datacenter: str, why: str, table: TableName = "joined_events") -> ReleaseUnreadable:
        """The error where others changed rows: the next release counts anew."""
        advice = self._newer_release(datacenter, table) or self._next_release(datacenter)
        return self._unreadable(datacenter, f"{why}; {advice}")

    def _older(self, datacenter: str, table: TableName, why: str) -> ReleaseUnreadable:
        """The error where a table is an older copy."""
        back = f"put the newest copy of the lake back; without one: {self._next_release(datacenter)}"
        return self._unreadable(datacenter, f"{why}; {self._newer_release(datacenter, table) or back}")

    def _newer_release(self, datacenter: str, table: TableName) -> str:
        """Say which newer release to read, if it has this table; empty: none yet."""
        found, _ = asked_of_lakes(self.pipeline, copies.latest)
        newest = max(found.values(), key=lambda one: one.number, default=self.release)
        if newest.number <= self.release.number:
            return ""
        if datacenter in newest.lakes_gone:
            return f"the datacenter was retired without its lake: read release {newest.number}"
        with suppress(ReleaseUnreadable):
            if datacenter in newest.parts:
                OpenRelease(self.pipeline, newest, self.opened).table(datacenter, table)
            return f"release {newest.number} has what is there now: read that one"
        return ""

    def _next_release(self, datacenter: str) -> str:
        command = what_starts(self.pipeline, datacenter)
        return f"the next release has what is there now, and a join makes it: {command}"


def _list_of(folder: Location, version: int, since: int, app: str, number: int) -> str | None:
    """The name of the list that a replacement's commit names; None: the commit is gone."""
    for commit in islice(commits(folder, version), version - since):
        if (commit.get(APP_METADATA), commit.get(NUMBER_METADATA)) == (app, str(number)):
            return commit.get(LIST_METADATA)
    return None
