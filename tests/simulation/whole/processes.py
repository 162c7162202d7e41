"""A simulated process: the product's own code on a thread that waits at every step for its turn.

It waits whenever it asks the registry, sleeps, or passes a fault point. There the seed says how long, and
whether it dies. So what others do comes between any two of its steps.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from photon.registry.id_registry import IdRegistry
from photon.registry.view import View
from photon.storage.tokens import new_id
from tests.simulation.whole.site import Site
from tests.support.crashes import SimulatedCrash
from tests.support.memory_ledgers import MemoryLedgers, memory_registry
from tests.support.virtual_network import Strand, VirtualClient

STEP_SECONDS = 0.02  # the average time of a step


@dataclass(frozen=True, slots=True)
class Pace:
    """How evenly processes work: the chance that one stands still at a step, and for how long then."""

    short: float = 0.02
    long: float = 0.002  # like a stopped process: others may take it for dead
    short_seconds: float = 3.0
    long_seconds: float = 60.0

    def seconds(self, chance: random.Random) -> float:
        """Draw how long one step takes."""
        drawn = chance.random()
        if drawn < self.long:
            return chance.uniform(0.2, 1.0) * self.long_seconds
        if drawn < self.long + self.short:
            return chance.uniform(0.0, self.short_seconds)
        return chance.expovariate(1 / STEP_SECONDS)


EVEN = Pace(0.0, 0.0)


class Worker(VirtualClient):
    """A process with its own way to the registry, in one datacenter or none.

    `dies_at`: the step at which it is killed. `skew_seconds`: how far its clock is from virtual time.
    """

    def __init__(
        self,
        site: Site,
        skew_seconds: float,
        pace: Pace = EVEN,
        dies_at: int | None = None,
        is_cut_off: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(site.network, skew_seconds)
        self.network = site.network
        self.steps = 0
        self.last_step = "start"
        self.frozen_seconds = 0.0  # the next step takes so much longer
        self.frozen_at = ("", 0.0)  # at which step, and for how long
        self.checked_seconds: float | None = None  # the last look whether its claims count
        self.home: tuple[str, Path] | None = None  # the datacenter that it runs, and its state folder
        self.ledgers: MemoryLedgers = site.ledgers.another_way_in()
        self.ledgers.on_call = self._called
        self._ledgers_of_all = site.ledgers
        self._pace = pace
        self._dies_at = dies_at
        self._is_cut_off = is_cut_off
        self._is_dead = False

    def reader(self) -> IdRegistry:
        """The registry with a view of its own, read to its ends."""
        registry = memory_registry(self.ledgers, f"reader {new_id()}")
        registry.catch_up()
        return registry

    def unread(self) -> IdRegistry:
        """The registry with a view that has read nothing."""
        return IdRegistry(self.ledgers, View(self.ledgers.register, f"reader {new_id()}"))

    @property
    def is_dead(self) -> bool:
        """Say whether the process was killed."""
        return self._is_dead

    def kill(self) -> None:
        """End it where it waits."""
        self._is_dead = True

    def die(self, why: str) -> None:
        """End it here and now."""
        self.kill()
        self.last_step = why
        self._die_if_killed()

    def step(self, name: str) -> None:
        """Wait for the next turn, or die here."""
        self._die_if_killed()  # else it would go on where it is left by its death
        self.steps += 1
        self.last_step = name
        if self.steps == self._dies_at:
            self.kill()
        self._die_if_killed()
        frozen_seconds, self.frozen_seconds = self.frozen_seconds, 0.0
        frozen_seconds += self.frozen_at[1] if name == self.frozen_at[0] else 0.0
        self.sleep(self._pace.seconds(self.network.chance) + frozen_seconds)

    def _called(self, call: str) -> None:
        """A call to the registry: each is a step, and may meet nobody."""
        began_seconds = self.network.now_seconds
        self.step(call)
        chance, weather = self.network.chance, self.network.weather
        is_lost = chance.random() < weather.lost
        self.ledgers.is_away = self._ledgers_of_all.is_away or self._is_cut_off() or is_lost
        self.ledgers.lost_answers = int(call == "offer" and chance.random() < weather.unheard)
        if call == "confirm" and not self.ledgers.is_away:
            self.checked_seconds = began_seconds  # entries are asked for before the register

    def _run(self, work: Callable[[], None], strand: Strand, end: Callable[[], None] = lambda: None) -> None:
        def work_here() -> None:
            _thread.worker = self
            try:
                self._die_if_killed()
                work()
            except SimulatedCrash:
                pass
            finally:
                _thread.worker = None

        super()._run(work_here, strand, end)

    def _wait(self) -> None:
        _thread.worker = None  # others run on this very thread meanwhile
        try:
            super()._wait()
        finally:
            _thread.worker = self
        self._die_if_killed()

    def _die_if_killed(self) -> None:
        if self._is_dead:
            raise SimulatedCrash


def this_process() -> Worker | None:
    """The process whose thread asks; None: the simulation itself, or a thread that has no turns."""
    return getattr(_thread, "worker", None)


_thread = threading.local()
