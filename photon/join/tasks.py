"""What runs in a task's process: read a unit's bytes, let the joiner decide, write what it decided.

Errors come back as values (`Unavailable`, `Failed`): Spark would run a task that raises again at once.
"""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from photon import faults
from photon.clock import Clock, SystemClock
from photon.event_store.indexing import index_ranges
from photon.event_store.logs import EventStorePlace, LogsEventStore, open_event_store
from photon.faults import fault_point
from photon.join.adapting import load_adapter
from photon.join.joiner import Joiner, OutcomeUnknown, plan_tokens
from photon.join.messages import (
    BatchTasks,
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
)
from photon.join.outcomes import AlreadyJoinedHere, DeadLetter, Final, HeldByEarlierPlan
from photon.join.records import Records, records_of
from photon.join.rows import (
    dead_letters_from_lines,
    dead_letters_from_records,
    not_yet_recorded,
    too_old_rows,
    unjoined_rows,
)
from photon.join.spool import SpoolUnavailable, read_spool, store_waiting
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import DEAD_LETTERS, ParsedRange, read_events
from photon.logs.ranges import RangeGone, read_range
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import ForeignLog, PrimaryLog
from photon.quantiles import Sample
from photon.registry.interface import Claim, IdRegistry, RegistryUnavailable
from photon.registry.open import open_registry
from photon.storage.columns import DEAD_LETTER_COLUMNS, TableName
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.tables import LakeUnavailable, OutputFile, OutputTable, write_rows

Unit = TypeVar("Unit")
Rest = ParamSpec("Rest")


def errors_as_values(
    run: Callable[Concatenate[Unit, TaskContext, Rest], TaskOutcome],
) -> Callable[Concatenate[Unit, TaskContext, Rest], TaskOutcome]:
    """Let a task return its errors, and die at the fault point that `context.crash_at` names."""

    @wraps(run)
    def guarded(unit: Unit, context: TaskContext, *args: Rest.args, **options: Rest.kwargs) -> TaskOutcome:
        state = context.folders.state
        if context.crash_at is not None:
            faults.arm_task(context.crash_at, str(state / f"crashed-{context.crash_at}"))
        try:
            return run(unit, context, *args, **options)
        except (RegistryUnavailable, OutcomeUnknown) as error:
            return Unavailable("registry", str(error))
        except LakeUnavailable as error:
            return Unavailable("lake", str(error))
        except SpoolUnavailable as error:
            return Unavailable("state", str(error))
        except (sqlite3.Error, OSError) as error:
            return Unavailable("state", f"{state}: {error}; mend it, it is tried again")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            return Failed(f"{type(error).__name__}: {error} (at {place})")

    return guarded


# -- index units


@errors_as_values
def run_index_unit(unit: IndexUnit, context: TaskContext) -> IndexResult:
    """Read primary ranges into the log file map and this process's cache."""
    if context.quarantine:
        return _quarantine_primaries(unit, context)
    lost: list[ByteRange] = []
    with _event_store(context) as store:
        parsed = _parsed_ranges(unit.ranges, context.pipeline.primary, context, lost)
        indexed = index_ranges(parsed, store.log_map, store.cache)
    fault_point("task.after_index")
    letters = _dead_letters_of_unit(indexed.dead_letters, unit, context)
    return IndexResult(
        events=indexed.events,
        max_time_us=indexed.max_time_us,
        new_hashes=indexed.new_hashes,
        dead_letters=letters.num_rows,
        lost_bytes=_bytes_of(lost),
        files=_write_dead_letters(context, letters),
    )


def _quarantine_primaries(unit: IndexUnit, context: TaskContext) -> IndexResult:
    """The unit's one line kept an index task from ending: a dead letter, unread."""
    assert len(unit.ranges) == 1, f"a unit in quarantine has one line, not {len(unit.ranges)} ranges"
    ((file, line),) = unit.ranges
    letter = {
        "_file": [file.number],
        "_offset": [line.start_bytes],
        "_length": [line.end_bytes - line.start_bytes],
        "_raw": [b""],
        "reason": [context.quarantine],
    }
    letters = _dead_letters_of_unit([pa.table(letter, schema=DEAD_LETTERS)], unit, context)
    return IndexResult(
        0, {}, np.empty(0, np.uint64), letters.num_rows, 0, _write_dead_letters(context, letters)
    )


def _dead_letters_of_unit(lines: Iterable[pa.Table], unit: IndexUnit, context: TaskContext) -> pa.Table:
    """Dead letters of lines of a unit's files; each table of `lines` is of one file."""
    files = {file.number: file for file, _ in unit.ranges}
    letters = [dead_letters_from_lines(table, files[table["_file"][0].as_py()], context) for table in lines]
    return pa.concat_tables([DEAD_LETTER_COLUMNS.empty_table(), *letters])


# -- join units


@errors_as_values
def run_join_unit(
    unit: JoinUnit, context: TaskContext, registry: IdRegistry | None = None, clock: Clock | None = None
) -> JoinResult:
    """Join the records of a unit. Tests pass a `registry` and a `clock` of their own."""
    clock = clock or SystemClock()
    records, bad_lines, lost_bytes = _read(unit, context, clock)
    fault_point("task.after_read")
    adapter = load_adapter(context.pipeline.adapter, context.pipeline.file.parent)
    registry = registry or open_registry(context.registry)
    with _event_store(context) as store:
        joined_earlier = partial(_joined_earlier, context)
        verdicts = Joiner(records, context, registry, store, adapter, joined_earlier, clock).join()
    letters = [bad_lines, dead_letters_from_records(records, verdicts, _files_of(unit), context)]
    dead_letters = pa.concat_tables(letters)
    files = (
        *(_write(context, "joined_events", verdicts.rows) if verdicts.rows is not None else ()),
        *_write_dead_letters(context, dead_letters),
        *_write(context, "unjoined", unjoined_rows(records, verdicts, context)),
        *_write(context, "too_old", too_old_rows(records, verdicts, context)),
    )
    fault_point("task.after_rows_written")
    waiting = store_waiting(records, verdicts, context)
    classes = verdicts.counts()
    classes["dead_letters"] += dead_letters.num_rows
    return JoinResult(
        foreign=records.is_retry.count(False) + bad_lines.num_rows,
        classes={name: count for name, count in classes.items() if count},
        decided_retries=tuple(
            records.occurrences[index]
            for index, verdict in verdicts.of.items()
            if records.is_retry[index] and isinstance(verdict, Final | DeadLetter | AlreadyJoinedHere)
        ),
        waiting=waiting,
        contested=tuple(
            Contested(Claim(records.events[index], verdict.token), records.occurrences[index])
            for index, verdict in verdicts.of.items()
            if isinstance(verdict, HeldByEarlierPlan)
        ),
        already_joined=tuple(
            JoinedRecord(records.events[index], records.occurrences[index])
            for index, verdict in verdicts.of.items()
            if isinstance(verdict, AlreadyJoinedHere)
        ),
        to_release=tuple(verdicts.to_release),
        registered_elsewhere=frozenset(verdicts.registered_elsewhere),
        lost_bytes=lost_bytes,
        joinable_since_us=Sample.of(verdicts.joinable_since_us),
        files=files,
    )


@errors_as_values
def run_release_unit(
    unit: JoinUnit, context: TaskContext, registry: IdRegistry | None = None, clock: Clock | None = None
) -> JoinResult:
    """Find what the plan has registered of a unit (protocol A11), for the dispatcher to release."""
    records, _, lost_bytes = _read(unit, context, clock or SystemClock())
    tokens = plan_tokens(records, context.plan, registry or open_registry(context.registry))
    return JoinResult(to_release=tuple(tokens), lost_bytes=lost_bytes)


def _read(unit: JoinUnit, context: TaskContext, clock: Clock) -> tuple[Records, pa.Table, int]:
    """The unit's records, the dead letters among its lines, and bytes that are gone."""
    log = context.pipeline.foreign
    fresh: list[pa.Table] = []
    letters = [DEAD_LETTER_COLUMNS.empty_table()]
    lost: list[ByteRange] = []
    for file, _, parsed in _parsed_ranges(unit.ranges, log, context, lost):
        fresh.append(parsed.events)
        letters.append(dead_letters_from_lines(parsed.dead_letters, file, context))
    waiting = read_spool(context.folders.state, unit.retries)
    headers = {number: file.header for number, file in _files_of(unit).items()}
    events = pa.concat_tables(fresh) if fresh else waiting.slice(0, 0)
    records = records_of(events, waiting, headers, log, clock.now_us(), context.final)
    return records, pa.concat_tables(letters), _bytes_of(lost)


def _files_of(unit: JoinUnit) -> dict[int, LogFile]:
    return {file.number: file for file in (*unit.files, *(file for file, _ in unit.ranges))}


def _event_store(context: TaskContext) -> LogsEventStore:
    return open_event_store(
        EventStorePlace.of(context.pipeline, context.datacenter, context.plan.epoch, context.workers)
    )


def _joined_earlier(context: TaskContext, ids: Collection[str]) -> Collection[EventKey]:
    """Which events with one of these ids have rows of earlier epochs. LakeUnavailable."""
    if not context.follows_an_epoch:
        return ()
    table = OutputTable(context.folders.lake, "joined_events")
    rows = epochs_of_rows(table, ids, context.pipeline.foreign)
    return {key for key, epochs in rows.items() if epochs != {context.plan.epoch}}


# -- what both read and write


def _parsed_ranges(
    ranges: Iterable[tuple[LogFile, ByteRange]],
    log: PrimaryLog | ForeignLog,
    context: TaskContext,
    lost: list[ByteRange],
) -> Iterator[tuple[LogFile, ByteRange, ParsedRange]]:
    """Read and parse the ranges, one at a time; those that are gone go to `lost`."""
    for file, byte_range in ranges:
        try:
            data = read_range(context.folders.logs, file, byte_range)
        except RangeGone:
            lost.append(byte_range)
            continue
        yield file, byte_range, read_events(data, file, byte_range, log, context.pipeline.limits)


def _bytes_of(ranges: Iterable[ByteRange]) -> int:
    return sum(byte_range.end_bytes - byte_range.start_bytes for byte_range in ranges)


def _write(context: TaskContext, name: TableName, rows: pa.Table) -> tuple[OutputFile, ...]:
    if not rows.num_rows:
        return ()
    return (write_rows(context.folders.lake, name, context.plan.batch, rows),)


def _write_dead_letters(context: TaskContext, letters: pa.Table) -> tuple[OutputFile, ...]:
    """Write those that no earlier run of this work has recorded."""
    return _write(context, "dead_letters", not_yet_recorded(letters, context))


# -- without Spark


class LocalRunner:
    """Runs batches in this very process, without Spark: for tests, and logs too small for a JVM.

    What kills a task kills the dispatcher with it.
    """

    workers = 1

    def __init__(self, registry: IdRegistry | None = None, clock: Clock | None = None) -> None:
        """`registry` and `clock` replace the batch's own, for tests."""
        self._registry = registry
        self._clock = clock

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """The outcomes of all units, index units first."""
        join = run_release_unit if batch.release_only else run_join_unit
        return [
            *(run_index_unit(unit, batch.context) for unit in batch.index_units),
            *(join(unit, batch.context, self._registry, self._clock) for unit in batch.join_units),
        ]

    def close(self) -> None:
        """Nothing was started."""
