"""A shift: one bounded run of one datacenter's pipeline, put together from its parts."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from photon.dispatcher.batch_tools import BatchTools
from photon.dispatcher.completion import Superseded
from photon.dispatcher.dispatcher import Dispatcher, Mode
from photon.dispatcher.log_reader import note_files
from photon.dispatcher.other_settings import refuse_other_ids
from photon.dispatcher.primary_index import PrimaryIndex
from photon.dispatcher.recovery.announcing import Announcer
from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.dispatcher.recovery.holders import OtherEpochs
from photon.dispatcher.refusals import OnHold, check_datacenters, refuse_place_of_another
from photon.dispatcher.releasing import Releasing
from photon.dispatcher.retrying import BackoffRetry, Callbacks
from photon.dispatcher.shift.ending import (
    NO_LIMITS,
    Ended,
    ShiftLimits,
    StopCondition,
    ending_on_decisions,
    telling_status,
)
from photon.dispatcher.shift.lease import LEASE_SECONDS, DatacenterLock, Heartbeat, Lease, stuck_seconds
from photon.dispatcher.shift.measured import MeasuredFile
from photon.dispatcher.shift.people import ASK_SECONDS, silent_registry
from photon.dispatcher.shift.points import PointsRecorder, recording_points
from photon.dispatcher.startup import start
from photon.dispatcher.waiting_upkeep import WaitingUpkeep
from photon.join.adapting import check_modules
from photon.join.messages import BatchRunner
from photon.join.tasks import LocalRunner
from photon.logs.columns import check_columns
from photon.logs.folders import log_folder
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.unread_files import UnreadFile, unread_as_dict
from photon.pipeline.file import Pipeline, PipelineError
from photon.pipeline.sections import Datacenter
from photon.process.clock import MICROSECONDS, SystemClock, microseconds
from photon.process.environment import EnvironmentLacks, environment_lack, limits_lack
from photon.process.errors import FormatTooNew, UserError
from photon.process.in_time import NotInTime, Repeated
from photon.process.machine import Machine
from photon.process.measures import Meter
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryMismatch, RegistryUnavailable, RetiredDatacenter
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import find_registry_soon, init_registry, open_registry, positions_at
from photon.registry.positions import Positions
from photon.registry.stores.positions import StorePositions
from photon.registry.view import current_register
from photon.registry.view_store import ViewUnavailable
from photon.state.database import STATE_FILE, StateUnavailable, damage_is_named
from photon.state.dispatcher_state import DispatcherState
from photon.state.outcomes import Counts
from photon.state.view import open_view
from photon.storage.columns import BATCH_TABLES, TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.library_trial import refuse_broken_library
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)

# Opens what runs the tasks of a datacenter's batches, when its shift begins: Spark's takes seconds.
Engine = Callable[[Pipeline, str], BatchRunner]

# An answer of the registry that came late counts for so long.
STANDS_SECONDS = 60.0

# A join ended so says nothing itself: the registry has what people decided, or the next join takes over.
KNOWN_OTHERWISE = (OnHold, RetiredDatacenter, Superseded)


@dataclass(frozen=True)
class ShiftResult:
    """The equation of the datacenter's epoch after a shift, and the time that the shift took."""

    counts: Counts
    seconds: float
    events_before: int  # primary and foreign ones that earlier shifts of the epoch had read
    ended: Ended
    unread: tuple[UnreadFile, ...] = ()  # files of the logs that are there and were not read

    def as_dict(self) -> dict[str, Any]:
        """The equation, seconds, events (of both kinds) read per second in this shift, and unread files."""
        read = self.counts.foreign + self.counts.primary - self.events_before
        rate = round(read / self.seconds, 1) if self.seconds > 0 else 0.0
        speed = {"seconds": round(self.seconds, 3), "events_per_second": rate}
        return {**self.counts.as_dict(), **speed, **unread_as_dict(self.unread)}


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
    clock, has_joined = SystemClock(), partial(has_begun, pipeline)
    if callbacks is not None:
        retry = BackoffRetry(callbacks, clock, random.Random())
        has_joined = partial(retry.until_available, has_joined)
    if limits_lack() is None and not has_joined():
        init_registry(pipeline, clock)


def has_begun(pipeline: Pipeline) -> bool:
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


def run_shift(
    pipeline: Pipeline,
    datacenter: str,
    mode: Mode,
    engine: Engine | BatchRunner = without_spark,
    limits: ShiftLimits = NO_LIMITS,
    callbacks: Callbacks | None = None,
) -> ShiftResult:
    """Join one datacenter's logs on this machine, with the registry that the pipeline file names."""
    find_positions = partial(_positions_of, pipeline, Repeated(STANDS_SECONDS))
    shift = JoinRun(pipeline, datacenter, engine, limits, callbacks or Callbacks(), Machine(), find_positions)
    return shift.run(mode)


def _positions_of(pipeline: Pipeline, asked: Repeated[Positions]) -> Positions:
    """RegistryUnavailable soon: a call that hangs takes a minute to fail, and who waits tells it at once."""
    try:
        return asked.answer(lambda: positions_at(find_registry_soon(pipeline)), ASK_SECONDS)
    except NotInTime as error:
        raise RegistryUnavailable(silent_registry(pipeline, str(error))) from error


@dataclass(frozen=True)
class JoinRun:
    """One bounded run of a datacenter's join, and all that it works with."""

    pipeline: Pipeline
    datacenter: str
    engine: Engine | BatchRunner
    limits: ShiftLimits
    callbacks: Callbacks
    machine: Machine
    find_positions: Callable[[], Positions]  # those of the registry

    def run(self, mode: Mode) -> ShiftResult:
        """Join until the end that `mode` and the limits name, or until a stop is requested.

        Raises AlreadyRunning, StoppedWaiting, AdapterNotFound, FormatNotFound, PlaceTaken, RegistryMissing,
        RegistryMismatch, LakeMismatch, RetiredDatacenter, FormatTooNew, StateDamaged,
        LibraryBreaksCommits, and what is unavailable before the first batch.
        """
        if (lack := limits_lack()) is not None:
            self._end_with(lack)
        check_modules(self.pipeline)
        refuse_broken_library()
        self._refuse_before_anything_is_made()
        lock, clock = self._take_lock(), self.machine.clock
        heartbeat = Heartbeat(lock, LEASE_SECONDS, stuck_seconds(self.pipeline.limits), clock)
        end = StopCondition(lock, self.limits, self.callbacks.should_stop, heartbeat, clock)
        callbacks = replace(telling_status(self.callbacks, lock, clock), should_stop=end.has_come)
        idle_signature = None
        try:
            with recording_points(self.pipeline, self.datacenter, self.machine) as points:
                if lock.before.was_killed:
                    points.mark_killed(lock.before)
                result, signature = self._join(mode, points.recording(callbacks), heartbeat, points, end)
                idle_signature = signature if end.why is None and mode == "until_idle" else None
                return result
        except RegistryMismatch as error:
            lock.tell_end(refused=str(error))
            raise
        except KNOWN_OTHERWISE:
            raise
        except Exception as error:
            told = error if isinstance(error, UserError) else environment_lack(error)
            if told is None:
                raise
            lock.tell_end(ended_by=str(told).removesuffix("."))
            if told is error:
                raise
            raise told from error
        finally:
            heartbeat.stop()
            lock.release(clock.now_us(), idle_signature)

    def _join(
        self,
        mode: Mode,
        callbacks: Callbacks,
        heartbeat: Heartbeat,
        points: PointsRecorder,
        end: StopCondition,
    ) -> tuple[ShiftResult, str]:
        """Join in one epoch after the other; the result, and the signature of the logs at the end."""
        clock = self.machine.clock
        began_us = clock.elapsed_us()
        while True:
            with (
                damage_is_named(self._place.state),
                self._open_dispatcher(callbacks, heartbeat, points) as dispatcher,
            ):
                before = dispatcher.state.counts()
                try:
                    dispatcher.run(mode, self._idle_seconds)
                except Superseded as error:
                    retry = BackoffRetry(callbacks, clock, self.machine.rng)
                    if not retry.until_available(dispatcher.tools.may_begin_anew):
                        raise
                    log.warning("%s; this process goes on in a new epoch", error)
                    continue
                ended = end.why or ("idle" if self.limits.idle is not None else "done")
                seconds = (clock.elapsed_us() - began_us) / MICROSECONDS
                counts, events_before = dispatcher.state.counts(), before.foreign + before.primary
                unread = dispatcher.reader.unread()
                result = ShiftResult(counts, seconds, events_before, ended, unread)
                return result, dispatcher.reader.signature

    @property
    def _place(self) -> Datacenter:
        return self.pipeline.datacenters[self.datacenter]

    @property
    def _idle_seconds(self) -> float:
        return 0.0 if self.limits.idle is None else self.limits.idle.total_seconds()

    def _end_with(self, lack: EnvironmentLacks) -> NoReturn:
        """End before anything is made, with the reason where others read it."""
        lock = self._take_lock()
        lock.tell_end(ended_by=str(lack))
        lock.release(self.machine.clock.now_us(), None)
        raise lack

    def _refuse_before_anything_is_made(self) -> None:
        """Refuse a state of another pipeline or of other ids; before there is one, by what the registry says.

        PlaceTaken, SettingsChanged, RetiredDatacenter, OnHold, RegistryMismatch, RegistryMissing. What does
        not answer is waited for later.
        """
        folder, pipeline, datacenter = self._place.state, self.pipeline, self.datacenter
        if folder.exists():
            with suppress(StateUnavailable, FormatTooNew), open_view(folder) as state:
                owner = None if state is None else state.meta("pipeline")
                refuse_place_of_another(f"the state {folder}", owner, pipeline, datacenter)
                if state is not None:
                    refuse_other_ids(state.settings, folder, pipeline)
            return
        joined = OutputTable(self._place.lake, "joined_events")
        with suppress(LakeUnavailable):
            refuse_place_of_another(f"the table {joined.folder}", joined.pipeline(), pipeline, datacenter)
        with suppress(RegistryUnavailable):
            check_datacenters(pipeline, datacenter, current_register(self.find_positions()))

    def _take_lock(self) -> DatacenterLock:
        limits, clock = self.limits, self.machine.clock

        def lease() -> Lease:
            length_us = None if limits.length is None else microseconds(limits.length)
            return Lease.of_this_process(limits.run, clock.now_us(), length_us, limits.parent)

        state, callbacks = self._place.state, self.callbacks
        if limits.takes_turns:
            return DatacenterLock.take_over(state, self.datacenter, lease, callbacks.should_stop)
        return DatacenterLock.wait_for(state, self.datacenter, lease, callbacks, clock)

    def _open_registry(self) -> IdRegistry:
        return open_registry(self.pipeline, self.datacenter, self.find_positions())

    @contextmanager
    def _open_dispatcher(
        self, callbacks: Callbacks, heartbeat: Heartbeat, points: PointsRecorder
    ) -> Iterator[Dispatcher]:
        """Open a dispatcher with all that it works with; closed at the end."""
        pipeline, datacenter, machine = self.pipeline, self.datacenter, self.machine
        clock, retry = machine.clock, BackoffRetry(callbacks, machine.clock, machine.rng)
        names: list[TableName] = [*BATCH_TABLES]
        if pipeline.unmatched is not None:
            names.append("left_out")
        tables = {name: OutputTable(self._place.lake, name) for name in names}
        with ExitStack() as stack:
            registry = retry.until_available(self._open_registry)
            stack.enter_context(_view_of(registry))
            started = retry.until_available(lambda: start(pipeline, datacenter, registry, tables, machine))
            state = stack.enter_context(closing(started.state))
            held = _held_files(self._place, state)
            if held is not None:
                stack.enter_context(closing(held))
            for table in tables.values():
                retry.until_available(partial(table.create, pipeline.name, datacenter))
            if started.new_epoch_because is not None:
                log.warning("datacenter %s begins a new epoch: %s", datacenter, started.new_epoch_because)
                points.mark("new epoch", f"epoch {state.epoch} begins: {started.new_epoch_because}")
            with suppress(StateUnavailable):  # the loop meets it too, and waits
                note_files(pipeline, datacenter, state, clock.now_us(), held)
            epoch = Epoch(datacenter, int(state.epoch or 0))
            silent_after = pipeline.recovery.silent_after
            announcer = Announcer(registry, epoch, silent_after, clock, lambda: heartbeat.is_stuck)
            stack.enter_context(announcer.working(state.open_plan() is not None, machine))
            runner = stack.enter_context(open_runner(self.engine, pipeline, datacenter))
            merger = stack.enter_context(machine.worker("merge"))
            news = stack.enter_context(log_folder(self._place.logs).listening())
            holders = OtherEpochs(started.watch)
            meter, positions = Meter(), registry.positions
            of_stores = (positions.meter,) if isinstance(positions, StorePositions) else ()
            measured = MeasuredFile(state.folder, state.epoch or "", (meter, *of_stores), clock)
            tools = BatchTools(
                pipeline,
                datacenter,
                state,
                tables,
                registry,
                runner,
                machine,
                ending_on_decisions(callbacks, holders, measured),
                PrimaryIndex(state, merger),
                WaitingUpkeep(state, merger),
                announcer,
                holders,
                meter,
            )
            beside = stack.enter_context(machine.worker("releases"))
            releasing = Releasing(
                pipeline, datacenter, registry, tools.closes, clock, beside, DistantLakes(machine=machine)
            )
            dispatcher = Dispatcher(tools, news, held, releasing)
            stack.enter_context(points.following(dispatcher, measured))
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
    _close_view(registry)  # a process that is killed, or dies in a simulation, stores nothing


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
