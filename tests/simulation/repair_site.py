"""Stores of one registry by slot and incarnation, lost and repaired by a test's own hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from photon.ledger.stores.channel import Channel
from photon.ledger.stores.deadline import MACHINE_CHANCE
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH
from photon.registry.consensus.register import Members, Register, decode_register
from photon.registry.operations.repair import Refilled, refill
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock

SETTINGS = Registry(total_timeout=timedelta(seconds=5))


class Site:
    """Stores by slot and incarnation, as endpoints have tables; a store that is not there does not answer."""

    def __init__(self, n: int) -> None:
        self.clock = ManualClock()
        self.members = Members(1, tuple(f"old{slot}" for slot in range(n)))
        self.stores = {(slot, f"old{slot}"): FaultyStore(self.clock) for slot in range(n)}
        self.names = itertools.count()
        self.client().register.create(Register("p", "s", SHARD_HASH, self.members, ()))

    def client(
        self,
        ways_in: Sequence[FaultyStore] = (),
        channel: Channel | None = None,
        chance: random.Random = MACHINE_CHANCE,
        clock: ManualClock | None = None,
    ) -> QuorumRegistry:
        """A client that finds the registry now, by ways of its own, and with a clock of its own, if given."""
        for store in self.stores.values():
            stored = store.items.get(REGISTER_KEY)
            if stored is not None and stored.value is not None:
                found = decode_register(stored.value).members
                self.members = max(self.members, found, key=lambda members: members.version)
        return QuorumRegistry(
            ways_in or self.in_use(),
            SETTINGS,
            clock or self.clock,
            channel,
            chance,
            members=self.members,
            reopen=self.acceptor,
        )

    def in_use(self) -> list[FaultyStore]:
        """The stores that the members name, as far as anybody here has seen."""
        return [self.acceptor(slot, name) for slot, name in enumerate(self.members.incarnations)]

    def acceptor(self, slot: int, name: str) -> FaultyStore:
        if (slot, name) in self.stores:
            return self.stores[slot, name]
        gone = FaultyStore(self.clock)
        gone.fail("down")
        return gone

    def wipe(self, slot: int) -> None:
        """Lose what is in a slot: clients that are there meet a table that is gone."""
        for key in [key for key in self.stores if key[0] == slot]:
            self.stores.pop(key).fail("down")

    def repair(
        self,
        slot: int,
        while_made: Callable[[], None] = lambda: None,
        on_request: Callable[[str, Any], None] = lambda kind, batch: None,
        clock: ManualClock | None = None,
        **more: Any,
    ) -> Refilled:
        """Repair a slot. `on_request` is told what the new store is asked; `more` is of `refill`."""
        name = f"new{next(self.names)}"
        registry = self.client(clock=clock)

        def make() -> None:
            while_made()
            self.stores[slot, name] = FaultyStore(self.clock)
            self.stores[slot, name].on_request = on_request
            # The acceptor that was opened before the table was there is the same endpoint.
            registry.endpoints.acceptors[slot].__dict__.update(self.stores[slot, name].__dict__)
            self.stores[slot, name] = registry.endpoints.acceptors[slot]  # type: ignore[assignment]

        return refill(registry, slot, name, make, **more)

    def copies(self, key: EventKey) -> list[object]:
        members = self.client().register.read().members
        stores = [self.stores[slot, name] for slot, name in enumerate(members.incarnations)]
        return [[s for k, s in store.items.items() if k.s == f"i{key.id}"] for store in stores]
