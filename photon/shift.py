"""A shift: one bounded run of one datacenter's pipeline, put together from its parts.

The only place that knows all parts. What they do is in their own modules; commands and Dagster
both come in here.
"""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from photon.adapting import load_adapter
from photon.clock import Clock, SystemClock
from photon.dispatcher.batch import BatchExecution, Patience, Watching
from photon.dispatcher.dispatcher import Dispatcher, Mode
from photon.dispatcher.lock import DatacenterLock
from photon.dispatcher.orders import Orders
from photon.dispatcher.outcomes import Counts
from photon.dispatcher.starting import start
from photon.dispatcher.state import STATE_FILE
from photon.local_runner import LocalRunner
from photon.output import TABLE_COLUMNS, OutputTable, TableName
from photon.pipeline import Pipeline, PipelineError
from photon.registry.address import RegistryAddress
from photon.registry.init import find_registry, init_registry
from photon.registry.open import open_registry
from photon.registry.proposer import QuorumRegistry
from photon.work import BatchRunner

log = logging.getLogger(__name__)

Engine = Literal["spark", "local"]
# Where Spark is: named here, imported only when it is asked for, so that `photon` needs no PySpark.
SPARK_RUNNER = "jobs.batch_job:SparkRunner"


@dataclass(frozen=True)
class ShiftResult:
    """What a shift leaves behind: the equation of the datacenter's epoch, and the time it took."""

    datacenter: str
    counts: Counts
    seconds: float
    foreign_before: int
    primary_before: int

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
) -> ShiftResult:
    """Join one datacenter's logs until the end that `mode` names, or until a stop is asked for.

    `runner` and `registry` take the place of those that the engine and the pipeline file name.

    Raises AlreadyRunning, AdapterNotFound, RegistryMissing, RegistryMismatch, LakeMismatch,
    RetiredDatacenter, StateTooNew, and what is unavailable before the first batch.
    """
    clock, watching, rng = clock or SystemClock(), watching or Watching(), random.Random()
    place = pipeline.datacenters[datacenter]
    load_adapter(pipeline.adapter, pipeline.file.parent)
    lock = DatacenterLock(place.state, datacenter)
    try:
        waits = Patience(watching, clock, rng)
        address, ids = registry or waits.until_there(lambda: _registry_of(pipeline))
        tables: dict[TableName, OutputTable] = {name: OutputTable(place.lake, name) for name in TABLE_COLUMNS}
        joined = tables["joined_events"]
        started = waits.until_there(lambda: start(pipeline, datacenter, ids.register, joined, clock))
        for table in tables.values():
            table.create(pipeline.name, datacenter)
        if started.new_epoch_because is not None:
            log.warning("datacenter %s begins a new epoch: %s", datacenter, started.new_epoch_because)
        before = started.state.counts()
        began_us = clock.now_us()
        opened = open_runner(engine, pipeline, datacenter) if runner is None else nullcontext(runner)
        with opened as runner:
            execution = BatchExecution(
                pipeline,
                datacenter,
                started.state,
                tables,
                ids,
                runner,
                Orders(pipeline, datacenter, address, joined, runner.workers, crash_task_at),
                clock,
                rng,
                watching,
            )
            dispatcher = Dispatcher(pipeline, datacenter, started.state, started.log_map, execution, clock)
            try:
                if started.new_epoch_because is not None and pipeline.new_epoch_reads_from == "now":
                    dispatcher.skip_foreign_backlog()
                dispatcher.run(mode)
                seconds = (clock.now_us() - began_us) / 1_000_000
                return ShiftResult(
                    datacenter, started.state.counts(), seconds, before.foreign, before.primary
                )
            finally:
                started.log_map.close()
                started.state.close()
    finally:
        lock.release()
