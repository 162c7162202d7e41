"""The shifts of simulated datacenters, one after the other as their sensors start them; and zombies."""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock
from uuid import UUID

from photon.dispatcher.completion import Superseded
from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.refusals import OnHold
from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift.ending import ShiftLimits
from photon.dispatcher.shift.lease import AlreadyRunning
from photon.dispatcher.shift.run import JoinRun, ShiftResult
from photon.event_store import logs as event_store
from photon.join.tasks import LocalRunner
from photon.pipeline.file import Pipeline
from photon.registry.errors import RegistryMismatch, RegistryUnavailable, RetiredDatacenter
from photon.storage.delta import LakeMismatch, LakeUnavailable
from tests.simulation.whole.processes import EVEN, Pace, Worker, this_process
from tests.simulation.whole.site import Site
from tests.simulation.whole.tables import is_table, lent_tables
from tests.simulation.world import NOON_US
from tests.support.one_thread import OneThread

log = logging.getLogger(__name__)

SKEWS_SECONDS = (0.0, 0.0, -30.0, 40.0)
# These errors may end a shift that nobody killed: another one has its place, or a person stopped it.
ENDINGS = (Superseded, OnHold, RetiredDatacenter, AlreadyRunning, StoppedWaiting, LakeMismatch)
ENDINGS += (RegistryMismatch,)  # only where copies are put back
# A process freezes at the first of these points, and dies with ids claimed at one of the second.
CLAIMING = ("claim.after",)
CLAIMED = ("claim.after", "side_tables.after_too_old", "commit.before_main")
# Where a datacenter dies, or stands still, whose batch is passed over: half of the times that it comes there.
FALLING_SILENT = (*CLAIMED, "side_tables.after_dead_letters", "take.after_raised", "take.after_close")
UNAVAILABLE = (RegistryUnavailable, LakeUnavailable)


class NoHeartbeat:
    """Stands for the thread that tells successors that a shift lives: the simulation says who may start."""

    is_stuck = False

    def __init__(self, *_: object) -> None:
        """Like `Heartbeat`."""

    def progress(self) -> None:
        """Nobody asks."""

    def stop(self) -> None:
        """Nothing was started."""


@contextmanager
def without_threads(site: Site) -> Iterator[None]:
    """Do in turn, as the seed decides, what the product leaves to threads and to chance."""
    with ExitStack() as patches:
        for name, replacement in {
            "photon.dispatcher.shift.run.Heartbeat": NoHeartbeat,
            "photon.dispatcher.shift.lease.LOCK_TRIES": 1,
            "photon.storage.tokens.secrets.token_hex": lambda count: site.ids.randbytes(count).hex(),
            "photon.storage.output_files.uuid.uuid4": lambda: UUID(bytes=site.ids.randbytes(16)),
            "photon.storage.followed_table.open_table": lent_tables(site.lakes_put_back),
            "photon.storage.followed_table.is_table": is_table,
            "photon.state.points.Machine": OneThread,
            "photon.state.points.SystemClock": this_process,
            "photon.upkeep.refill.SystemClock": this_process,
            "photon.upkeep.retire.SystemClock": this_process,
            # The machine of a simulation does not lose power.
            "photon.storage.sync.SQLITE_SYNCHRONOUS": "OFF",
            "os.fsync": lambda descriptor: None,
        }.items():
            patches.enter_context(mock.patch(name, replacement))
        yield


class Shifts:
    """The processes that run the datacenters of a site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.running: dict[Worker, str] = {}  # each process, and its datacenter
        self.stopping = False
        self.ended: Counter[str] = Counter()
        self.skews_seconds = {name: site.chance.choice(SKEWS_SECONDS) for name in site.names}
        self.cut_off: set[str] = set()
        self.full_disks: set[str] = set()
        self.failing_workers: set[str] = set()
        self.dying_with_a_log: set[str] = set()
        self.freezing: set[str] = set()  # once they have claimed ids
        self.falling_silent: set[str] = set()  # they die so, or freeze, and come back with their state
        self.are_silent: set[str] = set()  # of these
        self._falls_at = ("", "")  # the datacenter that falls silent next, and where
        self.leaving: set[str] = set()  # datacenters that die once they have claimed their next ids
        self.away: set[str] = set()  # datacenters that are not started again
        self.lose_a_log: Callable[[str], None] = lambda datacenter: None
        self.pace = Pace()
        site.network.waiting = lambda: str({name: worker.last_step for worker, name in self.running.items()})
        self.refused: Callable[[], None] = lambda: None  # called when a shift finds the registry older
        self.lost_answers = 0.0  # the chance that a commit's answer is lost
        self.died = 0.0  # the chance that a shift dies at one of its steps

    def worker(self, datacenter: str, pace: Pace = EVEN, dies_at: int | None = None) -> Worker:
        """Make a new process in a datacenter."""
        site = self.site
        skew_seconds = NOON_US / 1_000_000 + self.skews_seconds[datacenter]
        return Worker(site, skew_seconds, pace, dies_at, lambda: datacenter in self.cut_off)

    def begin(self, datacenter: str) -> None:
        """Start a shift now, and the next one some time after it has ended."""
        if self.stopping or datacenter in self.away:
            return
        chance = self.site.chance
        dies_at = chance.randrange(1, 400) if chance.random() < self.died else None
        worker = self.worker(datacenter, self.pace, dies_at)
        stop = self.stop_after(chance.uniform(1, 60))

        def again() -> None:
            self.site.network.after(chance.expovariate(1 / 3.0), lambda: self.begin(datacenter))

        self.start(worker, datacenter, "until_idle", stop, again)

    def stop_after(self, seconds: float) -> Callable[[], bool]:
        """Return a function that says whether a shift is to stop: after so long, or when all stop."""
        end_seconds = self.site.network.now_seconds + seconds
        return lambda: self.stopping or self.site.network.now_seconds > end_seconds

    def forget_state(self, datacenter: str) -> None:
        """Forget the offsets of a state folder that is replaced: they may go back."""
        state = self.site.pipeline.datacenters[datacenter].state
        self.site.offsets = {seen: at for seen, at in self.site.offsets.items() if seen[0] != state}

    def fail(self, point: str, worker: Worker) -> None:
        """Have a process fail, freeze or die at this point, if that was ordered for its datacenter."""
        datacenter = worker.home[0] if worker.home is not None else None
        if datacenter in self.full_disks and point in ("disk.before_write", "lake.before_commit"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if datacenter in self.failing_workers and point == "task.after_rows_written":
            self.failing_workers.discard(datacenter)
            raise RuntimeError("the worker is lost")
        if datacenter in self.freezing and point in CLAIMING:
            self.freezing.discard(datacenter)
            worker.frozen_seconds = self.site.chance.uniform(12, 40)
            worker.step("frozen with ids claimed")
        if datacenter in self.falling_silent and point in FALLING_SILENT and not self.are_silent:
            if point in CLAIMING or point.startswith("take."):  # later points are passed without claims too
                self._falls_at = datacenter, self.site.chance.choice((point, *FALLING_SILENT[:4]))
            if self._falls_at == (datacenter, point):
                self._fall_silent(datacenter, worker)
        if datacenter is not None and point in CLAIMED:
            self._die_with_ids(datacenter, worker)
        if point == "lake.after_commit" and self.site.chance.random() < self.lost_answers:
            raise OSError(errno.EIO, "the answer is lost")

    def _fall_silent(self, datacenter: str, worker: Worker) -> None:
        """Stand still, or die and come back, after others may have taken it for dead; one at a time."""
        self.falling_silent.clear()
        self._falls_at = ("", "")
        self.are_silent.add(datacenter)
        seconds = self.site.chance.uniform(18, 35)
        self.site.network.after(seconds, lambda: self.are_silent.discard(datacenter))
        if self.site.chance.random() < 0.5:
            worker.frozen_seconds = seconds
            worker.step("stands still, silent")
            return

        def come_back() -> None:
            if datacenter not in self.leaving:
                self.away.discard(datacenter)
                self.begin(datacenter)

        self.away.add(datacenter)
        self.site.network.after(seconds, come_back)
        worker.die("dies, and comes back")

    def _die_with_ids(self, datacenter: str, worker: Worker) -> None:
        """Die right after ids were claimed, if that was ordered."""
        if datacenter in self.leaving:
            self.away.add(datacenter)
        elif datacenter in self.dying_with_a_log:
            self.dying_with_a_log.discard(datacenter)
            self.lose_a_log(datacenter)
        else:
            return
        worker.die("dies with ids claimed")

    def start(
        self,
        worker: Worker,
        datacenter: str,
        mode: Mode,
        stop: Callable[[], bool] = lambda: False,
        then: Callable[[], None] = lambda: None,
        pipeline: Pipeline | None = None,
    ) -> list[ShiftResult]:
        """Have a process run one shift; what came of it is in the list at the end."""
        results: list[ShiftResult] = []
        worker.home = datacenter, (pipeline or self.site.pipeline).datacenters[datacenter].state

        def work() -> None:
            try:
                results.append(self._run(worker, datacenter, mode, stop, pipeline or self.site.pipeline))
                self.ended[results[0].ended] += 1
            except ENDINGS as ending:
                self.ended[type(ending).__name__] += 1
                if isinstance(ending, RegistryMismatch):
                    self.refused()
                log.info("shift of %s: %s", datacenter, ending)
            except UNAVAILABLE:
                if not stop():
                    raise
            finally:
                self.running.pop(worker, None)
                if worker.is_dead:
                    self.ended[f"killed at {worker.last_step}"] += 1
                    event_store._segments.clear()
                then()

        self.running[worker] = datacenter
        worker.start(work)
        return results

    def _run(
        self, worker: Worker, datacenter: str, mode: Mode, stop: Callable[[], bool], pipeline: Pipeline
    ) -> ShiftResult:
        runner, callbacks = LocalRunner(worker), Callbacks(should_stop=stop)
        machine = OneThread(worker, self.site.chance)
        shift = JoinRun(
            pipeline, datacenter, runner, ShiftLimits(), callbacks, machine, lambda: worker.ledgers
        )
        return shift.run(mode)
