"""Copies of a site's stores, which are put back later: states, lakes and the registry, alone or together.

The registry is away for a while, as a server that is stopped and started. A join that finds it older than
the lakes is refused, and an operator refills it; he does so at the end, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import mock

from photon.state.database import STATE_FILE
from photon.upkeep.plans import carry_out
from photon.upkeep.refill import plan_refill
from photon.upkeep.retirable import NotRetired
from tests.simulation.rules import must
from tests.simulation.whole.invariants import JOINED, Invariants
from tests.simulation.whole.processes import Worker
from tests.simulation.whole.shifts import Shifts
from tests.simulation.whole.site import Site
from tests.support.memory_ledgers import Decided

# Seeds with this focus put stores back, and little else happens to their datacenters.
RESTORED = (
    *("copy_stores", "put_back_registry", "put_back_lake", "put_back_state", "put_back_all"),
    *("kill", "freeze", "cut_off", "registry_away", "hold"),
)


class Copies:
    """The latest copy of each store of a site."""

    def __init__(self, site: Site, shifts: Shifts, invariants: Invariants) -> None:
        self._site, self._shifts, self._invariants = site, shifts, invariants
        self._registry: Decided | None = None
        self._folder = site.folder / "copies"
        self.has_taken_rows = False
        self.has_put_back = False
        self.with_a_process: Callable[[str, Callable[[Worker], None]], None]  # an operator's
        self.alive: Callable[[], list[str]]
        self.retire: Callable[[str, Worker], None]
        self.given_up: Collection[str] = ()
        self._refills = False
        shifts.refused = self._is_refused

    def take(self) -> None:
        """Copy all stores; a state only while nobody works there."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._registry = self._site.ledgers.copy()
        for name in self.alive():
            place = self._site.pipeline.datacenters[name]
            if name not in self._shifts.running.values() and (place.state / STATE_FILE).exists():
                shutil.copytree(place.state, self._folder / "state" / name)
            if Path(str(place.lake)).exists():
                shutil.copytree(str(place.lake), self._folder / "lake" / name)

    def put_back_state(self) -> None:
        """Put one datacenter's state back, or lose it if there is no copy of it."""
        name = self._site.chance.choice(self.alive())
        self._stop([name])
        self._site.network.after(1.0, lambda: self._replace([name], "state"))

    def put_back_lake(self) -> None:
        """Put one datacenter's lake back, alone or with its state."""
        name = self._site.chance.choice(self.alive())
        parts = self._site.chance.choice((("lake",), ("lake", "state")))
        self._stop([name])
        self._site.network.after(1.0, lambda: self._replace([name], *parts))

    def put_back_registry(self) -> None:
        """Put the registry back, alone or with all states, as if they lay in one folder."""
        if self._registry is None:
            return
        names = self.alive() if self._site.chance.random() < 0.5 else []
        self._stop(names)
        self._away_then(lambda: self._replace(names, "state"))

    def put_back_all(self) -> None:
        """Put all stores back, with every datacenter stopped."""
        if self._registry is None:
            return
        names = self.alive()
        self._stop(names)
        self._away_then(lambda: self._replace(names, "state", "lake"))

    def refill(self, worker: Worker) -> None:
        """Run `photon registry refill`, after `photon retire` where the registry has forgotten of it."""
        for name in sorted(self.given_up):
            with suppress(NotRetired):
                self.retire(name, worker)
        with mock.patch("photon.upkeep.refill._refuse_beside_joins"):  # joins at work run elsewhere
            done = carry_out(lambda: plan_refill(self._site.pipeline, worker.unread(), page_rows=3))
        with self._site.network.noting():
            must(not done.doubles, f"F1: two rows of one event: {done.doubles}")

    def passed(self, point: str, path: Path | None, worker: Worker) -> None:
        """Have a process die that would commit by a check of before a copy of the registry was put back.

        L10 does not prevent that: it is open there, and told at the next look.
        """
        if point != "lake.before_commit" or path is None or path.name != JOINED:
            return
        if (worker.checked_seconds or 0.0) <= self._site.put_back_seconds:
            worker.die("dies between its check and its commit")

    def _is_refused(self) -> None:
        """Refill, as a refused join says: with all stopped, or while joins run that nobody knows of."""
        if self._refills:
            return
        self._refills = True
        if self._site.chance.random() < 0.5:
            self._stop(self.alive())

        def begin() -> None:
            self._refills = False
            self.with_a_process(self._site.chance.choice(self.alive()), self.refill)

        self._site.network.after(self._site.chance.uniform(0.5, 5), begin)

    def _stop(self, names: Collection[str]) -> None:
        for worker, name in list(self._shifts.running.items()):
            if name in names:
                worker.kill()

    def _away_then(self, also: Callable[[], None]) -> None:
        self._site.ledgers.is_away = True
        self._site.network.after(self._site.chance.uniform(1, 12), partial(self._replace_registry, also))

    def _replace_registry(self, also: Callable[[], None]) -> None:
        assert self._registry is not None
        self._site.ledgers.is_away = False
        also()
        self.has_put_back = True
        self._site.put_back_seconds = self._site.network.now_seconds
        self._site.ledgers.put_back(self._registry)

    def _replace(self, names: Collection[str], *parts: str) -> None:
        for name in names:
            if name in self._shifts.running.values():
                continue  # a process has begun before the state is replaced
            place = self._site.pipeline.datacenters[name]
            if "lake" in parts and (self._folder / "lake" / name).exists():
                self._invariants.look_at_tables()
                shutil.rmtree(str(place.lake))
                shutil.copytree(self._folder / "lake" / name, str(place.lake))
                self._site.lakes_put_back[Path(str(place.lake))] += 1
                self._invariants.forget_lake(name)
                self.has_taken_rows = True
            if "state" in parts:
                shutil.rmtree(place.state, ignore_errors=True)
                self._shifts.forget_state(name)
                if (self._folder / "state" / name).exists():
                    shutil.copytree(self._folder / "state" / name, place.state)
