"""A world whose stores are copied, and put back: the state folders, the registry's endpoints, the lakes."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args
from unittest import mock

from photon.faults import watched
from photon.ledger.errors import RegistryMismatch
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.register import Members
from photon.testing.faulty_store import FaultyStore
from photon.testing.memory_registry import memory_registry
from photon.upkeep.refill import Refilled, refill
from tests.simulation.verifying import verify
from tests.simulation.whole.invariants import must
from tests.simulation.world import World

WATCH = "photon.recovery.registry_watch.RegistryWatch"
Part = Literal["state", "registry", "lake"]
PARTS: tuple[Part, ...] = get_args(Part)


class Copied(World):
    """A world with one endpoint or three."""

    def __init__(
        self, folder: Path, datacenters: Sequence[str] = ("east",), endpoints: int = 1, more: str = ""
    ) -> None:
        super().__init__(folder, datacenters, more)
        self.stores = [self.store, *(FaultyStore(self.clock) for _ in range(endpoints - 1))]
        self._open_registry()
        self._items: list[tuple[dict[ItemKey, Stored], dict[ItemKey, str]]] = []

    def _open_registry(self) -> None:
        self.registry = memory_registry(*self.stores, clock=self.clock, settings=self.pipeline.registry)
        names = tuple(f"memory{number}" for number in range(len(self.stores)))
        self.address = RegistryAddress(self.pipeline.name, (), Members(1, names), self.pipeline.registry)

    def new_registry(self) -> None:
        """The registry's data is gone, and somebody made an empty one."""
        for store in self.stores:
            store.items.clear()
            store.times.clear()
        self._open_registry()

    @property
    def has_copy(self) -> bool:
        """Whether the registry was copied."""
        return bool(self._items)

    def copy(self, parts: Collection[Part] = PARTS) -> None:
        """Copy these stores of all datacenters."""
        for name, place in self.pipeline.datacenters.items():
            for part, folder in (("state", place.state), ("lake", place.lake)):
                if part in parts:
                    copy = self.folder / "copies" / part / name
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(str(folder), copy)
        if "registry" in parts:
            self._items = [(dict(store.items), dict(store.times)) for store in self.stores]

    def put_back(self, parts: Collection[Part], datacenters: Collection[str] = ()) -> None:
        """Put the copies back, of these datacenters or of all."""
        for name in datacenters or self.pipeline.datacenters:
            place = self.pipeline.datacenters[name]
            for part, folder in (("state", place.state), ("lake", place.lake)):
                if part in parts:
                    shutil.rmtree(str(folder))
                    shutil.copytree(self.folder / "copies" / part / name, str(folder))
        if "registry" in parts:
            for store, (items, times) in zip(self.stores, self._items, strict=True):
                store.items.clear()
                store.items.update(items)
                store.times.clear()
                store.times.update(times)

    def put_back_endpoint(self, slot: int) -> None:
        """Put the copy of one endpoint back."""
        items, times = self._items[slot]
        store = self.stores[slot]
        store.items, store.times = dict(items), dict(times)

    def refill(self, dry_run: bool = False) -> Refilled:
        """As `photon registry refill` does."""
        return refill(self.pipeline, self.registry, dry_run, page_rows=3)

    def join_all(self) -> bool:
        """Join every datacenter as an operator does, who refills a registry if told to; whether that was."""
        was_refused = False
        for _ in range(2):  # what one holds at first, it has published by then
            for name in self.pipeline.datacenters:
                self.clock.sleep(2)
                if (said := self.refused(name)) is not None:
                    must(f"photon registry refill {self.pipeline.file}" in said, said)
                    must(not was_refused, "refilled once, it is refused no more")
                    was_refused = True
                    must(not self.refill().doubles, "no event has two rows")
                    self.join(name)
        return was_refused

    def refused(self, datacenter: str = "east") -> str | None:
        """Join; why the join refused the registry, if it did."""
        try:
            self.join(datacenter)
        except RegistryMismatch as error:
            return str(error)
        return None

    def must_be_sound(self, ids: Collection[str]) -> None:
        """Each of these events has one row, and verification finds nothing."""
        must(self.joined_ids() == sorted(ids), f"{self.joined_ids()} are joined")
        for report in verify(self).values():
            must(not report.findings, f"verification finds {report.findings}")


def with_an_older_registry(folder: Path) -> Copied:
    """One that lacks two clicks that are joined; one of them is logged again, and a new one comes."""
    world = Copied(folder)
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join()
    world.copy()
    world.clicks(("d1", "q1"), ("d2", "q1"))
    world.join()
    world.put_back(["registry"])
    world.clicks(("d1", "q1"), ("e1", "q1"))
    return world


def nobody_joined_twice(world: Copied) -> None:
    """Each of these clicks has one row."""
    must(world.joined_ids() == ["c1", "d1", "d2", "e1"], f"an event has two rows: {world.joined_ids()}")


def an_older_registry_is_put_back(folder: Path) -> None:
    """Clicks that were joined since are logged again, and nobody joins them a second time."""
    world = with_an_older_registry(folder)
    world.join_all()
    nobody_joined_twice(world)


def a_process_works_while_the_registry_is_filled(folder: Path) -> None:
    """It is somewhere else, where its lock can't be seen, and has not looked at the registry since."""
    world, refilled = with_an_older_registry(folder), list[Refilled]()

    def refill_once(point: str, place: object) -> None:
        if point == "task.after_register" and not refilled:
            with mock.patch("photon.upkeep.refill._refuse_beside_joins"):
                refilled.append(world.refill())

    blind = dict.fromkeys(("check", "confirm", "confirm_wins"), mock.DEFAULT)
    with watched(refill_once), mock.patch.multiple(WATCH, **blind):
        world.join()
    must(refilled, "the registry was filled while a process worked")
    nobody_joined_twice(world)
