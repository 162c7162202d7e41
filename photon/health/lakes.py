"""Find what is wrong with a lake: tables that are gone, are another's, or have features that Photon lacks.

A thread of its own looks at the tables, and the caller waits two seconds for it: a lake that hangs is a
problem too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from photon.dispatcher.recovery.second_rows import second_rows_noted
from photon.dispatcher.refusals import PlaceTaken, refuse_place_of_another
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.errors import UserError
from photon.process.in_time import NotInTime, Repeated
from photon.process.readable import counted, readable
from photon.registry.known_tables import another_table
from photon.state.starting import what_starts
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.delta import LOG_FOLDER, LakeUnavailable, UnsupportedTable, is_table
from photon.storage.full_disks import without_room
from photon.storage.table_log import commits_in_log

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from photon.storage.tables import OutputTable

ANSWERS_WITHIN_SECONDS = 2.0  # `photon status` waits as long for each datacenter: half of --within
STANDS_SECONDS = 60.0  # the next look takes an answer that came late, unless its question is older
MOST_TABLES = 64  # tables that stay open between looks, since the live page looks every two seconds
MOST_COMMITS = 20_000  # in a table's log; compaction leaves an eighth, and so many cost each batch 60 ms


@dataclass(frozen=True)
class Tables:
    """The tables of a datacenter, as one look at its lake finds them."""

    problems: tuple[str, ...] = ()  # why they can't be read or written, each with what to do
    lost_files: tuple[str, ...] = ()  # says of each table which data files are gone, and what to do
    last_batch: int | None = None  # the epoch's last one in the joined rows; None: none, or a problem
    completed: int = 0  # the state's last batch, read before the tables
    full: str = ""  # says that the lake's disk has no room; empty: it has some


def look_at_tables(
    pipeline: Pipeline,
    datacenter: str,
    has_run: bool,
    table_id: str | None,
    epoch: str | None,
    completed: int = 0,
) -> Tables:
    """Look at a datacenter's tables. `completed`: the state's last batch, read before.

    `table_id`: the table of joined rows that the registry knows; None: it knows none, or was not asked.
    """
    lake = pipeline.datacenters[datacenter].lake
    if not has_run and table_id is None and isinstance(lake, Path) and not lake.exists():
        return Tables()  # nothing was ever made

    def question() -> Tables:
        found = _tables(pipeline, datacenter, has_run, table_id, epoch)
        return replace(found, completed=completed, full=without_room(lake))

    try:
        return _repeated_look(lake).answer(question, ANSWERS_WITHIN_SECONDS)
    except NotInTime as error:
        return Tables((_with_remedy(f"the lake of datacenter {datacenter}, {lake}, gives {error}", lake),))
    except (UserError, OSError) as error:
        return Tables((_with_remedy(str(error), lake),))


def _with_remedy(problem: str, lake: Location) -> str:
    """Add what to do, unless the problem says so itself, behind a semicolon."""
    place = "its disk or mount" if isinstance(lake, Path) else "that store, and the way to it"
    return problem if ";" in problem else f"{problem}; look at {place}"


def is_fence(batch: int | None) -> bool:
    """Whether the last batch in a table is a fence: others have ended the epoch (E1)."""
    if batch is None:
        return False
    from photon.storage.tables import FENCE_VERSION

    return batch >= FENCE_VERSION


def put_back(pipeline: Pipeline, datacenter: str, tables: Tables) -> str:
    """Say that the table lacks batches that the state has completed, as an older copy does; empty: none.

    A join at work never looks so: it commits a batch before completing it, and the state was read first.
    """
    completed, last = tables.completed, tables.last_batch
    if last is None or last >= completed:
        return ""
    return (
        f"{pipeline.datacenters[datacenter].lake / 'joined_events'} ends with batch {last:,}, and batch "
        f"{completed:,} was committed: an older copy was put back, and rows are missing until they are "
        f"joined again: {what_starts(pipeline, datacenter)}"
    )


def has_rows_without_state(pipeline: Pipeline, datacenter: str, has_state: bool) -> bool:
    """Whether a datacenter has joined, for its lake on a disk has the table, and its state is gone."""
    lake = pipeline.datacenters[datacenter].lake
    if has_state or not isinstance(lake, Path):
        return False
    with suppress(OSError):
        return is_table(lake / "joined_events")
    return False


def _tables(
    pipeline: Pipeline, datacenter: str, has_run: bool, table_id: str | None, epoch: str | None
) -> Tables:
    # Imported late: the import takes long, and a status before the first join needs none of it.
    from photon.storage.tables import app_id

    problems: list[str] = []
    lost: list[str] = []
    last_batch: int | None = None
    lake = pipeline.datacenters[datacenter].lake
    for name in TABLE_COLUMNS:
        table = _table(lake, name, _log_folder_id(lake / name))
        try:
            handle = table.load() if table.exists() else None
        except UnsupportedTable as error:
            problems.append(str(error))
            continue
        except LakeUnavailable as error:
            return Tables((*problems, _with_remedy(str(error), lake)))
        if handle is not None and (why := table.why_not_written(handle)):
            problems.append(why)
        if handle is not None and isinstance(lake, Path):  # in a store each listing costs
            lost += _lost_files(lake / name, handle)
        if name == "joined_events":
            if handle is not None:
                problems += _of_another_pipeline(pipeline, datacenter, table)
                if epoch is not None:
                    last_batch = table.version_in(handle, app_id(datacenter, epoch))
            found_id = None if handle is None else str(handle.metadata().id)
            problems += _not_its_own(pipeline, datacenter, found_id, has_run, table_id)
    return Tables(tuple(problems), tuple(lost), None if problems else last_batch)


@lru_cache(MOST_TABLES)
def _repeated_look(lake: Location) -> Repeated[Tables]:
    """The question to one lake, which one look after another asks."""
    return Repeated(STANDS_SECONDS)


@lru_cache(MOST_TABLES)
def _repeated_search(state: Path) -> Repeated[list[str]]:
    """The search for the second rows that this state's notes name."""
    return Repeated(STANDS_SECONDS)


@lru_cache(MOST_TABLES)
def _table(lake: Location, name: TableName, log_folder: tuple[int, int] | None) -> OutputTable:
    """A table that stays open for the next look: opening it reads all commits since a checkpoint.

    `log_folder`: not read, but one more key of the cache, so that another lake's table is opened anew.
    """
    from photon.storage.tables import OutputTable

    return OutputTable(lake, name)


def _log_folder_id(table: Location) -> tuple[int, int] | None:
    """Device and inode of a table's log: a lake that was replaced has others under the same path."""
    try:
        status = (table / LOG_FOLDER).stat() if isinstance(table, Path) else None
    except OSError:
        return None  # `_tables` meets the error and tells it
    return None if status is None else (status.st_dev, status.st_ino)


def joined_table_id(lake: Path) -> str | None:
    """The id of the table of joined rows that lies there; None: there is none, or it can't be read."""
    table = _table(lake, "joined_events", _log_folder_id(lake / "joined_events"))
    with suppress(UserError, OSError):
        return table.table_id() if table.exists() else None
    return None


def _lost_files(folder: Path, handle: DeltaTable) -> list[str]:
    """Say which data files are gone. The table was opened before they are looked for, so each was there."""
    from photon.storage.damaged_files import gone, missing_files
    from photon.storage.replacing import data_files

    lost = missing_files(folder, data_files(handle))
    return [gone(folder, handle.version(), lost)] if lost else []


def second_rows(pipeline: Pipeline, datacenter: str) -> str:
    """Say that second rows, which a join or a refill has noted, are still there; empty: none is."""
    state = pipeline.datacenters[datacenter].state
    if not (noted := second_rows_noted(state)):
        return ""
    try:
        ask = partial(_second_rows, pipeline, noted)
        there = _repeated_search(state).answer(ask, ANSWERS_WITHIN_SECONDS)
    except (UserError, OSError):
        return ""  # `look_at_tables` tells that the lake can't be read
    if not there:
        return ""
    return (
        f"at least {counted(len(there), 'event', 'have')} two rows, such as {readable(there[0])}: photon "
        f"verify {pipeline.typed} names ids and days, and says how one row is left"
    )


def _second_rows(pipeline: Pipeline, noted: Mapping[str, str]) -> list[str]:
    """Find the noted rows that are there, and return their events' ids. `noted`: ids by the row's token."""
    from photon.storage.tables import OutputTable
    from photon.storage.tokens import Token

    there: list[str] = []
    for name, place in pipeline.datacenters.items():
        own = [token for token in map(Token.parse, noted) if token.plan.datacenter == name]
        table = OutputTable(place.lake, "joined_events")
        if own and table.exists():
            there += [noted[str(t)] for t, status in table.row_status_of(own).items() if status == "row"]
    return there


def uncompacted(pipeline: Pipeline, datacenter: str) -> str:
    """Say that the joined rows need compaction; empty: they do not. On S3 Delta lists only what it needs."""
    folder = pipeline.datacenters[datacenter].lake / "joined_events"
    if not isinstance(folder, Path):
        return ""
    try:
        if commits_in_log(folder, MOST_COMMITS) < MOST_COMMITS:
            return ""
    except OSError:
        return ""  # the join meets the error and tells it
    command = f"photon compact {pipeline.typed} -d {datacenter}"
    return (
        f"{folder}: {MOST_COMMITS:,} commits or more are in its log, and each batch looks through them all;"
        f" run {command}, and have it run every few minutes"
    )


def _of_another_pipeline(pipeline: Pipeline, datacenter: str, table: OutputTable) -> list[str]:
    try:
        refuse_place_of_another(f"the table {table.folder}", table.pipeline(), pipeline, datacenter)
    except PlaceTaken as error:
        return [str(error)]
    return []


def _not_its_own(
    pipeline: Pipeline, datacenter: str, found_id: str | None, has_run: bool, table_id: str | None
) -> list[str]:
    """Say that the table of joined rows is not there, or is another one; empty: it is as it should be."""
    folder = pipeline.datacenters[datacenter].lake / "joined_events"
    if found_id is None and has_run:
        return [
            f"there is no table {folder}, and datacenter {datacenter} has joined: mount the lake or put it "
            "back, for its rows are missing and no join goes on; "
            f"{pipeline.if_lake_is_lost(datacenter)}"
        ]
    if table_id is not None and table_id != found_id:
        return [f"no join goes on: {another_table(folder, found_id, datacenter, table_id, pipeline.file)}"]
    return []
