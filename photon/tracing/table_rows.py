"""Rows of an event in a datacenter's tables, and which of their data files could not be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.state.starting import what_starts
from photon.storage.columns import TableName, text
from photon.storage.damaged_files import REMEDY
from photon.storage.delta import LOG_FOLDER, LakeForbidden, LakeUnavailable, UnsupportedTable
from photon.storage.store_errors import is_away, reason_of
from photon.storage.tables import OutputTable
from photon.tracing.report import Unread
from photon.upkeep.backfill.removed_rows import removed_rows

_BATCH = ["_epoch", "_batch", "_plan", "_occurrence"]
SHOWN: dict[TableName, list[str]] = {
    "joined_events": [*_BATCH, "_joined_at", "_event_time", "_primary_occurrence"],
    "dead_letters": [*_BATCH, "path", "reason"],
    "unjoined": [*_BATCH, "key", "event_time"],
    "too_old": [*_BATCH, "key", "event_time"],
}
REMOVED_SHOWN = ["at", "why", "run", "_epoch", "_batch", "_occurrence"]
MOST_UNREAD = 10  # data files, until the others of a table are left alone too
_FILE = "__filename"  # as pyarrow knows it
_OF_BATCH = re.compile(r"(.*/)?batch-\d+-")
NOTHING_DAMAGED = "nothing is damaged: ask again once this can be reached, and lets you in"
# Errors of a data file that is gone or out of reach, damaged in the middle, or no Parquet.
UNREADABLE = (OSError, pa.ArrowInvalid)


@dataclass(frozen=True)
class TableAnswer:
    """The rows of an event in one table, as dicts by column."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)  # places that may have more rows
    not_written: str = ""  # why its datacenter commits nothing to the table
    is_there: bool = True


def ask_table(pipeline: Pipeline, datacenter: str, name: TableName, event_id: str) -> TableAnswer:
    """The rows of the event, of all data files that can be read."""
    lake = pipeline.datacenters[datacenter].lake
    table = OutputTable(lake, name)
    try:
        if not table.exists():
            return TableAnswer(is_there=False)
        handle = table.load()
        dataset = handle.to_pyarrow_dataset()
    except UnsupportedTable as error:
        return TableAnswer(unread=[Unread(error.why, error.remedy)], not_written=str(error))
    except (LakeUnavailable, DeltaError) as error:
        remedy = f"make {lake} readable, or put {table.folder / LOG_FOLDER} back from a copy of the lake"
        if isinstance(error, LakeForbidden) or is_away(error):
            remedy = NOTHING_DAMAGED
        return TableAnswer(unread=[Unread(reason_of(error), remedy)])
    of_event = text("_event_id" if name == "joined_events" else "event_id") == event_id
    if name == "dead_letters":  # a line that is no event may hold the id all the same, as a word
        word = rf"(?:^|[^\w-]){re.escape(event_id)}(?:$|[^\w-])"
        raw = ds.field("raw").cast(pa.binary())
        of_event |= ds.field("event_id").is_null() & pc.match_substring_regex(raw, word)
    columns = [*SHOWN[name], *(["event_id"] if name == "dead_letters" else []), _FILE]
    found, unread = _read(dataset, columns, of_event, table.folder)
    return TableAnswer(_with_files(found, handle, table.folder), unread, table.why_not_written(handle))


def missing_table(pipeline: Pipeline, datacenter: str, name: TableName, has_joined: bool | None) -> Unread:
    """Say what a missing table means, and what to do. `has_joined`: ever; None: nobody knows."""
    lake, join = pipeline.datacenters[datacenter].lake, what_starts(pipeline, datacenter)
    back = f"put the lake folder {lake} back, or make it readable from here"
    if name != "joined_events":
        remedy = f"put it back from a copy of the lake, or let a start make an empty one: {join}"
    elif has_joined:
        remedy = f"{back}; {pipeline.if_lake_is_lost(datacenter)}"
    else:
        remedy = f"{back}; if datacenter {datacenter} has never joined, start it: {join}"
    return Unread(f"no table {name} in {lake}", remedy)


def _read(
    dataset: ds.Dataset, columns: Sequence[str], wanted: ds.Expression, folder: Location
) -> tuple[list[dict[str, Any]], list[Unread]]:
    """The wanted rows; file by file where not all of them can be read."""
    try:
        return dataset.to_table(columns=columns, filter=wanted).to_pylist(), []
    except UNREADABLE:
        rows: list[dict[str, Any]] = []
        unread: list[Unread] = []
    for fragment in dataset.get_fragments(wanted):
        try:
            found = fragment.to_table(schema=dataset.schema, columns=columns, filter=wanted)
            rows += found.to_pylist()
        except UNREADABLE as error:
            unread.append(_unread_file(folder, fragment.path, error))
            if len(unread) == MOST_UNREAD:
                break
    return rows, unread


def _unread_file(folder: Location, path: str, error: Exception) -> Unread:
    file = folder / path
    is_gone = isinstance(error, FileNotFoundError)
    why = f"its data file {file} " + ("is gone" if is_gone else f"can't be read: {reason_of(error)}")
    return Unread(why, NOTHING_DAMAGED if is_away(error) else f"put {file} back {REMEDY}")


def _with_files(
    rows: Sequence[Mapping[str, Any]], handle: DeltaTable, folder: Location
) -> list[dict[str, Any]]:
    """The rows with their files, and when their batches were committed.

    None of that time where a file was written anew since.
    """
    if not rows:
        return []
    files = pa.table(handle.get_add_actions()).select(["path", "modification_time"])
    times_ms = files["modification_time"].cast(pa.int64()).to_pylist()  # since 1970
    at_ms = dict(zip(files["path"].to_pylist(), times_ms, strict=True))
    found = []
    for row in rows:
        path = row[_FILE]
        time_ms = at_ms.get(path) if _OF_BATCH.match(path) else None
        committed_at = None if time_ms is None else datetime.fromtimestamp(time_ms / 1_000, UTC)
        shown = {name: value for name, value in row.items() if name != _FILE}
        found.append({**shown, "committed_at": committed_at, "file": str(folder / path)})
    return found


def removed_of(pipeline: Pipeline, datacenter: str, event_id: str) -> list[dict[str, Any]]:
    """Records of rebuilds that took a row of the event out of the table."""
    of_event = removed_rows(pipeline.datacenters[datacenter].lake, event_id).sort_by("at")
    return list(of_event.select(REMOVED_SHOWN).to_pylist())
