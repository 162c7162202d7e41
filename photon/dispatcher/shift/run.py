"""A shift: one bounded run of one datacenter's pipeline, put together from its parts."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from photon.dispatcher.batch import BatchExecution
from photon.dispatcher.completion import Superseded
from photon.dispatcher.dispatcher import Dispatcher, Mode
from photon.dispatcher.log_reader import note_files
from photon.dispatcher.other_settings import refuse_other_ids
from photon.dispatcher.primary_index import PrimaryIndex
from photon.dispatcher.recovery.announcing import Announcer
from photon.dispatcher.recovery.holders import Holders
from photon.dispatcher.refusals import OnHold, check_datacenters, refuse_place_of_another
from photon.dispatcher.retrying import BackoffRetry, Callbacks
from photon.dispatcher.shift.lease import LEASE_SECONDS, DatacenterLock, Heartbeat, Lease, stuck_seconds
from photon.dispatcher.shift.measured import MeasuredFile
from photon.dispatcher.startup import start
from photon.dispatcher.waiting_upkeep import WaitingUpkeep
from photon.errors import FormatTooNew, UserError
from photon.join.adapting import check_modules
from photon.join.messages import BatchRunner
from photon.join.tasks import LocalRunner
from photon.logs.announcements import Announcements
from photon.logs.columns import check_columns
from photon.logs.folders import log_folder
from photon.logs.tailing.open_files import OpenFiles
from photon.pipeline.file import Pipeline, PipelineError
from photon.pipeline.sections import Datacenter
from photon.process.clock import MICROSECONDS, Clock, SystemClock, microseconds
from photon.process.measures import Meter
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryMismatch, RegistryUnavailable, RetiredDatacenter
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import init_registry, open_registry, read_register
from photon.registry.positions import Positions
from photon.registry.stores.positions import StorePositions
from photon.registry.view_store import ViewUnavailable
from photon.state.damage import damage_is_named
from photon.state.database import STATE_FILE, StateUnavailable
from photon.state.dispatcher_state import DispatcherState
from photon.state.outcomes import Counts
from photon.state.view import open_view
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)

# Opens what runs the tasks of a datacenter's batches, when its shift begins: Spark's takes seconds.
Engine = Callable[[Pipeline, str], BatchRunner]

# Ends of a join that others tell of: the registry, where people have decided so; or whoever took over.
KNOWN_OTHERWISE = (OnHold, RetiredDatacenter, Superseded)

# A stop was requested; nothing to do for `idle`; a successor took over; the length is over; all is done.
Ended = Literal["asked", "idle", "relieved", "over", "done"]


@dataclass(frozen=True)
class ShiftLimits:
    """How a shift begins and ends, besides its mode."""

    run: str = ""  # of Dagster; empty: a command
    parent: int | None = None  # the process with which it ends
    takes_turns: bool = False  # wait for the process that runs the datacenter, and hand over to the next
    length: timedelta | None = None  # None: no end
    relief: timedelta = timedelta()  # how much longer it waits for a successor
    idle: timedelta | None = None  # end after this long without work


@dataclass(frozen=True)
class ForTests:
    """What tests replace."""

    clock: Clock = field(default_factory=SystemClock)
    positions: Positions | None = None  # instead of the pipeline file's registry
    announces_at_once: bool = False  # the thread that runs batches beats, and asks distant lakes
    rng: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True)
class ShiftResult:
    """The equation of the datacenter's epoch after a shift, and the time that the shift took."""

    counts: Counts
    seconds: float
    events_before: int  # of both kinds, that earlier shifts of the epoch had read
    ended: Ended

    def as_dict(self) -> dict[str, float]:
        """The equation, seconds, and events (of both kinds) read per second in this shift."""
        read = self.counts.foreign + self.counts.primary - self.events_before
        rate = round(read / self.seconds, 1) if self.seconds > 0 else 0.0
        return {**self.counts.as_dict(), "seconds": round(self.seconds, 3), "events_per_second": rate}


def prepare(pipeline: Pipeline, callbacks: Callbacks | None = None) -> None:
    """Check columns, adapter and formats before the start, and make a local registry on the very first one.

    PipelineError for a column that is in no header; AdapterNotFound, FormatNotFound. Makes local registries
    alone, and none once a datacenter has a lake or a state. Waits for a lake that can't be looked at, with
    `callbacks`, which may end it by StoppedWaiting; else LakeUnavailable.
    """
    problems = check_columns(pipeline)
    if problems:
        raise PipelineError(problems)
    check_modules(pipeline)
    if pipeline.registry.endpoints != "local":
        return
    clock, has_begun = SystemClock(), partial(_has_begun, pipeline)
    if callbacks is not None:
        retry = BackoffRetry(callbacks, clock, random.Random())
        has_begun = partial(retry.until_available, has_begun)
    if not has_begun():
        init_registry(pipeline, clock)


def _has_begun(pipeline: Pipeline) -> bool:
    """Whether a datacenter has a state or a lake: states first, for lakes may be away."""
    places = pipeline.datacenters.values()
    return any((place.state / STATE_FILE).exists() for place in places) or any(
        OutputTable(place.lake, "joined_events").exists() for place in places
    )


def without_spark(pipeline: Pipeline, datacenter: str) -> BatchRunner:
    """Run tasks in this process, one after the other: the engine for logs too small for a JVM."""
    return LocalRunner()


@contextmanager
def open_runner(engine: Engine | BatchRunner, pipeline: Pipeline, datacenter: str) -> Iterator[BatchRunner]:
    """Open the runner of an engine, and close it at the end; a runner that is passed in stays open."""
    if not callable(engine):
        yield engine
        return
    with closing(engine(pipeline, datacenter)) as runner:
        yield runner


@dataclass
class StopCondition:
    """Notices when a shift is to end, and why."""

    lock: DatacenterLock
    limits: ShiftLimits
    stop_requested: Callable[[], bool]
    heartbeat: Heartbeat
    clock: Clock
    why: Ended | None = None

    def has_come(self) -> bool:
        """Tell whether to end; each call also counts as progress for the heartbeat."""
        self.heartbeat.progress()
        if self.why is None:
            self.why = self._reason()
            if self.why is not None:
                self.lock.announce_end()
        return self.why is not None

    def _reason(self) -> Ended | None:
        if self.stop_requested():
            return "asked"
        if not self.limits.takes_turns:
            return None
        if self.lock.has_successor():
            return "relieved"
        ends_us = self.lock.lease.ends_us
        if ends_us is not None and self.clock.now_us() > ends_us + microseconds(self.limits.relief):
            return "over"
        return None


def run_shift(
    pipeline: Pipeline,
    datacenter: str,
    mode: Mode,
    engine: Engine | BatchRunner = without_spark,
    limits: ShiftLimits = ShiftLimits(),
    callbacks: Callbacks | None = None,
    for_tests: ForTests | None = None,
) -> ShiftResult:
    """Join one datacenter's logs until the end that `mode` and `limits` name, or until a stop is requested.

    Raises AlreadyRunning, StoppedWaiting, AdapterNotFound, FormatNotFound, PlaceTaken, RegistryMissing,
    RegistryMismatch, LakeMismatch, RetiredDatacenter, FormatTooNew, StateDamaged, and what is unavailable
    before the first batch.
    """
    callbacks, for_tests = callbacks or Callbacks(), for_tests or ForTests()
    clock = for_tests.clock
    check_modules(pipeline)
    _refuse_before_anything_is_made(pipeline, datacenter, for_tests)
    lock = _take_lock(pipeline.datacenters[datacenter].state, datacenter, limits, clock, callbacks)
    heartbeat = Heartbeat(lock, LEASE_SECONDS, stuck_seconds(pipeline.limits), clock)
    began_us, idle_seen = clock.now_us(), None
    try:
        end = StopCondition(lock, limits, callbacks.should_stop, heartbeat, clock)
        callbacks = replace(_telling_waits(callbacks, lock, clock), should_stop=end.has_come)
        while True:
            with (
                damage_is_named(pipeline.datacenters[datacenter].state),
                _open_dispatcher(pipeline, datacenter, engine, callbacks, heartbeat, for_tests) as dispatcher,
            ):
                before = dispatcher.state.counts()
                try:
                    dispatcher.run(mode, 0.0 if limits.idle is None else limits.idle.total_seconds())
                except Superseded as error:
                    retry = BackoffRetry(callbacks, clock, for_tests.rng)
                    if not retry.until_available(dispatcher.execution.may_begin_anew):
                        raise
                    log.warning("%s; this process goes on in a new epoch", error)
                    continue
                if end.why is None and mode == "until_idle":
                    idle_seen = dispatcher.reader.signature
                ended = end.why or ("idle" if limits.idle is not None else "done")
                seconds = (clock.now_us() - began_us) / MICROSECONDS
                counts, events_before = dispatcher.state.counts(), before.foreign + before.primary
                return ShiftResult(counts, seconds, events_before, ended)
    except RegistryMismatch as error:
        lock.tell_end(refused=str(error))
        raise
    except KNOWN_OTHERWISE:
        raise
    except UserError as error:
        lock.tell_end(ended_by=str(error))
        raise
    finally:
        heartbeat.stop()
        lock.release(clock.now_us(), idle_seen)


def _telling_waits(callbacks: Callbacks, lock: DatacenterLock, clock: Clock) -> Callbacks:
    """The callbacks, which also write into the lease what the shift waits for, for `photon status`."""

    def on_wait(reason: str) -> None:
        lock.tell_wait(reason, clock.now_us())
        callbacks.on_wait(reason)

    def on_cause(reason: str) -> None:
        lock.tell_wait(reason, lock.lease.waits_since_us)
        callbacks.on_cause(reason)

    def on_resume(reason: str, seconds: float) -> None:
        lock.tell_wait("", clock.now_us())
        callbacks.on_resume(reason, seconds)

    return replace(callbacks, on_wait=on_wait, on_cause=on_cause, on_resume=on_resume)


def _refuse_before_anything_is_made(pipeline: Pipeline, datacenter: str, for_tests: ForTests) -> None:
    """Refuse a state of another pipeline or of other ids; before there is one, by what the registry says.

    PlaceTaken, SettingsChanged, RetiredDatacenter, OnHold, RegistryMismatch, RegistryMissing. Who does not
    answer is waited for later.
    """
    folder = pipeline.datacenters[datacenter].state
    if folder.exists():
        with suppress(StateUnavailable, FormatTooNew), open_view(folder) as state:
            owner = None if state is None else state.meta("pipeline")
            refuse_place_of_another(f"the state {folder}", owner, pipeline, datacenter)
            if state is not None:
                refuse_other_ids(state.settings, folder, pipeline)
        return
    joined = OutputTable(pipeline.datacenters[datacenter].lake, "joined_events")
    with suppress(LakeUnavailable):
        refuse_place_of_another(f"the table {joined.folder}", joined.pipeline(), pipeline, datacenter)
    with suppress(RegistryUnavailable):
        check_datacenters(pipeline, datacenter, read_register(pipeline, for_tests.positions))


def _take_lock(
    state: Path, datacenter: str, limits: ShiftLimits, clock: Clock, callbacks: Callbacks
) -> DatacenterLock:
    def lease() -> Lease:
        length_us = None if limits.length is None else microseconds(limits.length)
        return Lease.of_this_process(limits.run, clock.now_us(), length_us, limits.parent)

    if limits.takes_turns:
        return DatacenterLock.take_over(state, datacenter, lease, callbacks.should_stop)
    return DatacenterLock.wait_for(state, datacenter, lease, callbacks, clock)


@contextmanager
def _open_dispatcher(
    pipeline: Pipeline,
    datacenter: str,
    engine: Engine | BatchRunner,
    callbacks: Callbacks,
    heartbeat: Heartbeat,
    for_tests: ForTests,
) -> Iterator[Dispatcher]:
    """A dispatcher with all that it works with; closed at the end."""
    rng, clock = for_tests.rng, for_tests.clock
    retry = BackoffRetry(callbacks, clock, rng)
    in_thread = not for_tests.announces_at_once
    lake = pipeline.datacenters[datacenter].lake
    tables: dict[TableName, OutputTable] = {name: OutputTable(lake, name) for name in TABLE_COLUMNS}
    with ExitStack() as stack:
        registry = retry.until_available(lambda: open_registry(pipeline, datacenter, for_tests.positions))
        stack.enter_context(_view_of(registry))
        started = retry.until_available(
            lambda: start(pipeline, datacenter, registry, tables["joined_events"], clock, in_thread)
        )
        state = stack.enter_context(closing(started.state))
        held = _held_files(pipeline.datacenters[datacenter], state)
        if held is not None:
            stack.enter_context(closing(held))
        for table in tables.values():
            retry.until_available(partial(table.create, pipeline.name, datacenter))
        if started.new_epoch_because is not None:
            log.warning("datacenter %s begins a new epoch: %s", datacenter, started.new_epoch_because)
        with suppress(StateUnavailable):  # the loop meets it too, and waits
            note_files(pipeline, datacenter, state, clock.now_us(), held)
        epoch = Epoch(datacenter, int(state.epoch or 0))
        silent_after = pipeline.recovery.silent_after
        announcer = Announcer(registry, epoch, silent_after, clock, lambda: heartbeat.is_stuck)
        stack.enter_context(announcer.working(state.open_plan() is not None, in_thread))
        runner = stack.enter_context(open_runner(engine, pipeline, datacenter))
        background = stack.enter_context(ThreadPoolExecutor(1, "merge"))
        news = stack.enter_context(_news_of(pipeline.datacenters[datacenter]))
        holders = Holders(pipeline, datacenter, registry, clock, in_thread, watch=started.watch)
        meter, positions = Meter(), registry.positions
        of_stores = (positions.meter,) if isinstance(positions, StorePositions) else ()
        measured = MeasuredFile(state.folder, state.epoch or "", (meter, *of_stores), clock)
        stack.callback(measured.write)
        execution = BatchExecution(
            pipeline,
            datacenter,
            state,
            tables,
            registry,
            runner,
            clock,
            rng,
            _measured(callbacks, holders, measured),
            PrimaryIndex(state, background),
            WaitingUpkeep(state, background),
            announcer,
            holders,
            meter,
        )
        dispatcher = Dispatcher(execution, news, held)
        if state.skips_backlog:
            retry.until_available(dispatcher.skip_foreign_backlog)
        yield dispatcher


@contextmanager
def _view_of(registry: IdRegistry) -> Iterator[None]:
    """Store the view at the end, or leave it to the next start to read on."""
    try:
        yield
    except Exception:
        _close_view(registry)
        raise
    _close_view(registry)  # whoever is killed, or dies in a simulation, stores nothing


def _close_view(registry: IdRegistry) -> None:
    try:
        registry.close_view()
    except ViewUnavailable as error:
        log.warning("%s; the next start reads on from what is stored", error)


def _held_files(place: Datacenter, state: DispatcherState) -> OpenFiles | None:
    """Return the holder of open log files; None for objects on S3, which stay as they are."""
    if not isinstance(place.logs, Path):
        return None
    work = state.work if isinstance(state.work, Path) else state.folder
    return OpenFiles(place.logs, work, state.epoch or "")


def _news_of(place: Datacenter) -> AbstractContextManager[Announcements]:
    return log_folder(place.logs).listening()


def _measured(callbacks: Callbacks, holders: Holders, measured: MeasuredFile) -> Callbacks:
    """The callbacks, which also stop for people's decisions, and have written what is measured."""
    stop = callbacks.should_stop

    def should_stop() -> bool:
        measured.write_if_due()  # the shift asks all the time, also while it waits
        return stop() or holders.is_stopped

    return replace(callbacks, should_stop=should_stop)
