"""Ask the registry, every datacenter's tables, waiting list and raw logs what they know of one event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from photon.clock import MICROSECONDS, SystemClock
from photon.errors import UserError
from photon.logs.files import Side, TrackedFile
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone, Stretch, read_pieces
from photon.logs.tail import LogTail
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import ForeignLog, Log, Pipeline, PrimaryLog
from photon.registry.interface import BeyondHorizon, Free, Joined, LookupOutcome, TooOld
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.state.database import StateUnavailable
from photon.state.view import open_view, read_offsets
from photon.storage.columns import TableName, text
from photon.storage.tables import LakeUnavailable, OutputTable
from photon.verification.trace_report import DatacenterTrace, LogRecord, RegistryAnswer, Trace, WaitingRecord

_BATCH = ["_epoch", "_batch", "_occurrence"]
SHOWN: dict[TableName, list[str]] = {
    "joined_events": [*_BATCH, "_joined_at", "_primary_occurrence"],
    "dead_letters": [*_BATCH, "path", "reason"],
    "unjoined": [*_BATCH, "key", "event_time"],
    "too_old": [*_BATCH, "key", "event_time"],
}
# An id of these characters is in a line as it is, whatever the format.
_PLAIN_ID = re.compile(r"[A-Za-z0-9 _.:@#+=~-]+")
Progress = Callable[[str], None]  # is told how far a search is

MOST_LOST = 10  # records of one event
# Files that the state does not know get numbers of their own, for one search.
_FIRST_NEW_FILE_NUMBER = 2**30


def trace(
    pipeline: Pipeline,
    event_id: str,
    search_logs: bool = True,
    progress: Progress = lambda text: None,
) -> Trace:
    """Gather what is known of `event_id`; the trace names what could not be asked."""
    found = Trace(event_id, search_logs)
    for name in pipeline.datacenters:
        here = found.datacenters[name] = DatacenterTrace()
        with _noting_problem(found):
            _find_in_state(pipeline, name, event_id, here)
        tables: dict[TableName, list[dict[str, Any]]] = {
            "joined_events": here.rows,
            "dead_letters": here.dead_letters,
            "unjoined": here.unjoined,
            "too_old": here.too_old,
        }
        for table, rows in tables.items():
            with _noting_problem(found):
                rows += _find_rows(pipeline, name, table, event_id)
        if search_logs:
            here.records += search_log(pipeline, name, "foreign", [event_id], found, progress)
            keys = list(dict.fromkeys(record.key for record in here.records if record.key is not None))
            if keys:
                here.primaries += search_log(pipeline, name, "primary", keys, found, progress)
    with _noting_problem(found):
        found.registry += _ask_registry(pipeline, found)
    return found


@contextmanager
def _noting_problem(found: Trace) -> Iterator[None]:
    try:
        yield
    except (UserError, OSError, DeltaError) as error:
        found.problems.append(str(error))


def _find_in_state(pipeline: Pipeline, datacenter: str, event_id: str, here: DatacenterTrace) -> None:
    folder = pipeline.datacenters[datacenter].state
    with open_view(folder) as state:
        if state is None:
            raise StateUnavailable(
                f"datacenter {datacenter}: no state in {folder}: it never ran, or it was lost"
            )
        here.waiting += [
            WaitingRecord(
                str(row.occurrence), row.reason, row.status, row.attempts, row.first_seen_us, row.due_us
            )
            for row in state.waiting.of_event(event_id)
        ]
        here.lost += [str(occurrence) for occurrence, _ in state.lost_records(MOST_LOST, event_id)]


def _find_rows(pipeline: Pipeline, datacenter: str, name: TableName, event_id: str) -> list[dict[str, Any]]:
    lake = pipeline.datacenters[datacenter].lake
    table = OutputTable(lake, name)
    if not table.exists():
        raise LakeUnavailable(f"datacenter {datacenter}: no table {name} in {lake}")
    of_event = text("_event_id" if name == "joined_events" else "event_id") == event_id
    if name == "dead_letters":  # a line that is no event may hold the id all the same
        of_event |= ds.field("event_id").is_null() & pc.match_substring(
            ds.field("raw").cast(pa.binary()), event_id
        )
    rows = table.load().to_pyarrow_dataset().to_table(columns=SHOWN[name], filter=of_event)
    return list(rows.to_pylist())


# -- registry


def _ask_registry(pipeline: Pipeline, found: Trace) -> list[RegistryAnswer]:
    keys = _event_keys(pipeline, found)
    if not keys:
        raise UserError("registry: not asked, for the event's time belongs to its id and is not known")
    outcomes = open_registry(find_registry(pipeline)).lookup(keys)
    return [_answer(key, outcome) for key, outcome in zip(keys, outcomes, strict=True)]


def _event_keys(pipeline: Pipeline, found: Trace) -> list[EventKey]:
    times = {record.time_us for one in found.datacenters.values() for record in one.records}
    for one in found.datacenters.values():
        for row in (*one.unjoined, *one.too_old):
            event_time = row["event_time"]
            times.add(int(event_time.timestamp()) * MICROSECONDS + event_time.microsecond)
    log = pipeline.foreign
    if not log.time_in_id:
        return [event_key(found.event_id, min(times, default=None), log)]
    return [event_key(found.event_id, time_us, log) for time_us in sorted(times)]


def _answer(key: EventKey, outcome: LookupOutcome) -> RegistryAnswer:
    match outcome:
        case Joined(holder):
            return RegistryAnswer("held", key.time_us, holder.datacenter, holder.token)
        case Free():
            return RegistryAnswer("free", key.time_us)
        case TooOld():
            return RegistryAnswer("too old", key.time_us)
        case BeyondHorizon():
            return RegistryAnswer("beyond horizon", key.time_us)


# -- raw logs


def search_log(
    pipeline: Pipeline,
    datacenter: str,
    side: Side,
    ids: Sequence[str],
    found: Trace,
    progress: Progress,
) -> list[LogRecord]:
    """The records with these ids, by file and offset, also those not read yet. Notes problems in `found`."""
    place, log = pipeline.datacenters[datacenter], _log(pipeline, side)
    known = {tracked.file.number: tracked for tracked in read_offsets(place.state).of(side)}
    tail = LogTail(place.logs, side, log, pipeline.limits, pipeline.tailing)
    seen = tail.observe(known, _FIRST_NEW_FILE_NUMBER, SystemClock().now_us(), final=True)
    tracked_files = {**known, **seen.changed}
    problems = [f"{problem.path}: {problem.reason}" for problem in seen.problems]
    problems += [
        f"{tracked.file.path}: this {side} log file is not there any more"
        for tracked in tracked_files.values()
        if tracked.state != "open"
    ]
    present = [tracked for _, tracked in sorted(tracked_files.items()) if tracked.state == "open"]
    all_bytes, done_bytes = sum(tracked.size_bytes for tracked in present), 0
    records: list[LogRecord] = []
    for tracked in present:
        number = tracked.file.number
        read_up_to = known[number].offset_bytes if number in known else 0
        try:
            for some, end_bytes in _search_file(pipeline, datacenter, tracked, ids, read_up_to):
                records += some
                mebibytes = f"{(done_bytes + end_bytes) / 2**20:,.0f} of {all_bytes / 2**20:,.0f} MiB"
                progress(f"searching the {side} log of {datacenter}: {mebibytes}")
        except RangeGone as error:
            problems.append(str(error))
        done_bytes += tracked.size_bytes
    found.problems += [f"datacenter {datacenter}: {problem}" for problem in problems]
    return records


def _search_file(
    pipeline: Pipeline, datacenter: str, tracked: TrackedFile, ids: Sequence[str], read_up_to: int
) -> Iterator[tuple[list[LogRecord], int]]:
    """For each piece of a file, to its end: the records with these ids, and where the piece ends."""
    file, log, limits = tracked.file, _log(pipeline, tracked.file.side), pipeline.limits
    whole = replace(tracked, offset_bytes=tracked.size_bytes, tail_hash=b"")
    stretch = Stretch(whole, file.header_bytes, whole.offset_bytes)
    logs = pipeline.datacenters[datacenter].logs
    for byte_range, data in read_pieces(logs, stretch, pipeline.verification.piece_bytes, limits.line_bytes):
        rows: list[dict[str, Any]] = []
        if may_contain(data, ids, log):
            events = read_events(data, file, byte_range, log, limits).events
            rows = events.filter(pc.is_in(events["_id"], pa.array(ids, pa.string()))).to_pylist()
        records = [
            LogRecord(
                file.path,
                file.number,
                row["_offset"],
                row["_time_us"],
                row.get("_key"),
                was_read=row["_offset"] < read_up_to,
            )
            for row in rows
        ]
        yield records, byte_range.end_bytes


def may_contain(data: bytes, ids: Sequence[str], log: Log) -> bool:
    """False only if no record of these bytes can have one of the ids, so that they need not be parsed."""
    if len(log.id) > 1 or not all(_PLAIN_ID.fullmatch(id) for id in ids):
        return True
    # JSON may spell any character as an escape.
    return any(id.encode() in data for id in ids) or (log.format == "jsonl" and b"\\u" in data)


def _log(pipeline: Pipeline, side: Side) -> PrimaryLog | ForeignLog:
    return pipeline.primary if side == "primary" else pipeline.foreign
