"""Copies of a site's stores, which are put back later: states, lakes and the registry, alone or together.

The registry is away for a while, as a server that is stopped and started. Who finds it older than the lakes
is refused, and an operator refills it; so he does at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from photon.recovery.registry_watch import RegistryWatch
from photon.registry.consensus.register import Members
from photon.state.database import STATE_FILE
from photon.storage.output_files import OutputFile
from photon.upkeep.refill import refill
from photon.upkeep.retirable import NotRetired
from tests.simulation.whole.invariants import JOINED, Invariants, must
from tests.simulation.whole.processes import Worker, this_process
from tests.simulation.whole.shifts import Shifts
from tests.simulation.whole.site import Site

# What befalls datacenters whose stores are put back, and little else.
RESTORED = (
    *("copy_stores", "put_back_registry", "put_back_lake", "put_back_state", "put_back_all"),
    *("kill", "freeze", "cut_off", "lose_endpoint", "hold"),
)


class Copies:
    """The latest copy of each store of a site."""

    def __init__(self, site: Site, shifts: Shifts, invariants: Invariants) -> None:
        self._site, self._shifts, self._invariants = site, shifts, invariants
        self._registry: tuple[Members, Any, list[tuple[Any, Any]]] | None = None
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
        """Copy all of it; a state only while nobody works there."""
        shutil.rmtree(self._folder, ignore_errors=True)
        stores = self._site.stores.in_use()
        items = [(dict(store.items), dict(store.times)) for store in stores]
        self._registry = self._site.stores.members, self._site.observer.snapshot(), items
        for name in self.alive():
            place = self._site.pipeline.datacenters[name]
            if name not in self._shifts.running.values() and (place.state / STATE_FILE).exists():
                shutil.copytree(place.state, self._folder / "state" / name)
            if Path(str(place.lake)).exists():
                shutil.copytree(str(place.lake), self._folder / "lake" / name)

    def put_back_state(self) -> None:
        """One datacenter's state, which is lost if there is no copy of it."""
        name = self._site.chance.choice(self.alive())
        self._stop([name])
        self._site.network.after(1.0, lambda: self._replace([name], "state"))

    def put_back_lake(self) -> None:
        """One datacenter's lake, alone or with its state."""
        name = self._site.chance.choice(self.alive())
        parts = self._site.chance.choice((("lake",), ("lake", "state")))
        self._stop([name])
        self._site.network.after(1.0, lambda: self._replace([name], *parts))

    def put_back_registry(self) -> None:
        """The registry, alone or with all states, as where they lie in one folder."""
        if self._registry is None:
            return
        names = self.alive() if self._site.chance.random() < 0.5 else []
        self._stop(names)
        self._away_then(lambda: self._replace(names, "state"))

    def put_back_all(self) -> None:
        """All of it, with every datacenter stopped."""
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
        with mock.patch("photon.upkeep.refill._refuse_beside_joins"):  # who works does so elsewhere
            done = refill(self._site.pipeline, worker.registry, page_rows=3)
        with self._site.network.noting():
            must(not done.doubles, f"F1: two rows of one event: {done.doubles}")

    @contextmanager
    def looks_noted(self) -> Iterator[None]:
        """Note when each process has looked last, before it commits rows."""
        look = RegistryWatch._refuse_lost_wins

        def noted(watch: RegistryWatch, rows: Sequence[OutputFile]) -> None:
            worker = this_process()
            assert worker is not None
            worker.looked_seconds = self._site.network.now_seconds
            look(watch, rows)

        with mock.patch.object(RegistryWatch, "_refuse_lost_wins", noted):
            yield

    def passed(self, point: str, path: Path | None, worker: Worker) -> None:
        """Have a process die that would commit by a look at the registry of before a copy was put back.

        A23 does not prevent that: it is open there, and told at the next look.
        """
        if point != "lake.before_commit" or path is None or path.name != JOINED:
            return
        looked_seconds, worker.looked_seconds = worker.looked_seconds, None
        if looked_seconds is not None and looked_seconds <= self._site.judge.put_back_seconds:
            worker.kill()
            worker.step("dies between its last look and its commit")

    def _is_refused(self) -> None:
        """A join has ended, and says what to do: with all stopped, or with some that nobody knows of."""
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
        for store in self._site.stores.in_use():
            store.is_down = True
        self._site.network.after(self._site.chance.uniform(1, 12), partial(self._replace_registry, also))

    def _replace_registry(self, also: Callable[[], None]) -> None:
        assert self._registry is not None
        members, seen, items = self._registry
        for store in self._site.stores.in_use():
            store.is_down = False
        if members != self._site.stores.members:
            return  # an endpoint was repaired since: nobody would put its old store back
        also()
        self.has_put_back = True
        self._site.judge.put_back_seconds = self._site.network.now_seconds
        for store, (kept, times) in zip(self._site.stores.in_use(), items, strict=True):
            store.items.clear()
            store.items.update(kept)
            store.times.clear()
            store.times.update(times)
        self._site.observer.restore(deepcopy(seen))

    def _replace(self, names: Collection[str], *parts: str) -> None:
        for name in names:
            if name in self._shifts.running.values():
                continue  # one is quicker than who wanted to replace it
            place = self._site.pipeline.datacenters[name]
            if "lake" in parts and (self._folder / "lake" / name).exists():
                self._invariants.look_at_tables()
                shutil.rmtree(str(place.lake))
                shutil.copytree(self._folder / "lake" / name, str(place.lake))
                self._invariants.forget_lake(name)
                self.has_taken_rows = True
            if "state" in parts:
                shutil.rmtree(place.state, ignore_errors=True)
                self._shifts.forget_state(name)
                if (self._folder / "state" / name).exists():
                    shutil.copytree(self._folder / "state" / name, place.state)
