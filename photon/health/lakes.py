"""Find what is wrong with a datacenter's lake: tables that are missing, others' or that Photon can't keep.

Asked aside, and not for long: a store that hangs is a sentence too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.dispatcher.recovery.second_rows import second_rows_noted
from photon.dispatcher.refusals import PlaceTaken, refuse_place_of_another
from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
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

ANSWERS_WITHIN = timedelta(seconds=2)  # `photon status` asks each lake in turn, and is to answer within 5 s
STANDS_SECONDS = 60.0  # an answer that came late is that of the next look, unless it is older
MOST_TABLES = 64  # that stay open between looks: the live page looks each two seconds
MOST_COMMITS = 20_000  # in a table's log: eight times what compaction leaves, and 60 ms for each batch


@dataclass(frozen=True)
class Tables:
    """The tables of a datacenter, as one look at its lake finds them."""

    problems: tuple[str, ...] = ()  # why they can't be read or written, each with what to do
    lost_files: tuple[str, ...] = ()  # tables with data files that are gone, and what to do
    last_batch: int | None = None  # the epoch's, in the joined rows; None: there is a problem, or no epoch
    completed: int = 0  # the state's last batch, before the tables were looked at
    full: str = ""  # says that the lake's disk has no room


def look_at_tables(
    pipeline: Pipeline,
    datacenter: str,
    has_run: bool,
    table_id: str | None,
    epoch: str | None,
    completed: int = 0,
) -> Tables:
    """Look at a datacenter's tables, of which its state has completed so many batches.

    `table_id`: of its joined rows, as the registry knows it; None: it knows none, or was not asked.
    """
    lake = pipeline.datacenters[datacenter].lake
    if not has_run and table_id is None and isinstance(lake, Path) and not lake.exists():
        return Tables()  # nothing was ever made

    def question() -> Tables:
        found = _tables(pipeline, datacenter, has_run, table_id, epoch)
        return replace(found, completed=completed, full=without_room(lake))

    try:
        return _looks_at(lake).answer(question, ANSWERS_WITHIN.total_seconds())
    except NotInTime as error:
        return Tables((_with_remedy(f"the lake of datacenter {datacenter}, {lake}, gives {error}", lake),))
    except (UserError, OSError) as error:
        return Tables((_with_remedy(str(error), lake),))


def _with_remedy(problem: str, lake: Location) -> str:
    """A problem with what to do, which some name themselves."""
    place = "its disk or mount" if isinstance(lake, Path) else "that store, and the way to it"
    return problem if ";" in problem else f"{problem}; look at {place}"


def is_fence(batch: int | None) -> bool:
    """Whether the last batch in a table says that others have ended the epoch (E1)."""
    if batch is None:
        return False
    from photon.storage.tables import FENCE_VERSION

    return batch >= FENCE_VERSION


def put_back(pipeline: Pipeline, datacenter: str, tables: Tables) -> str:
    """Say that the table lacks batches that the state has completed, as an older copy does; empty: none.

    The table was read after the state: a batch is committed before it is completed.
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
    """Whether a datacenter has joined, and its state is gone: its lake, on a disk, has the table."""
    lake = pipeline.datacenters[datacenter].lake
    if has_state or not isinstance(lake, Path):
        return False
    with suppress(OSError):
        return is_table(lake / "joined_events")
    return False


def _tables(
    pipeline: Pipeline, datacenter: str, has_run: bool, table_id: str | None, epoch: str | None
) -> Tables:
    # Imported here, since a status of nothing needs none of it and imports long.
    from photon.storage.tables import app_id

    found: list[str] = []
    lost: list[str] = []
    last_batch: int | None = None
    lake = pipeline.datacenters[datacenter].lake
    for name in TABLE_COLUMNS:
        table = _table(lake, name, _folder_of(lake / name))
        try:
            handle = table.load() if table.exists() else None
        except UnsupportedTable as error:
            found.append(str(error))
            continue
        except LakeUnavailable as error:
            return Tables((*found, _with_remedy(str(error), lake)))
        if handle is not None and (why := table.why_not_written(handle)):
            found.append(why)
        if handle is not None and isinstance(lake, Path):  # in a store each listing costs
            lost += _lost_files(lake / name, handle)
        if name == "joined_events":
            if handle is not None:
                found += _of_another_pipeline(pipeline, datacenter, table)
                if epoch is not None:
                    last_batch = table.version_in(handle, app_id(datacenter, epoch))
            here = None if handle is None else str(handle.metadata().id)
            found += _not_its_own(pipeline, datacenter, here, has_run, table_id)
    return Tables(tuple(found), tuple(lost), None if found else last_batch)


@lru_cache(MOST_TABLES)
def _looks_at(lake: Location) -> Repeated[Tables]:
    return Repeated(STANDS_SECONDS)


@lru_cache(MOST_TABLES)
def _table(lake: Location, name: TableName, folder: tuple[int, int] | None) -> OutputTable:
    """A table whose handle is kept for the next look: to open one reads all commits since a checkpoint."""
    from photon.storage.tables import OutputTable

    return OutputTable(lake, name)


def _folder_of(table: Location) -> tuple[int, int] | None:
    """The folder of a table's log on its disk: a lake that was replaced has another, also under its name."""
    try:
        status = (table / LOG_FOLDER).stat() if isinstance(table, Path) else None
    except OSError:
        return None  # `_tables` says so
    return None if status is None else (status.st_dev, status.st_ino)


def joined_table_id(lake: Path) -> str | None:
    """The id of the table of joined rows that lies there; None: there is none, or it can't be read."""
    table = _table(lake, "joined_events", _folder_of(lake / "joined_events"))
    with suppress(UserError, OSError):
        return table.table_id() if table.exists() else None
    return None


def _lost_files(folder: Path, handle: DeltaTable) -> list[str]:
    """Say that data files of a table are gone, if so. It was opened before, so none of them is new."""
    from photon.storage.damaged_files import gone, missing_files
    from photon.storage.replacing import data_files

    lost = missing_files(folder, data_files(handle))
    return [gone(folder, handle.version(), lost)] if lost else []


def second_rows(pipeline: Pipeline, datacenter: str) -> str:
    """Say that rows which a join or a refill found to be second ones are there still; empty: none is."""
    noted = second_rows_noted(pipeline.datacenters[datacenter].state)
    if not noted:
        return ""
    try:
        there = DistantLakes(ANSWERS_WITHIN).ask(datacenter, partial(_second_rows, pipeline, noted))
    except (UserError, OSError):
        return ""  # `look_at_tables` tells that the lake can't be read
    if not there:
        return ""
    return (
        f"at least {counted(len(there), 'event', 'have')} two rows, such as {readable(there[0])}: photon "
        f"verify {pipeline.typed} names ids and days, and says how one row is left"
    )


def _second_rows(pipeline: Pipeline, noted: Mapping[str, str]) -> list[str]:
    """The ids of the events whose noted rows are there."""
    from photon.storage.tables import OutputTable
    from photon.tokens import Token

    there: list[str] = []
    for name, place in pipeline.datacenters.items():
        own = [token for token in map(Token.parse, noted) if token.plan.datacenter == name]
        table = OutputTable(place.lake, "joined_events")
        if own and table.exists():
            there += [noted[str(t)] for t, status in table.row_status_of(own).items() if status == "row"]
    return there


def uncompacted(pipeline: Pipeline, datacenter: str) -> str:
    """Say that nobody compacts the table of joined rows, if so. On S3 Delta lists no more than it needs."""
    folder = pipeline.datacenters[datacenter].lake / "joined_events"
    if not isinstance(folder, Path):
        return ""
    try:
        if commits_in_log(folder, MOST_COMMITS) < MOST_COMMITS:
            return ""
    except OSError:
        return ""  # the join says so
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
    pipeline: Pipeline, datacenter: str, here: str | None, has_run: bool, table_id: str | None
) -> list[str]:
    """Say that the table of joined rows is not there, or is another one; empty: it is as it should be."""
    folder = pipeline.datacenters[datacenter].lake / "joined_events"
    if here is None and has_run:
        return [
            f"there is no table {folder}, and datacenter {datacenter} has joined: mount the lake or put it "
            "back, for its rows are missing and no join goes on; "
            f"{pipeline.if_lake_is_lost(datacenter)}"
        ]
    if table_id is not None and table_id != here:
        return [f"no join goes on: {another_table(folder, here, datacenter, table_id, pipeline.file)}"]
    return []
