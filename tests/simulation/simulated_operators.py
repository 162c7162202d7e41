"""What operators do to a simulated registry while its clients work: gc, reshard, repair.

They run the product's own code, and now and then die half-way.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Literal

from photon.faults import GC_FAULT_POINTS, REPAIR_FAULT_POINTS, arm
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.decisions import majority
from photon.registry.consensus.register import with_shards
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.registry.operations.repair import RepairSuperseded, refill
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from tests.simulation.network import Client, Network
from tests.simulation.simulated_process import Process
from tests.simulation.simulated_stores import Store, Stores

Upkeep = Literal["gc", "repair", "resharding"]

PAGE_ITEMS = 2  # so that a page ends between the few ids
MOST_SHARDS = 4
ATTEMPTS = 3
CRASHES = 0.3  # of those who do something
LOST_IN_REPAIR = 0.2  # of repairs that died: the new store is lost too
ANEW = 0.1  # of repairs, whatever an earlier one has left


class Operators:
    """All who look after one registry. `times_us`: of the events, where a boundary may be put."""

    def __init__(
        self,
        network: Network,
        stores: Stores,
        chance: random.Random,
        times_us: list[int],
        new_process: Callable[[], Process],
    ) -> None:
        self._network = network
        self._stores = stores
        self._chance = chance
        self._times_us = times_us
        self._new_process = new_process
        self._numbers = count(1)
        self._in_repair: Counter[int] = Counter()  # by slot, how many repairs have not ended well

    def begin(self, upkeep: Upkeep) -> None:
        """Have this done, once or more, some time."""
        for _ in range(self._chance.randrange(1, 4)):
            seconds = self._chance.uniform(0, 15)
            match upkeep:
                case "repair":
                    self._network.after(seconds, self._lose_a_store)
                case "gc":
                    self._network.after(seconds, lambda: self.start_gc(self._chance.choice(self._times_us)))
                case "resharding":
                    self._network.after(seconds, lambda: self._new_process().start_with(self._reshard))

    def repair(self, slot: int, anew: bool) -> None:
        """Have a slot repaired in good weather, by somebody who is not killed."""
        process = self._new_process()
        process.start_with(lambda registry, client: self._refill(registry, client, slot, None, anew))

    def broken_slots(self) -> list[int]:
        """Slots that need a repair: those that are out of use, and those whose store is lost."""
        members = self._stores.members
        lost = [store.slot for store in self._stores.in_use() if not store.is_there]
        return sorted({*members.fresh, *members.down, *lost}, key=lambda slot: slot not in members.fresh)

    # -- gc and resharding

    def start_gc(self, boundary_us: int) -> None:
        """Have somebody collect what is below the boundary; one that dies is begun again."""
        process = self._new_process()
        self._may_be_killed(process)
        process.start_with(lambda registry, client: self._run_gc(registry, client, boundary_us))

    def _run_gc(self, registry: QuorumRegistry, client: Client, boundary_us: int) -> None:
        self._may_crash(GC_FAULT_POINTS)
        try:
            register = raise_boundary(registry, boundary_us)
            gc_pass(
                registry,
                register,
                page_items=PAGE_ITEMS,
                items_between_notes=PAGE_ITEMS,
                channel=lambda: client,
                run=client.at_once,
            )
        except RegistryUnavailable:
            return
        except SimulatedCrash:
            self._network.after(self._chance.expovariate(1.0), lambda: self.start_gc(boundary_us))
            raise

    def _reshard(self, registry: QuorumRegistry, client: Client) -> None:
        shards = self._chance.randrange(1, MOST_SHARDS + 1)
        try:
            registry.register.change(lambda now: with_shards(now, shards))
        except RegistryUnavailable:
            return

    # -- repair

    def _lose_a_store(self) -> None:
        """One is wiped, goes back to an earlier copy, or is to be put elsewhere."""
        store = self._chance.choice(self._stores.in_use())
        items, times = dict(store.items), dict(store.times)
        match self._chance.choice(("wiped", "restored", "moved")):
            case "wiped" if self._may_be_lost(store):
                store.lose()
                self._send_for_repair(store.slot, None)
            case "restored":

                def restore() -> None:
                    if self._may_be_lost(store):
                        store.lose()
                        store.items.update(items)
                        store.times.update(times)
                        self._send_for_repair(store.slot, store)

                self._network.after(self._chance.uniform(0, 3), restore)
            case "moved" if self._may_be_lost(store):
                self._send_for_repair(store.slot, store)

    def _may_be_lost(self, store: Store) -> bool:
        """Whether it is in use, and a majority is left without it and all that are lost or being repaired."""
        in_use, lost = self._stores.in_use(), {*self.broken_slots(), *+self._in_repair}
        spare = len(in_use) - majority(len(in_use)) - len(lost)
        return spare > 0 and store in in_use and store.slot not in lost

    def _send_for_repair(self, slot: int, old: Store | None) -> None:
        for _ in range(2 if self._chance.random() < 0.2 else 1):
            self._in_repair[slot] += 1
            self._network.after(self._chance.expovariate(1.0), lambda: self._repair(slot, old))

    def _repair(self, slot: int, old: Store | None) -> None:
        process = self._new_process()
        self._may_be_killed(process)
        process.start_with(lambda registry, client: self._refill(registry, client, slot, old))

    def _refill(
        self, registry: QuorumRegistry, client: Client, slot: int, old: Store | None, anew: bool = False
    ) -> None:
        for _ in range(ATTEMPTS):
            store = self._stores.store(slot, f"slot-{slot}-{next(self._numbers)}")

            def make(store: Store = store) -> None:
                store.is_there = True
                if old is not None:
                    old.is_there = True  # a restored one is started once its slot is down (B10)

            self._may_crash(REPAIR_FAULT_POINTS)
            try:
                refill(
                    registry,
                    slot,
                    store.incarnation,
                    make,
                    page_items=PAGE_ITEMS,
                    items_between_notes=PAGE_ITEMS,
                    # One that is moved though nothing is wrong with it may have a position of long ago.
                    anew=anew or old in self._stores.in_use() or self._chance.random() < ANEW,
                    run=client.at_once,
                )
            except (RegistryUnavailable, RepairSuperseded):
                client.sleep(self._chance.expovariate(1.0))
            except SimulatedCrash:
                if self._chance.random() < LOST_IN_REPAIR and slot in self._stores.members.down:
                    self._stores.in_use()[slot].lose()
                self._network.after(self._chance.expovariate(1.0), lambda: self._repair(slot, old))
                raise
            else:
                self._in_repair[slot] -= 1
                if old is not None:
                    old.is_there = False
                return

    def _may_be_killed(self, process: Process) -> None:
        if self._chance.random() < CRASHES:
            process.client.interrupt(self._chance.randrange(1, 40), process.client.kill)

    def _may_crash(self, points: tuple[str, ...]) -> None:
        if self._chance.random() < CRASHES:
            arm(f"{self._chance.choice(points)}:{self._chance.randrange(1, 4)}", crash=raise_simulated_crash)
