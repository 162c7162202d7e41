"""Open a release from the lakes alone: no registry is asked, and no lock taken.

A release is found among the copies in all lakes. Each table that is read has to hold what the release says
of its datacenter; else `ReleaseUnreadable` names the lake and the remedy. What rebuilds have replaced since
is put back in its place, by their lists (R7), before rows are counted (R9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, in_utc
from photon.releases import copies
from photon.releases.files import ReleaseFiles, before, condition, rows_within, shares
from photon.releases.release import Part, Place, Release
from photon.storage.archived_log import commits
from photon.storage.changes import commits_of_others
from photon.storage.columns import TableName
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import LakeForbidden, LakeUnavailable, columns_in_files, lake_errors
from photon.storage.mended_letters import MENDED_LETTERS
from photon.storage.replaced_files import LIST_METADATA, ReplacedFiles, rebuild_app
from photon.storage.replacing import NUMBER_METADATA, data_files
from photon.storage.store import Store
from photon.storage.store_errors import reason_of
from photon.storage.tables import APP_METADATA, OutputTable, app_id, batch_of

Answer = TypeVar("Answer")
Wanted = int | Literal["latest"] | datetime  # a time: the newest release that was made by then
_MENDED_COLUMNS = ["_epoch", "_batch", "_occurrence"]


class NoRelease(UserError):
    """There is no such release, not yet or not any more; the message says which are there."""


class ReleaseUnreadable(UserError):
    """A lake does not hold what a release says of it; the message says what was expected and what to do."""

    def __init__(self, number: int | None, datacenter: str, why: str) -> None:
        what = "no release can" if number is None else f"release {number} can't"
        super().__init__(f"{what} be read, for the lake of datacenter {datacenter}: {why}")
        self.datacenter = datacenter


# -- which release


def open_release(pipeline: Pipeline, wanted: Wanted = "latest") -> OpenRelease:
    """Find a release in the lakes (R10). Its tables are opened, and compared, when they are asked for.

    ReleaseUnreadable, NoRelease, FormatTooNew.
    """
    found, away = asked_of_lakes(pipeline, lambda lake: _copy(lake, wanted))
    if not found:
        for name, why in away.items():
            raise ReleaseUnreadable(None, name, why)
        raise NoRelease(_none_there(pipeline, wanted))
    release = max(found.values(), key=lambda one: one.number)
    if not isinstance(wanted, int):  # a lake that does not answer may have a newer one
        for name in sorted(away.keys() & release.parts.keys()):
            raise ReleaseUnreadable(release.number, name, away[name])
        if (without := _without_its_copies(pipeline, release, found)) is not None:
            folder = pipeline.datacenters[without].lake / copies.FOLDER
            why = f"{folder} has none, and releases were made there: a newer one may be missing"
            remedy = f"put the folder back; {_next(pipeline)}"
            raise ReleaseUnreadable(release.number, without, f"{why}; {remedy}")
    same, _ = asked_of_lakes(pipeline, lambda lake: copies.release(lake, release.number))
    for name, one in same.items():
        if one != release:
            raise another_under(pipeline, name, release.number)
    return OpenRelease(pipeline, release)


def _without_its_copies(pipeline: Pipeline, release: Release, found: Collection[str]) -> str | None:
    """A datacenter that has made a release, and whose lake keeps none: a newer one may be missing there."""
    silent = [name for name in sorted(release.parts) if name in pipeline.datacenters and name not in found]
    makers = {one.by for one in kept_releases(pipeline)} if silent else set()
    tables = ((name, OutputTable(pipeline.datacenters[name].lake, "joined_events")) for name in silent)
    return next((name for name, table in tables if name in makers and table.exists()), None)


def kept_releases(pipeline: Pipeline) -> list[Release]:
    """All releases that any lake keeps, the oldest first. LakeUnavailable: no lake answers; FormatTooNew."""
    kept, away = asked_of_lakes(pipeline, copies.kept)
    if not kept and away:
        raise LakeUnavailable("; ".join(away.values()))
    found = {one.number: one for releases in kept.values() for one in releases}
    return [found[number] for number in sorted(found)]


def another_under(pipeline: Pipeline, name: str, number: int) -> ReleaseUnreadable:
    """The error where two lakes have two releases of one number."""
    why = f"{pipeline.datacenters[name].lake} has another release under this number"
    return ReleaseUnreadable(number, name, f"{why}; {_mismatch(pipeline)}")


def _copy(lake: Location, wanted: Wanted) -> Release | None:
    if isinstance(wanted, int):
        return copies.release(lake, wanted)
    if isinstance(wanted, datetime):
        return copies.as_of(lake, microseconds_at(wanted))
    return copies.latest(lake)


def microseconds_at(moment: datetime) -> int:
    """A time, in UTC unless it says otherwise, as microseconds since 1970."""
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(at.timestamp() * MICROSECONDS)


def asked_of_lakes(
    pipeline: Pipeline, ask: Callable[[Location], Answer | None]
) -> tuple[dict[str, Answer], dict[str, str]]:
    """The lakes' answers by datacenter, and why others gave none, with what to do."""
    answers: dict[str, Answer] = {}
    away: dict[str, str] = {}
    for name, place in pipeline.datacenters.items():
        what = f"cannot read the releases in {place.lake}"
        try:
            try:
                answer = ask(place.lake)
            except FileNotFoundError:  # a copy was packed between a look and the read
                answer = ask(place.lake)
        except OSError as error:
            away[name] = f"{what}: {reason_of(error)}{_remedy(pipeline, name, error)}"
        except (ValueError, KeyError, TypeError):
            away[name] = f"{what}: one of the copies is damaged; remove it, another lake may have it"
        else:
            if answer:
                answers[name] = answer
    return answers, away


def _none_there(pipeline: Pipeline, wanted: Wanted) -> str:
    there = kept_releases(pipeline)
    if not there:
        return none_yet(pipeline)
    first, last = (f"{one.number}, made {in_utc(one.made_us, 'seconds')}" for one in (there[0], there[-1]))
    what = f"number {wanted}" if isinstance(wanted, int) else f"that was made by {wanted}"
    kept = f"kept are {first}, to {last}: photon releases {pipeline.typed} lists them"
    return f"{pipeline.name} has no release {what}; {kept}"


def none_yet(pipeline: Pipeline) -> str:
    """Say that no lake has a release, and what to do; a folder that is not there may only not be mounted."""
    lakes = [place.lake for place in pipeline.datacenters.values()]
    gone = [str(lake) for lake in lakes if isinstance(lake, Path) and not lake.is_dir()]
    mount = f"if it has joined before, mount {' and '.join(gone)} or put it back; else " if gone else ""
    return f"{pipeline.name} has no release yet; {mount}{_next(pipeline)}"


def _next(pipeline: Pipeline) -> str:
    return f"a join makes one: photon join {pipeline.typed}"


def _remedy(pipeline: Pipeline, name: str, error: Exception) -> str:
    """Say what to do where a lake does not answer; a store that refuses credentials has said it itself."""
    refused = isinstance(error, PermissionError | LakeForbidden)
    return "" if refused else f"; {_bring_back(pipeline, name)}"


def _bring_back(pipeline: Pipeline, name: str) -> str:
    lost = f"if it is lost for good: photon retire {pipeline.typed} {name} --lake-is-gone"
    return f"mount the lake or put it back; {lost}"


def _mismatch(pipeline: Pipeline) -> str:
    return f"put the newest copy of that lake back, or else: photon registry refill {pipeline.typed}"


def least_rebuilt(pipeline: Pipeline, datacenter: str) -> int | None:
    """The last replacement that every kept release shows: readers undo later ones, by their lists (R8).

    0 while a lake does not answer; None: there is no release. LakeUnavailable, FormatTooNew.
    """
    lake = pipeline.datacenters[datacenter].lake
    with lake_errors(f"read the releases in {lake}"):
        newest = copies.latest(lake)
    oldest, away = asked_of_lakes(pipeline, copies.oldest)
    gone = () if newest is None else newest.lakes_gone
    if away.keys() - set(gone):
        return 0
    parts = [one.parts.get(datacenter) for one in oldest.values()]
    return min((0 if part is None else part.rebuilt for part in parts), default=None)


# -- its tables


@dataclass(frozen=True)
class JoinedFiles:
    """The files of a datacenter's joined rows: `now` as a release has them, `then` as an earlier one did."""

    store: Store
    columns: pa.Schema  # of the files
    now: tuple[DataFile, ...]
    then: tuple[DataFile, ...]


@dataclass(frozen=True)
class OpenRelease:
    """A release, and the tables of its datacenters as they are now.

    `opened`: tables of joined rows that were opened before, by datacenter. Their logs are not read again.
    """

    pipeline: Pipeline
    release: Release
    opened: dict[str, OutputTable] = field(default_factory=dict, compare=False, repr=False)

    def tables(self, table: TableName) -> list[ReleaseFiles]:
        """The files of one table of each datacenter that have rows of the release, each lake checked.

        ReleaseUnreadable.
        """
        found = (self.table(name, table) for name in sorted(self.release.parts))
        return [files for files in found if files is not None]

    def table(self, datacenter: str, table: TableName) -> ReleaseFiles | None:
        """The same of one datacenter; None where it had made no such table. ReleaseUnreadable."""
        part, main = self.release.parts[datacenter], self._main_table(datacenter)
        with self.reading(datacenter):
            if table == "joined_events":
                handle = main.load()
                files = self._checked_files(datacenter, part, main, handle)
            else:
                side = OutputTable(main.folder.parent, table)
                # Rows of a run that no release knows may not be on disk.
                is_there = table in part.side_batches if table == "unmatched" else side.exists()
                if not is_there and not part.side_batches.get(table):
                    return None
                main, handle = side, side.load()
                self._check_batches(datacenter, handle, table, part.side_batches.get(table, 0))
                files = DataFiles(handle).all()
        schema = pa.schema(handle.schema().to_arrow())
        place = part.place_in(table)
        return ReleaseFiles(datacenter, table, main.folder, place, schema, *shares(files, place))

    def mended(self, datacenter: str) -> pa.Table:
        """The dead letters that batches of the release took up again: `_epoch`, `_batch`, `_occurrence`.

        A letter of a later batch has failed again since. ReleaseUnreadable.
        """
        nothing = pa.schema([MENDED_LETTERS.columns.field(one) for one in _MENDED_COLUMNS]).empty_table()
        if datacenter not in self.release.parts:  # it had not joined, or was retired without its lake
            return nothing
        place, lake = self.release.parts[datacenter].place, self._main_table(datacenter).folder.parent
        name = next(name for name, one in self.pipeline.datacenters.items() if one.lake == lake)
        # A later batch takes up what a batch completed: the release has to have both.
        taken_up = condition(Place(place.epoch, place.batch - 1))
        with self.reading(datacenter), MENDED_LETTERS.reading(self.pipeline, name) as rows:
            if rows is None:
                return nothing
            return rows.to_table(columns=_MENDED_COLUMNS, filter=taken_up)

    def joined_files(self, datacenter: str, before: Part | None = None) -> JoinedFiles:
        """The files of joined rows, from one view of the table, also as an earlier part has them.

        ReleaseUnreadable. Rows are not counted.
        """
        part, main = self.release.parts[datacenter], self._main_table(datacenter)
        with self.reading(datacenter):
            handle = main.load()
            now = self._files_at(datacenter, main, handle, part)
            is_same = before is None or before.rebuilt == part.rebuilt
            then = now if is_same else self._files_at(datacenter, main, handle, before or part)
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
            raise self._unreadable(datacenter, f"{why}; {self._remedy_without(datacenter)}")
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
                away[name] = f"{error}{_remedy(self.pipeline, name, error)}"
        return ids, away

    def _remedy_without(self, name: str) -> str:
        """Say what to do where a datacenter's table is not there: if it is retired, read a later release."""
        later = (one for one in kept_releases(self.pipeline) if name in one.lakes_gone)
        first = next(later, None)
        if first is None:
            return _bring_back(self.pipeline, name)
        return f"datacenter {name} was retired without its lake: read release {first.number} or a later one"

    # -- what a table has to hold

    def _checked_files(
        self, datacenter: str, part: Part, table: OutputTable, handle: DeltaTable
    ) -> list[DataFile]:
        """The files of joined rows, as rebuilds that came after the release had found them."""
        files = self._files_at(datacenter, table, handle, part)
        found = rows_within(table.store, files.values(), part.place)
        if found != part.rows:
            others = _last_of_others(table.folder, handle.version(), part.version)
            why = f"{table.folder} has {found:,} rows up to {part.place}, and must have {part.rows:,}{others}"
            raise self._unreadable(datacenter, f"{why}; {self._later()}")
        return list(files.values())

    def _files_at(
        self, datacenter: str, table: OutputTable, handle: DeltaTable, of: Part
    ) -> Mapping[str, DataFile]:
        """The files of joined rows without rebuilds that came after a part; each file has to be there."""
        part = self.release.parts[datacenter]
        self._check_batches(datacenter, handle, "joined_events", part.place.batch)
        rebuilt = handle.transaction_version(rebuild_app(datacenter)) or 0
        if rebuilt < part.rebuilt:
            why = f"{table.folder} is at rebuild {rebuilt}, and must have {part.rebuilt}"
            raise self._unreadable(datacenter, f"{why}; {self._older(datacenter)}")
        files = self._before_rebuilds(datacenter, table, handle, rebuilt, of)
        for path in sorted(files.keys() - data_files(handle).keys()) if rebuilt > of.rebuilt else ():
            if table.store.size_bytes(path) != files[path].size_bytes:
                why = f"the data file {table.folder / path}, which a rebuild replaced, is gone"
                raise self._unreadable(datacenter, f"{why}; {self._later()}")
        return files

    def _check_batches(self, datacenter: str, handle: DeltaTable, table: TableName, batch: int) -> None:
        epoch = self.release.parts[datacenter].place.epoch
        found = batch_of(handle.transaction_version(app_id(datacenter, str(epoch), table)) or 0)
        if found < batch:
            why = f"{table} is at batch {found} of epoch {epoch}, and must have {batch}"
            raise self._unreadable(datacenter, f"{why}; {self._older(datacenter)}")

    def _before_rebuilds(
        self, datacenter: str, table: OutputTable, handle: DeltaTable, rebuilt: int, part: Part
    ) -> Mapping[str, DataFile]:
        """The table's files without the rebuilds that came after a part; the last one goes first."""
        files: Mapping[str, DataFile] = {file.path: file for file in DataFiles(handle).all()}
        kept = ReplacedFiles(table.folder.parent)
        lists = [kept.read(name) for name in kept.names(above=part.rebuilt)] if rebuilt > part.rebuilt else []
        for number in range(rebuilt, part.rebuilt, -1):
            done = [one for one in lists if one.number == number and one.is_done_in(files.keys())]
            if len(done) > 1:  # a rebuild that was killed left another one
                said = _list_of(table.folder, handle.version(), part.version, rebuild_app(datacenter), number)
                done = [one for one in done if one.name == said]
            if len(done) != 1:
                others = _last_of_others(table.folder, handle.version(), part.version)
                why = f"nobody can tell which rows of {table.folder} rebuild {number} has replaced{others}"
                raise self._unreadable(datacenter, f"{why}; {self._later()}")
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
            why = f"{error}{_remedy(self.pipeline, datacenter, error)}"
            raise self._unreadable(datacenter, why) from error

    def _unreadable(self, datacenter: str, why: str) -> ReleaseUnreadable:
        return ReleaseUnreadable(self.release.number, datacenter, why)

    def _older(self, datacenter: str) -> str:
        made = f"photon join {self.pipeline.typed} -d {datacenter}"
        return (
            f"put the newest copy of the lake back; without one start it, and read the next release: {made}"
        )

    def _later(self) -> str:
        return f"read a release that was made after it: photon releases {self.pipeline.typed}"


def _list_of(folder: Location, version: int, since: int, app: str, number: int) -> str | None:
    """The name of the list that a replacement's commit names; None: the commit is gone."""
    for commit in islice(commits(folder, version), version - since):
        if (commit.get(APP_METADATA), commit.get(NUMBER_METADATA)) == (app, str(number)):
            return commit.get(LIST_METADATA)
    return None


def _last_of_others(folder: Location, version: int, since: int) -> str:
    """Tell of the newest commit since a version that is not Photon's; empty: there is none."""
    newest = next(commits_of_others(folder, range(version, since, -1)), None)
    return "" if newest is None else f" (others made {newest})"
