"""What runs in a task's process: read a unit's bytes, let the joiner decide, write what it decided.

Errors come back as values (`Unavailable`, `Failed`): Spark would run a task that raises again at once.
"""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from photon import faults
from photon.clock import Clock, SystemClock, microseconds
from photon.event_store.hashing import hash_ids
from photon.event_store.indexing import index_ranges
from photon.event_store.interface import EventStore
from photon.event_store.logs import EventStorePlace, open_event_store
from photon.faults import fault_point
from photon.join.adapting import load_adapter
from photon.join.joiner import Joiner, OutcomeUnknown
from photon.join.messages import (
    Contested,
    Failed,
    IndexResult,
    IndexUnit,
    JoinedRecord,
    JoinResult,
    JoinUnit,
    TaskContext,
    TaskOutcome,
    Unavailable,
    WaitingRecords,
)
from photon.join.records import Records, headers_by_file, records_of
from photon.join.side_tables import (
    dead_letters_from_lines,
    dead_letters_from_records,
    not_yet_recorded,
    too_old_rows,
    unjoined_rows,
)
from photon.join.spool import SpoolUnavailable, read_spool, write_spool
from photon.join.verdicts import (
    AlreadyJoinedHere,
    DeadLetter,
    Final,
    HeldByEarlierPlan,
    Verdicts,
    Waits,
    count_classes,
)
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import ParsedRange, read_events
from photon.logs.ranges import RangeGone, read_range
from photon.pipeline.event_key import EventKey, event_key, primary_time_us
from photon.pipeline.file import Pipeline
from photon.quantiles import Sample
from photon.registry.interface import Claim, IdRegistry, RegistryUnavailable
from photon.registry.open import open_registry
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.tables import (
    DEAD_LETTER_COLUMNS,
    LakeUnavailable,
    OutputFile,
    OutputTable,
    TableName,
    write_rows,
)

INDEX_FILE = "event_store-{epoch}.sqlite"


def run_index_unit(unit: IndexUnit, context: TaskContext) -> TaskOutcome:
    """Index primary ranges: after it, their events can be looked up."""
    return _guarded(context, lambda: _index(unit, context))


def run_join_unit(
    unit: JoinUnit, context: TaskContext, registry: IdRegistry | None = None, clock: Clock | None = None
) -> TaskOutcome:
    """Join foreign ranges and waiting records: after it, winners have rows in files, not yet visible."""
    return _guarded(context, lambda: _join(unit, context, registry, clock or SystemClock()))


def run_release_unit(
    unit: JoinUnit, context: TaskContext, registry: IdRegistry | None = None, clock: Clock | None = None
) -> TaskOutcome:
    """Find what the plan has registered of a unit (protocol A11), for the dispatcher to release."""
    return _guarded(context, lambda: _find_own_tokens(unit, context, registry, clock or SystemClock()))


def _guarded(context: TaskContext, work: Callable[[], TaskOutcome]) -> TaskOutcome:
    if context.crash_at is not None:
        state = context.pipeline.datacenters[context.datacenter].state
        faults.arm_task(context.crash_at, str(state / f"crashed-{context.crash_at}"))
    try:
        return work()
    except (RegistryUnavailable, OutcomeUnknown) as error:
        return Unavailable("registry", str(error))
    except LakeUnavailable as error:
        return Unavailable("lake", str(error))
    except SpoolUnavailable as error:
        return Unavailable("state", str(error))
    except (sqlite3.Error, OSError) as error:
        folder = context.pipeline.datacenters[context.datacenter].state
        return Unavailable("state", f"{folder}: {error}; mend it, it is tried again")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Failed(f"{type(error).__name__}: {error} (at {Path(where.filename).name}:{where.lineno})")


# -- what a task works with


def index_path(pipeline: Pipeline, datacenter: str, epoch: str) -> Path:
    """The log file map of an epoch: file numbers mean nothing beyond it."""
    return pipeline.datacenters[datacenter].state / INDEX_FILE.format(epoch=epoch)


def event_store_place(context: TaskContext) -> EventStorePlace:
    """Where the primary events are, and how much memory one task process has for them."""
    pipeline = context.pipeline
    return EventStorePlace(
        map_path=index_path(pipeline, context.datacenter, context.plan.epoch),
        logs_folder=pipeline.datacenters[context.datacenter].logs,
        log=pipeline.primary,
        limits=pipeline.limits,
        settings=pipeline.event_store,
        lookup_window_us=microseconds(pipeline.retry.lookup_window),
        workers=context.workers,
    )


def _joiner(context: TaskContext, store: EventStore, registry: IdRegistry | None, clock: Clock) -> Joiner:
    adapter = load_adapter(context.pipeline.adapter, context.pipeline.file.parent)
    registry = registry or open_registry(context.registry)
    return Joiner(context, registry, store, adapter, partial(_joined_earlier, context), clock)


def _joined_earlier(context: TaskContext, ids: Collection[str]) -> Collection[EventKey]:
    """Which events with one of these ids have rows of earlier epochs. LakeUnavailable."""
    if not context.follows_an_epoch:
        return ()
    table = OutputTable(context.pipeline.datacenters[context.datacenter].lake, "joined_events")
    rows = epochs_of_rows(table, ids, context.pipeline.foreign)
    return {key for key, epochs in rows.items() if epochs != {context.plan.epoch}}


# -- index units


def _index(unit: IndexUnit, context: TaskContext) -> IndexResult:
    logs = context.pipeline.datacenters[context.datacenter].logs
    if context.quarantine:
        return _quarantine_primaries(unit, context)
    lost: list[ByteRange] = []

    def parsed_ranges() -> Iterator[tuple[LogFile, ByteRange, ParsedRange]]:
        for file, byte_range in unit.ranges:
            try:
                data = read_range(logs, file, byte_range)
            except RangeGone:
                lost.append(byte_range)
                continue
            pipeline = context.pipeline
            yield file, byte_range, read_events(data, file, byte_range, pipeline.primary, pipeline.limits)

    with open_event_store(event_store_place(context)) as store:
        indexed = index_ranges(parsed_ranges(), store.log_map, store.cache)
    fault_point("task.after_index")
    dead = _letters_of_unit(indexed.dead_letters, unit, context)
    return IndexResult(
        events=indexed.events,
        max_time_us=indexed.max_time_us,
        new_hashes=indexed.new_hashes,
        dead_letters=dead.num_rows,
        lost_bytes=sum(r.end_bytes - r.start_bytes for r in lost),
        files=_write_letters(context, dead),
    )


def _letters_of_unit(lines: Iterable[pa.Table], unit: IndexUnit, context: TaskContext) -> pa.Table:
    """Dead letters of lines of a unit's files; each table of `lines` is of one file."""
    files = {file.number: file for file, _ in unit.ranges}
    letters = [dead_letters_from_lines(table, files[table["_file"][0].as_py()], context) for table in lines]
    return pa.concat_tables([DEAD_LETTER_COLUMNS.empty_table(), *letters])


def _quarantine_primaries(unit: IndexUnit, context: TaskContext) -> IndexResult:
    """The unit's one line kept an index task from ending: a dead letter, unread."""
    lines = [
        pa.table(
            {
                "_file": pa.array([file.number], pa.int32()),
                "_offset": pa.array([byte_range.start_bytes], pa.int64()),
                "_length": pa.array([byte_range.end_bytes - byte_range.start_bytes], pa.int64()),
                "_raw": pa.array([b""], pa.binary()),
                "reason": pa.array([context.quarantine], pa.string()),
            }
        )
        for file, byte_range in unit.ranges
    ]
    dead = _letters_of_unit(lines, unit, context)
    return IndexResult(0, {}, np.empty(0, np.uint64), dead.num_rows, 0, _write_letters(context, dead))


# -- join units


def _read(unit: JoinUnit, context: TaskContext, clock: Clock) -> tuple[Records, pa.Table, int]:
    """The unit's records, the dead letters among its lines, and bytes that are gone."""
    datacenter = context.pipeline.datacenters[context.datacenter]
    fresh: list[pa.Table] = []
    letters: list[pa.Table] = []
    lost_bytes = 0
    for file, byte_range in unit.ranges:
        try:
            data = read_range(datacenter.logs, file, byte_range)
        except RangeGone:
            lost_bytes += byte_range.end_bytes - byte_range.start_bytes
            continue
        parsed = read_events(data, file, byte_range, context.pipeline.foreign, context.pipeline.limits)
        fresh.append(parsed.events)
        letters.append(dead_letters_from_lines(parsed.dead_letters, file, context))
    waiting = read_spool(datacenter.state, unit.retries)
    fresh_table = pa.concat_tables(fresh) if fresh else waiting.slice(0, 0)
    records = records_of(fresh_table, waiting, clock.now_us(), context.final)
    return records, pa.concat_tables([DEAD_LETTER_COLUMNS.empty_table(), *letters]), lost_bytes


def _join(unit: JoinUnit, context: TaskContext, registry: IdRegistry | None, clock: Clock) -> JoinResult:
    records, bad_lines, lost_bytes = _read(unit, context, clock)
    fault_point("task.after_read")
    files = {file.number: file for file in (*unit.files, *(file for file, _ in unit.ranges))}
    headers = headers_by_file(files.values())
    with open_event_store(event_store_place(context)) as store:
        verdicts = _joiner(context, store, registry, clock).join(records, headers)
    letters = pa.concat_tables([bad_lines, dead_letters_from_records(records, verdicts, files, context)])
    rows = verdicts.rows
    output = (
        *(_write(context, "joined_events", rows) if rows is not None else ()),
        *_write_letters(context, letters),
        *_write(context, "unjoined", unjoined_rows(records, verdicts, headers, context)),
        *_write(context, "too_old", too_old_rows(records, verdicts, headers, context)),
    )
    fault_point("task.after_rows_written")
    waiting, contested = _spool(records, verdicts, context)
    classes = count_classes(verdicts)
    classes["dead_letters"] += letters.num_rows
    return JoinResult(
        foreign=records.is_retry.count(False) + bad_lines.num_rows,
        classes={name: n for name, n in classes.items() if n},
        decided_retries=tuple(
            records.occurrences[index]
            for index, verdict in verdicts.of.items()
            if records.is_retry[index] and isinstance(verdict, Final | DeadLetter | AlreadyJoinedHere)
        ),
        waiting=waiting,
        contested=contested,
        to_release=tuple(verdicts.to_release),
        registered_elsewhere=frozenset(verdicts.registered_elsewhere),
        lost_bytes=lost_bytes,
        joinable_since_us=Sample.of(verdicts.joinable_since_us),
        files=output,
        already_joined=_already_joined(records, verdicts, context),
    )


def _find_own_tokens(
    unit: JoinUnit, context: TaskContext, registry: IdRegistry | None, clock: Clock
) -> JoinResult:
    records, _, lost_bytes = _read(unit, context, clock)
    with open_event_store(event_store_place(context)) as store:
        claims = tuple(_joiner(context, store, registry, clock).plan_tokens(records))
    return JoinResult(0, {}, (), None, (), claims, frozenset(), lost_bytes)


def _spool(
    records: Records, verdicts: Verdicts, context: TaskContext
) -> tuple[WaitingRecords | None, tuple[Contested, ...]]:
    """Store the records that come again; unjoinable ones too, where a later run may re-open them."""
    keep: list[tuple[int, str]] = []
    for index, verdict in verdicts.of.items():
        if isinstance(verdict, Waits):
            keep.append((index, verdict.reason))
        elif isinstance(verdict, HeldByEarlierPlan):
            keep.append((index, "contested"))
        elif verdict == Final("unjoinable") and (
            context.final or records.occurrences[index] in context.already_recorded
        ):
            keep.append((index, "unjoinable"))
    if not keep:
        return None, ()
    indices = [index for index, _ in keep]
    # Being left to its home is no attempt: the EventStore was not asked.
    attempts = [records.attempts[index] + (reason == "primary") for index, reason in keep]
    table = pa.table(
        {
            "_file": pa.array([records.occurrences[i].file_number for i in indices], pa.int32()),
            "_offset": pa.array([records.occurrences[i].offset_bytes for i in indices], pa.int64()),
            "_raw": pa.array([records.raws[i] for i in indices], pa.binary()),
            "_id": pa.array([records.ids[i] for i in indices], pa.string()),
            "_key": pa.array([records.keys[i] for i in indices], pa.string()),
            "_time_us": pa.array([records.times_us[i] for i in indices], pa.int64()),
            "attempts": pa.array(attempts, pa.int32()),
            "first_seen_us": pa.array([records.first_seen_us[i] for i in indices], pa.int64()),
            "recorded": pa.array([reason == "unjoinable" for _, reason in keep], pa.bool_()),
        }
    )
    state = context.pipeline.datacenters[context.datacenter].state
    spool_file = write_spool(state, context.plan.batch, table)
    keys = [records.keys[i] or "" for i in indices]
    log = context.pipeline.primary
    times = [primary_time_us(key, records.times_us[i], log) for key, i in zip(keys, indices, strict=True)]
    rows = pa.table(
        {
            "file": table["_file"],
            "offset": table["_offset"],
            "event_id": table["_id"],
            "key_hash": pa.array(hash_ids(keys).view(np.int64)),
            "primary_time_us": pa.array(times, pa.int64()),
            "attempts": table["attempts"],
            "first_seen_us": table["first_seen_us"],
            "reason": pa.array([reason for _, reason in keep], pa.string()),
            "spool_row": pa.array(range(len(keep)), pa.int64()),
        }
    )
    return WaitingRecords(spool_file, rows), _contested(records, verdicts, indices, context)


def _contested(
    records: Records, verdicts: Verdicts, indices: list[int], context: TaskContext
) -> tuple[Contested, ...]:
    contested = []
    for row, index in enumerate(indices):
        verdict = verdicts.of[index]
        if isinstance(verdict, HeldByEarlierPlan):
            key = event_key(records.ids[index], records.times_us[index], context.pipeline.foreign)
            claim = Claim(key, verdict.token)
            contested.append(Contested(claim, records.occurrences[index], row))
    return tuple(contested)


def _already_joined(records: Records, verdicts: Verdicts, context: TaskContext) -> tuple[JoinedRecord, ...]:
    log = context.pipeline.foreign
    return tuple(
        JoinedRecord(event_key(records.ids[i], records.times_us[i], log), records.occurrences[i])
        for i, verdict in verdicts.of.items()
        if isinstance(verdict, AlreadyJoinedHere)
    )


def _write(context: TaskContext, name: TableName, rows: pa.Table) -> tuple[OutputFile, ...]:
    if not rows.num_rows:
        return ()
    lake = context.pipeline.datacenters[context.datacenter].lake
    return (write_rows(lake, name, context.plan.batch, rows),)


def _write_letters(context: TaskContext, letters: pa.Table) -> tuple[OutputFile, ...]:
    """Dead letters, but for those that an earlier run of this work has recorded."""
    return _write(context, "dead_letters", not_yet_recorded(letters, context))
