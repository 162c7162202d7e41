"""A simulated process: the product's own code on a thread that waits at every step for its turn.

It waits whenever it asks the registry, sleeps, or passes a fault point. There the seed says how long, and
whether it dies. So what others do comes between any two of its steps.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.virtual_network import Strand
from photon.pipeline.sections import Registry
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import TIMED_OUT
from tests.simulation.network import REQUEST_TIMEOUT_SECONDS, Client, Network
from tests.simulation.simulated_stores import Stores
from tests.simulation.whole.judging import Judge, JudgedRegistry

STEP_SECONDS = 0.02  # what a step takes on average


@dataclass(frozen=True, slots=True)
class Pace:
    """How evenly processes work: the chance that one stands still at a step, and for how long then."""

    short: float = 0.02
    long: float = 0.002  # as if it were stopped: others may take it for dead
    short_seconds: float = 3.0
    long_seconds: float = 60.0

    def seconds(self, chance: random.Random) -> float:
        """How long one step takes."""
        drawn = chance.random()
        if drawn < self.long:
            return chance.uniform(0.2, 1.0) * self.long_seconds
        if drawn < self.long + self.short:
            return chance.uniform(0.0, self.short_seconds)
        return chance.expovariate(1 / STEP_SECONDS)


EVEN = Pace(0.0, 0.0)


class Worker(Client):
    """A process with its own client of the registry, in one datacenter or none.

    `dies_at`: the step at which it is killed. `skew_seconds`: how far its clock is from virtual time.
    """

    def __init__(
        self,
        network: Network,
        stores: Stores,
        judge: Judge,
        settings: Registry,
        skew_seconds: float,
        pace: Pace = EVEN,
        dies_at: int | None = None,
        is_cut_off: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(network, skew_seconds)
        self.steps = 0
        self.last_step = "start"
        self.frozen_seconds = 0.0  # for so long it is stopped at its next step
        self.looked_seconds: float | None = None  # when it looked last whether its wins are there, to commit
        self.home: tuple[str, Path] | None = None  # the datacenter that it runs, and its state folder
        self._pace = pace
        self._dies_at = dies_at
        self._is_cut_off = is_cut_off
        members = stores.members
        self.registry: QuorumRegistry = JudgedRegistry(
            [stores.store(slot, name) for slot, name in enumerate(members.incarnations)],
            settings,
            self,
            channel=self,
            chance=network.chance,
            members=members,
            reopen=stores.store,
        )
        self.registry.judge = judge

    @property
    def client(self) -> Worker:
        """Itself: as `simulated_process.Process` has one."""
        return self

    def start_with(self, work: Callable[[QuorumRegistry, Client], None]) -> None:
        """Let it work, from now on."""
        self.start(lambda: work(self.registry, self))

    @property
    def is_dead(self) -> bool:
        """Whether it was killed."""
        return self._dead

    def _run(self, work: Callable[[], None], strand: Strand, end: Callable[[], None] = lambda: None) -> None:
        def work_here() -> None:
            _thread.worker = self
            try:
                work()
            finally:
                _thread.worker = None

        super()._run(work_here, strand, end)

    def _wait(self) -> None:
        _thread.worker = None  # what happens meanwhile, on this very thread, is not its doing
        try:
            super()._wait()
        finally:
            _thread.worker = self

    def step(self, name: str) -> None:
        """Wait for the next turn, or die here."""
        self.steps += 1
        self.last_step = name
        if self.steps == self._dies_at:
            self.kill()
        self._die_if_killed()
        frozen_seconds, self.frozen_seconds = self.frozen_seconds, 0.0
        self.sleep(self._pace.seconds(self.network.chance) + frozen_seconds)

    def exchange(self, send: Any, requests: Any, heard: Any, is_write: bool, until: Any = None) -> Any:
        """See `Channel`; each exchange is a step too."""
        if self.is_at_work and requests:
            self.step("exchange")
        return super().exchange(send, requests, heard, is_write, until)

    def _send(
        self, send: Any, endpoint: Any, batch: Sequence[Any], answered: Callable[[Sequence[Any]], None]
    ) -> None:
        if not self._is_cut_off():
            super()._send(send, endpoint, batch, answered)
            return
        silence = [TIMED_OUT] * len(batch)
        self.network.after(REQUEST_TIMEOUT_SECONDS, lambda: answered(silence))


def this_process() -> Worker | None:
    """The process whose thread asks; None: the simulation itself, or a thread that has no turns."""
    return getattr(_thread, "worker", None)


_thread = threading.local()
