"""Ask the registry, every datacenter's tables, waiting list and raw logs what they know of one event."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from photon.clock import MICROSECONDS, SystemClock
from photon.dead_letters.trial_join import try_joins
from photon.errors import UserError
from photon.logs.files import Side, TrackedFile
from photon.logs.one_record import read_records_of
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone, Stretch, read_pieces
from photon.logs.tail import LogTail
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import ForeignLog, Log, Pipeline, PrimaryLog
from photon.recovery.holders import standing_of
from photon.recovery.orders import orders_in
from photon.registry.consensus.marks import Mark
from photon.registry.consensus.register import Register
from photon.registry.interface import BeyondHorizon, Free, Joined, LookupOutcome, TooOld
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.state.database import StateUnavailable
from photon.state.view import open_view, read_offsets
from photon.storage.columns import TableName, text
from photon.storage.mended_letters import all_mended
from photon.storage.tables import LakeUnavailable, OutputTable
from photon.tokens import Occurrence, Token
from photon.tracing.advice import what_to_do
from photon.tracing.report import (
    DatacenterTrace,
    LogRecord,
    OrderOf,
    RegistryAnswer,
    SearchedFile,
    SearchedLog,
    Trace,
    WaitingRecord,
)

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
MOST_FILES_NAMED = 10  # of a log that was searched
_OF_BATCH = re.compile(r"batch-(\d+)-")
# Files that the state does not know get numbers of their own, for one search.
_FIRST_NEW_FILE_NUMBER = 2**30


def trace(
    pipeline: Pipeline,
    event_id: str,
    search_logs: bool = True,
    progress: Progress = lambda text: None,
) -> Trace:
    """Gather what is known of `event_id`; the trace names what could not be asked."""
    found = Trace(event_id, search_logs, pipeline=str(pipeline.file))
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
        with _noting_problem(found):
            _find_mended(pipeline, name, event_id, here)
        if search_logs:
            here.records += search_log(pipeline, name, "foreign", [event_id], found, progress)
            keys = list(dict.fromkeys(record.key for record in here.records if record.key is not None))
            if keys:
                here.primaries += search_log(pipeline, name, "primary", keys, found, progress)
            with _noting_problem(found):
                _try_again(pipeline, name, here, event_id)
    with _noting_problem(found):
        found.registry += _ask_registry(pipeline, found)
    found.what_to_do = what_to_do(found)
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
        here.batch, here.watermark_us = state.completed, state.watermark_us
        here.lost += [str(occurrence) for occurrence, _ in state.lost_records(MOST_LOST, event_id)]

    here.orders += [
        OrderOf(order.order_id, order.why, str(record.occurrence), written_us, record.mended is not None)
        for order, written_us in orders_in(folder)
        for record in order.records
        if record.event_id == event_id
    ]


def _find_mended(pipeline: Pipeline, datacenter: str, event_id: str, here: DatacenterTrace) -> None:
    """Note which dead letters were taken up again, and as what line."""
    letters = all_mended(pipeline, datacenter)
    at = {(each.epoch, str(each.occurrence)): each.batch for each in letters}
    for row in here.dead_letters:
        taken_up = at.get((row["_epoch"], row["_occurrence"]), -1)
        row["taken_up_after"] = taken_up if taken_up >= row["_batch"] else None
    here.mended += [
        {
            "_epoch": each.epoch,
            "_occurrence": str(each.occurrence),
            "taken_up_after": each.batch,
            "line": "as the log has it" if each.raw is None else each.raw.decode(errors="backslashreplace"),
        }
        for each in letters
        if each.event_id == event_id
    ]


def _try_again(pipeline: Pipeline, datacenter: str, here: DatacenterTrace, event_id: str) -> None:
    """Join records again that were read and that no table has: what the adapter drops is in none."""
    if any((here.rows, here.waiting, here.counting_letters, here.unjoined, here.too_old)):
        return
    place = pipeline.datacenters[datacenter]
    read = read_offsets(place.state)
    wanted = {
        Occurrence(record.file_number, record.offset_bytes): row
        for row, record in enumerate(here.records)
        if record.was_read and record.file_number in read.files
    }
    if not wanted:
        return
    log, limits = pipeline.foreign, pipeline.limits
    named = [(occurrence, event_id) for occurrence in wanted]
    events = read_records_of(place.logs, named, read.files, log, limits)
    places = zip(events["_file"].to_pylist(), events["_offset"].to_pylist(), strict=True)
    for place_of, outcome in zip(places, try_joins(pipeline, datacenter, events), strict=True):
        row = wanted[Occurrence(*place_of)]
        here.records[row] = replace(here.records[row], outcome=outcome)


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
    handle = table.load()
    columns = [*SHOWN[name], *(["event_id"] if name == "dead_letters" else [])]
    rows = list(handle.to_pyarrow_dataset().to_table(columns=columns, filter=of_event).to_pylist())
    return [{**row, "committed_at": at} for row, at in zip(rows, _committed_at(handle, rows), strict=True)]


def _committed_at(handle: DeltaTable, rows: Sequence[Mapping[str, Any]]) -> list[datetime | None]:
    """When the batch of each row was committed; None where its file was written anew since."""
    if not rows:
        return []
    files = pa.table(handle.get_add_actions()).select(["path", "modification_time"]).to_pylist()
    at = {found[1]: each["modification_time"] for each in files if (found := _OF_BATCH.match(each["path"]))}
    return [at.get(str(row["_batch"])) for row in rows]


# -- registry


def _ask_registry(pipeline: Pipeline, found: Trace) -> list[RegistryAnswer]:
    keys = _event_keys(pipeline, found)
    if not keys:
        raise UserError("registry: not asked, for the event's time belongs to its id and is not known")
    registry = open_registry(find_registry(pipeline))
    answers = [_answer(key, outcome) for key, outcome in zip(keys, registry.lookup(keys), strict=True)]
    epochs = sorted({answer.epoch for answer in answers if answer.epoch is not None})
    register, marks = registry.register.read(), registry.marks.read(epochs)
    silent = {name for place in pipeline.datacenters.values() for name in _silent(place.state)}
    return [_with_standing(answer, register, marks, silent) for answer in answers]


def _silent(folder: Path) -> Collection[str]:
    """The datacenters that this one takes for silent, and can't do anything for."""
    with open_view(folder) as state:
        return state.out_of_reach if state is not None else ()


def _with_standing(
    answer: RegistryAnswer, register: Register, marks: Mapping[str, Mark], silent: Collection[str]
) -> RegistryAnswer:
    """The answer with how it stands with its epoch."""
    name, epoch = answer.datacenter, answer.epoch
    if name is None or epoch is None:
        return answer
    words = {"given up": "retired", "over": "fenced", "silent": "silent", "at work": "live"}
    standing = words[standing_of((name, epoch), register, name in silent)]
    if standing == "live" and name in register.on_hold:
        standing = "on hold"
    mark = marks.get(epoch)
    is_published = None if mark is None or answer.batch is None else mark.batch >= answer.batch
    return replace(answer, standing=standing, is_published=is_published)


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
            plan = Token.parse(holder.token).plan if holder.token is not None else None
            epoch, batch = (plan.epoch, plan.batch) if plan is not None else (None, None)
            return RegistryAnswer("held", key.time_us, holder.datacenter, holder.token, epoch, batch)
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
    searched: list[SearchedFile] = []
    for tracked in present:
        number = tracked.file.number
        read_up_to = known[number].offset_bytes if number in known else 0
        searched_up_to = tracked.file.header_bytes
        try:
            for some, end_bytes in _search_file(pipeline, datacenter, tracked, ids, read_up_to):
                records += some
                searched_up_to = end_bytes
                mebibytes = f"{(done_bytes + end_bytes) / 2**20:,.0f} of {all_bytes / 2**20:,.0f} MiB"
                progress(f"searching the {side} log of {datacenter}: {mebibytes}")
        except RangeGone as error:
            problems.append(str(error))
        done_bytes += tracked.size_bytes
        searched.append(SearchedFile(tracked.file.path, searched_up_to, read_up_to, tracked.grown_us))
    found.datacenters[datacenter].searched.append(_searched(side, searched))
    found.problems += [f"datacenter {datacenter}: {problem}" for problem in problems]
    return records


def _searched(side: Side, files: Sequence[SearchedFile]) -> SearchedLog:
    """What was searched of a log, with those of its files that grew last."""
    latest = sorted(files, key=lambda file: -file.grown_us)
    return SearchedLog(
        side,
        len(files),
        sum(file.searched_bytes for file in files),
        sum(file.read_bytes for file in files),
        latest[0].grown_us if latest else None,
        tuple(latest[:MOST_FILES_NAMED]),
    )


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
