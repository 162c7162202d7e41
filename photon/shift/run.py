"""A shift: one bounded run of one datacenter's pipeline, put together from its parts.

The only place that knows all parts. What they do is in their own modules; commands and Dagster
both come in here.
"""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from photon.clock import MICROSECONDS, Clock, SystemClock, microseconds
from photon.dispatcher.batch import BackoffRetry, BatchExecution, Watching
from photon.dispatcher.dispatcher import Dispatcher, Mode
from photon.dispatcher.startup import start
from photon.dispatcher.state import STATE_FILE
from photon.dispatcher.task_splitter import TaskSplitter
from photon.join.adapting import load_adapter
from photon.join.messages import BatchRunner
from photon.join.outcomes import Counts
from photon.join.tasks import LocalRunner
from photon.pipeline.file import Pipeline, PipelineError
from photon.registry.address import RegistryAddress
from photon.registry.consensus.proposer import QuorumRegistry
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry, init_registry
from photon.shift.heartbeat import Heartbeat
from photon.shift.lease import DatacenterLock, Lease
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)

Engine = Literal["spark", "local"]
# Where Spark is: named here, imported only when it is asked for, so that `photon` needs no PySpark.
SPARK_RUNNER = "jobs.batch_job:SparkRunner"


# Asked to stop; nothing to do for so long; another went on; its time was over; all that its mode asks for.
Ended = Literal["asked", "idle", "relieved", "over", "done"]


@dataclass(frozen=True)
class ShiftLimits:
    """How a shift begins and ends, beside its mode."""

    run: str = ""  # who runs it: a run of Dagster; empty: a command
    in_line: bool = False  # wait for the process that runs the datacenter, and be relieved by the next
    length: timedelta | None = None  # None: no end
    relief: timedelta = timedelta()  # so much longer it waits for a successor
    idle: timedelta | None = None  # ends when there was nothing to do for so long


@dataclass(frozen=True)
class ShiftResult:
    """What a shift leaves behind: the equation of the datacenter's epoch, and the time it took."""

    datacenter: str
    counts: Counts
    seconds: float
    foreign_before: int
    primary_before: int
    ended: Ended

    def as_dict(self) -> dict[str, float]:
        """The equation, seconds, and events (of both kinds) read per second in this shift."""
        read = self.counts.foreign + self.counts.primary - self.foreign_before - self.primary_before
        rate = round(read / self.seconds, 1) if self.seconds > 0 else 0.0
        return {**self.counts.as_dict(), "seconds": round(self.seconds, 3), "events_per_second": rate}


def prepare(pipeline: Pipeline, clock: Clock | None = None) -> None:
    """Check what can be checked beforehand, and make a local registry on the very first start.

    PipelineError for a column that is in no header; AdapterNotFound. A registry that is not local, or
    that is gone while there are lakes or states of its datacenters, is never made here.
    """
    from photon.logs.headers import check_columns

    problems = check_columns(pipeline)
    if problems:
        raise PipelineError(problems)
    load_adapter(pipeline.adapter, pipeline.file.parent)
    begun = any(
        OutputTable(place.lake, "joined_events").exists() or (place.state / STATE_FILE).exists()
        for place in pipeline.datacenters.values()
    )
    if pipeline.registry.endpoints == "local" and not begun:
        init_registry(pipeline, clock or SystemClock())


@contextmanager
def open_runner(engine: Engine, pipeline: Pipeline, datacenter: str) -> Iterator[BatchRunner]:
    """The runner of an engine, closed at the end."""
    runner: BatchRunner
    if engine == "local":
        runner = LocalRunner()
    else:
        module, _, name = SPARK_RUNNER.partition(":")
        runner = getattr(importlib.import_module(module), name)(f"photon {pipeline.name} {datacenter}")
    try:
        yield runner
    finally:
        runner.close()


def _registry_of(pipeline: Pipeline) -> tuple[RegistryAddress, QuorumRegistry]:
    address = find_registry(pipeline)
    return address, open_registry(address)


class StopCondition:
    """Notices when a shift is to end, and why. Every question is a sign that the main loop goes on."""

    def __init__(
        self,
        lock: DatacenterLock,
        terms: ShiftLimits,
        asked: Callable[[], bool],
        beats: Heartbeat,
        clock: Clock,
    ) -> None:
        self._lock = lock
        self._terms = terms
        self._asked = asked
        self._beats = beats
        self._clock = clock
        self.why: Ended | None = None

    def has_come(self) -> bool:
        self._beats.progress()
        if self.why is None:
            self.why = self._reason()
        return self.why is not None

    def _reason(self) -> Ended | None:
        if self._asked():
            return "asked"
        if not self._terms.in_line:
            return None
        if self._lock.is_awaited():
            return "relieved"
        ends_us = self._lock.lease.ends_us
        if ends_us is not None and self._clock.now_us() > ends_us + microseconds(self._terms.relief):
            return "over"
        return None


def _take_lock(
    pipeline: Pipeline, datacenter: str, terms: ShiftLimits, clock: Clock, asked: Callable[[], bool]
) -> DatacenterLock:
    state = pipeline.datacenters[datacenter].state

    def lease() -> Lease:
        length_us = None if terms.length is None else microseconds(terms.length)
        return Lease.of_this_process(terms.run, clock.now_us(), length_us)

    if terms.in_line:
        return DatacenterLock.wait_in_line(state, datacenter, lease, asked)
    return DatacenterLock(state, datacenter, lease())


def run_shift(
    pipeline: Pipeline,
    datacenter: str,
    mode: Mode,
    engine: Engine = "spark",
    watching: Watching | None = None,
    clock: Clock | None = None,
    crash_task_at: str | None = None,
    runner: BatchRunner | None = None,
    registry: tuple[RegistryAddress, QuorumRegistry] | None = None,
    terms: ShiftLimits = ShiftLimits(),
) -> ShiftResult:
    """Join one datacenter's logs until the end that `mode` and `terms` name, or until a stop is asked for.

    `runner` and `registry` take the place of those that the engine and the pipeline file name.

    Raises AlreadyRunning, LineLeft, AdapterNotFound, RegistryMissing, RegistryMismatch, LakeMismatch,
    RetiredDatacenter, FormatTooNew, and what is unavailable before the first batch.
    """
    clock, watching = clock or SystemClock(), watching or Watching()
    load_adapter(pipeline.adapter, pipeline.file.parent)
    lock = _take_lock(pipeline, datacenter, terms, clock, watching.should_stop)
    times = pipeline.shift
    beats = Heartbeat(lock, times.lease_duration.total_seconds(), times.stuck_after.total_seconds(), clock)
    began_us, idle_seen = clock.now_us(), None
    try:
        end = StopCondition(lock, terms, watching.should_stop, beats, clock)
        watching = replace(watching, should_stop=end.has_come)
        with _opened(pipeline, datacenter, engine, watching, clock, crash_task_at, runner, registry) as work:
            before = work.state.counts()
            idle = 0.0 if terms.idle is None else terms.idle.total_seconds()
            work.run(mode, idle)
            if end.why is None and mode == "until_idle":
                idle_seen = work.follower.signature
            ended = end.why or ("idle" if terms.idle is not None else "done")
            seconds = (clock.now_us() - began_us) / MICROSECONDS
            return ShiftResult(
                datacenter, work.state.counts(), seconds, before.foreign, before.primary, ended
            )
    finally:
        beats.stop()
        lock.release(clock.now_us(), idle_seen)


@contextmanager
def _opened(
    pipeline: Pipeline,
    datacenter: str,
    engine: Engine,
    watching: Watching,
    clock: Clock,
    crash_task_at: str | None,
    runner: BatchRunner | None,
    registry: tuple[RegistryAddress, QuorumRegistry] | None,
) -> Iterator[Dispatcher]:
    """A dispatcher with all that it works with; closed at the end."""
    rng = random.Random()
    place = pipeline.datacenters[datacenter]
    waits = BackoffRetry(watching, clock, rng)
    address, ids = registry or waits.until_there(lambda: _registry_of(pipeline))
    tables: dict[TableName, OutputTable] = {name: OutputTable(place.lake, name) for name in TABLE_COLUMNS}
    joined = tables["joined_events"]
    started = waits.until_there(lambda: start(pipeline, datacenter, ids.register, joined, clock))
    state = started.state
    try:
        for table in tables.values():
            table.create(pipeline.name, datacenter)
        if started.new_epoch_because is not None:
            log.warning("datacenter %s begins a new epoch: %s", datacenter, started.new_epoch_because)
        opened = open_runner(engine, pipeline, datacenter) if runner is None else nullcontext(runner)
        with opened as runner:
            follows = state.follows_an_epoch
            orders = TaskSplitter(
                pipeline, datacenter, address, joined, runner.workers, follows, crash_task_at
            )
            execution = BatchExecution(
                pipeline, datacenter, state, tables, ids, runner, orders, clock, rng, watching
            )
            dispatcher = Dispatcher(pipeline, datacenter, state, started.log_map, execution, clock)
            if started.new_epoch_because is not None and pipeline.new_epoch_reads_from == "now":
                dispatcher.skip_foreign_backlog()
            yield dispatcher
    finally:
        started.log_map.close()
        state.close()
