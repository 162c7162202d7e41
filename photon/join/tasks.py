"""Run one task in its process: read its bytes, let the joiner decide, write what it decided.

Errors come back as values (`Unavailable`, `Failed`): Spark would run a task that raises again at once.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from photon.event_store.indexing import Indexed, PlausibleTimes, index_events
from photon.event_store.logs import LogsEventStore
from photon.event_store.segments import SegmentDamaged
from photon.join.adapting import CAREFUL_SHARE, Careful, adapter_of
from photon.join.candidates import Candidates
from photon.join.deadline import TaskTimedOut, deadline
from photon.join.joiner import Joiner
from photon.join.messages import (
    AdapterFailing,
    BatchTasks,
    DamagedWaiting,
    Failed,
    IndexDamaged,
    IndexResult,
    IndexTask,
    JoinResult,
    JoinTask,
    ReindexTask,
    Task,
    TaskContext,
    TaskOutcome,
    TimedOut,
    Unavailable,
    ViewDamaged,
)
from photon.join.records import (
    Records,
    dead_letters_from_lines,
    dead_letters_from_records,
    fresh_records,
    left_out_rows,
    lost_events,
    not_yet_recorded,
    too_old_rows,
    unjoined_rows,
    waiting_records,
)
from photon.join.waiting_records import store_waiting
from photon.logs.files import ByteRange, LogFile
from photon.logs.joined_ranges import Piece
from photon.logs.parse import DEAD_LETTERS, FOREIGN_EVENTS, each_line_is_a_record, read_events_of
from photon.logs.ranges import RangeGone, read_pieces, read_ranges
from photon.logs.source import LogsUnavailable
from photon.pipeline.sections import ForeignLog, PrimaryLog
from photon.process.clock import CLOCK_TOLERANCE_US, MICROSECONDS, Clock, SystemClock
from photon.process.faults import fault_point
from photon.process.measures import Measures
from photon.process.quantiles import Sample
from photon.registry.lookups import claimant_of
from photon.registry.segments import RunDamaged
from photon.state.completeness.arrivals import MINUTE_US
from photon.state.failing import TooManyFail
from photon.state.outcomes import OutcomeClass
from photon.state.waiting import segments
from photon.state.waiting.segments import WaitingDamaged, read_retries
from photon.storage.columns import DEAD_LETTER_COLUMNS, TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.full_disks import why_not
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.output_files import OutputFile, write_rows
from photon.storage.store_errors import StoreUnavailable
from photon.storage.tables import OutputTable

REINDEX_PIECE_BYTES = 2**22


def run_task(task: Task, context: TaskContext, clock: Clock | None = None) -> TaskOutcome:
    """Run one task, and return its errors. Tests pass a `clock` of their own."""
    try:
        if isinstance(task, ReindexTask):  # as long as its logs are, and nothing of an adapter's
            return _reindex(task, context)
        with deadline(context.pipeline.limits.task_timeout.total_seconds()):
            if isinstance(task, IndexTask):
                return _index(task, context, clock or SystemClock())
            return _join(task, context, clock or SystemClock())
    except TaskTimedOut as error:
        return TimedOut(str(error))
    except WaitingDamaged as error:
        return DamagedWaiting(error.segments)
    except RunDamaged as error:
        return ViewDamaged(str(error))
    except LakeUnavailable as error:
        return Unavailable("lake", str(error))
    except LogsUnavailable as error:
        return Unavailable("logs", str(error))
    except SegmentDamaged as error:
        return IndexDamaged(str(error))
    except OSError as error:
        remedy = "it is tried again" if isinstance(error, StoreUnavailable) else "mend it, it is tried again"
        return Unavailable("state", f"{context.work}: {why_not(error, context.work)}; {remedy}")
    except TooManyFail as error:
        return AdapterFailing(error.calls)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Failed(f"{type(error).__name__}: {error} (at {place})")


@dataclass
class _TaskReader:
    """Reads a task's ranges; keeps the dead letters among their lines, and counts the bytes that are gone."""

    context: TaskContext
    log: PrimaryLog | ForeignLog
    letters: list[pa.Table] = field(default_factory=lambda: [DEAD_LETTER_COLUMNS.empty_table()])
    lost_bytes: int = 0
    gone: list[ByteRange] = field(default_factory=list)

    def events(self, ranges: Iterable[tuple[LogFile, ByteRange]]) -> Iterator[pa.Table]:
        files: dict[int, LogFile] = {}
        pieces = self._pieces(ranges, files)
        for parsed in read_events_of(pieces, self.log, self.context.pipeline.limits):
            self.keep_letters(parsed.dead_letters, files)
            yield parsed.events

    def _pieces(
        self, ranges: Iterable[tuple[LogFile, ByteRange]], files: dict[int, LogFile]
    ) -> Iterator[Piece]:
        """Ranges with their bytes, as far as these are there; `files` takes note of what was read."""
        each_line = partial(each_line_is_a_record, log=self.log, limits=self.context.pipeline.limits)
        for file, byte_range, data in read_ranges(self.context.folders.logs, ranges, each_line):
            files[file.number] = file
            if data is not None:
                yield file, byte_range, data
            else:
                self.lost_bytes += byte_range.end_bytes - byte_range.start_bytes
                self.gone.append(byte_range)

    def recorded_of_gone(self) -> Counter[OutcomeClass]:
        """The classes of records that are gone and that an earlier run has put into the tables (A12)."""
        recorded = self.context.already_recorded.items()
        return Counter(
            outcome
            for part in self.gone
            for place, outcome in recorded
            if place.file_number == part.file_number
            and part.start_bytes <= place.offset_bytes < part.end_bytes
        )

    def keep_letters(self, lines: pa.Table, files: Mapping[int, LogFile]) -> None:
        if lines.num_rows:
            self.letters.append(dead_letters_from_lines(lines, files, self.context))


# -- index tasks


def _index(task: IndexTask, context: TaskContext, clock: Clock) -> IndexResult:
    """Read primary ranges, and index their events."""
    reader, indexed, began_us = _TaskReader(context, context.pipeline.primary), Indexed(), clock.elapsed_us()
    if context.quarantine:
        _quarantine_primary(task, reader)
    else:
        events, plausible = reader.events(task.ranges), _plausible(context, clock)
        indexed = index_events(events, context.index.folder, task.segment, plausible)
        fault_point("task.after_index")
    letters = pa.concat_tables(reader.letters)
    files = _write(context, {"dead_letters": not_yet_recorded(letters, context)})
    measures = _measures("index", began_us, clock)
    return IndexResult(indexed, letters.num_rows, reader.lost_bytes, files, measures)


def _measures(stage: Literal["index", "join"], began_us: int, clock: Clock) -> Measures:
    """The time that a task took."""
    measures = Measures()
    measures.time("task_seconds", stage, seconds=(clock.elapsed_us() - began_us) / MICROSECONDS)
    return measures


def _plausible(context: TaskContext, clock: Clock) -> PlausibleTimes:
    return PlausibleTimes.at(clock.now_us(), CLOCK_TOLERANCE_US)


def _reindex(task: ReindexTask, context: TaskContext) -> IndexResult:
    """Index again what was indexed before; bytes that are gone since are nowhere to be found anyway."""
    log, limits, logs = context.pipeline.primary, context.pipeline.limits, context.folders.logs

    def pieces() -> Iterator[Piece]:
        for stretch in task.stretches:
            with contextlib.suppress(RangeGone):
                for at, data in read_pieces(logs, stretch, REINDEX_PIECE_BYTES, limits.line_bytes, log):
                    yield stretch.tracked.file, at, data

    events = (parsed.events for parsed in read_events_of(pieces(), log, limits))
    indexed = index_events(events, context.index.folder, task.segment)
    return IndexResult(Indexed(indexed.segment), 0, 0)


def _quarantine_primary(task: IndexTask, reader: _TaskReader) -> None:
    """Make the task's one line a dead letter, unread: it kept an index task from ending."""
    assert len(task.ranges) == 1, f"a task in quarantine has one line, not {len(task.ranges)} ranges"
    ((file, line),) = task.ranges
    letter = {
        "_file": [file.number],
        "_offset": [line.start_bytes],
        "_length": [line.end_bytes - line.start_bytes],
        "_raw": [b""],
        "reason": [reader.context.quarantine],
    }
    reader.keep_letters(pa.table(letter, schema=DEAD_LETTERS), {file.number: file})


# -- join tasks


def _join(task: JoinTask, context: TaskContext, clock: Clock) -> JoinResult:
    assert context.view is not None, "a join task has a view"
    began_us = clock.elapsed_us()
    reader = _TaskReader(context, context.pipeline.foreign)
    candidates = Candidates.of(task, context)
    records = _read(task, reader, clock)
    lost = candidates.lost_records(records, clock.now_us())
    # In one chunk: whoever takes some of a column would copy all of its chunks first.
    records = replace(records, table=pa.concat_tables([records.table, lost]).combine_chunks())
    bad_lines = sum(letters.num_rows for letters in reader.letters)
    fault_point("task.after_read")
    adapter = adapter_of(context.pipeline)
    if context.careful:
        adapter = Careful(adapter, context.pipeline.limits.task_timeout.total_seconds() * CAREFUL_SHARE)
    store = LogsEventStore(context.folders.logs, context.pipeline.primary, context.index)
    joiner = Joiner(
        records,
        context,
        context.view.open(claimant_of(context.plan)),
        context.view.register,
        store,
        adapter,
        candidates,
        partial(_joined_earlier, context),
        clock,
    )
    verdicts = joiner.join()
    dead_letters = pa.concat_tables([*reader.letters, dead_letters_from_records(records, verdicts, context)])
    rows: dict[TableName, pa.Table] = {
        "dead_letters": not_yet_recorded(dead_letters, context),
        "unjoined": unjoined_rows(records, verdicts, context),
        "too_old": too_old_rows(records, verdicts, context),
    }
    if context.pipeline.unmatched is not None:  # else nobody looks for unmatched primaries
        rows["left_out"] = left_out_rows(records, verdicts, context)
    files = (*candidates.stored, *_write(context, rows))
    fault_point("task.after_rows_written")
    waiting = store_waiting(records, verdicts, task, context, clock.now_us())
    fault_point("task.after_waiting")
    classes = verdicts.counts()
    classes["dead_letters"] += dead_letters.num_rows
    gone, plausible = reader.recorded_of_gone(), _plausible(context, clock)
    is_first_read = ~records.is_retry
    came = is_first_read & plausible.among(records.times_us)
    measures = _measures("join", began_us, clock)
    measures.add(joiner.measures)
    return JoinResult(
        foreign=int(np.count_nonzero(is_first_read)) + bad_lines + gone.total(),
        classes={name: count for name, count in (classes + gone).items() if count},
        lost=lost_events(records, verdicts),
        waiting=waiting,
        compared=joiner.compared(),
        ambiguous=verdicts.ambiguous,
        unread_files=frozenset(verdicts.unread_files),
        claims=verdicts.claims,
        registered_here=tuple(verdicts.registered_here),
        held=dict(verdicts.held),
        to_free=tuple(verdicts.to_free),
        registered_elsewhere=frozenset(verdicts.registered_elsewhere),
        taken_over=dict(verdicts.taken_over),
        fresh_were_free=verdicts.fresh_were_free,
        lost_bytes=reader.lost_bytes,
        max_time_us=plausible.latest(records.file_numbers[came], records.times_us[came]),
        came=Counter((records.times_us[came] // MINUTE_US).tolist()),
        adapter_calls=verdicts.adapter_calls,
        joinable_since_us=Sample.of(verdicts.joinable_since_us),
        files=files,
        unneeded_files=tuple(candidates.unneeded),
        measures=measures,
    )


def _read(task: JoinTask, reader: _TaskReader, clock: Clock) -> Records:
    """The task's records: those of its ranges, then those that waited."""
    context = reader.context
    waiting = read_retries(context.work / segments.FOLDER, task.retries)
    fresh = pa.concat_tables([FOREIGN_EVENTS.empty_table(), *reader.events(task.ranges)])
    parts = [fresh_records(fresh, clock.now_us(), context.final), waiting_records(waiting, context.final)]
    return Records(pa.concat_tables(parts), task.files_by_number, context.pipeline.foreign)


def _joined_earlier(context: TaskContext, ids: Collection[str]) -> Collection[str]:
    """Which of these ids have rows of earlier epochs. LakeUnavailable."""
    if not context.follows_an_epoch:
        return ()
    rows = epochs_of_rows(OutputTable(context.folders.lake, "joined_events"), ids)
    return {event_id for event_id, epochs in rows.items() if epochs != {context.plan.epoch}}


def _write(context: TaskContext, rows: Mapping[TableName, pa.Table]) -> tuple[OutputFile, ...]:
    """Write a file for each table that gets rows. LakeUnavailable."""
    lake, batch = context.folders.lake, context.plan.batch
    return tuple(write_rows(lake, name, batch, some) for name, some in rows.items() if some.num_rows)


# -- without Spark


class LocalRunner:
    """Runs batches in this very process, without Spark: for tests, and logs too small for a JVM.

    What kills a task kills the dispatcher with it.
    """

    workers = 1

    def __init__(self, clock: Clock | None = None) -> None:
        """`clock` replaces the system's, for tests."""
        self._clock = clock

    def look(self) -> None:
        """This process runs tasks at any time."""

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        return [run_task(task, batch.context, self._clock) for task in batch.tasks]

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        """Run them at once."""
        future: Future[list[TaskOutcome]] = Future()
        try:
            future.set_result(self.run(batch))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing was started."""
