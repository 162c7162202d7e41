"""The stores of a simulated registry by slot and incarnation, as endpoints have tables, and who uses them.

An observer sees all that they take.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from photon.pipeline.file import Registry
from photon.registry.consensus.acceptor import ABSENT, NoReply, Page, Stored
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey
from photon.registry.consensus.register import Members, Register, encode_register
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.faulty_acceptor import FaultyAcceptor
from tests.simulation.network import Client, Network
from tests.simulation.observer import Observer

_REFUSED = NoReply("connection refused", "unreachable")


class Store(FaultyAcceptor):
    """One incarnation of the store in a slot. `is_there`: it has a table; `is_down`: now it is silent."""

    writes_per_request = reads_per_request = 2  # so that calls take several

    def __init__(self, observer: Observer, slot: int, incarnation: str, is_there: bool) -> None:
        super().__init__()
        self.slot = slot
        self.incarnation = incarnation
        self.is_there = is_there
        self.is_down = False
        self._observer = observer

    @property
    def answers(self) -> bool:
        """Whether a request finds it."""
        return self.is_there and not self.is_down

    def lose(self) -> None:
        """Lose all data: there is no table any more."""
        self.is_there = False
        self.items.clear()
        self.times.clear()

    def scan(self, after: ItemKey | None, limit: int) -> Page | NoReply:
        """See `Acceptor`."""
        return super().scan(after, limit) if self.answers else _REFUSED

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        """See `Acceptor`."""
        return super().scan_shard(shard, below, after, limit) if self.answers else _REFUSED

    def _serve(self, kind: str, batch: Sequence[Any], apply: Callable[[Any], Any]) -> list[Any]:
        if not self.answers:
            return [_REFUSED] * len(batch)
        keys: list[ItemKey] = [getattr(query, "key", query) for query in batch]
        before = [self.items.get(key, ABSENT) for key in keys]
        replies = super()._serve(kind, batch, apply)
        for key, stored in zip(keys, before, strict=True):
            now = self.items.get(key)
            if now is not None:  # what gc deletes is gone, not taken back
                self._observer.saw(self.slot, self.incarnation, key, stored, now)
        return replies


class Stores:
    """All stores that a simulated registry ever had."""

    def __init__(self, observer: Observer, register: Register) -> None:
        self._observer = observer
        self._stores: dict[tuple[int, str], Store] = {}
        stored = Stored(encode_register(register), "0" * 16, "0" * 16)
        for slot, incarnation in enumerate(register.members.incarnations):
            self._stores[slot, incarnation] = Store(observer, slot, incarnation, is_there=True)
            self._stores[slot, incarnation].items[REGISTER_KEY] = stored
        observer.begin(register, stored)

    @property
    def members(self) -> Members:
        """The members in the register that was chosen last: what `find_registry` would find."""
        return self._observer.register.members

    def store(self, slot: int, incarnation: str) -> Store:
        """The store of an incarnation; until it is made it answers nothing."""
        return self._stores.setdefault(
            (slot, incarnation), Store(self._observer, slot, incarnation, is_there=False)
        )

    def in_use(self) -> list[Store]:
        """Those that the members name."""
        return [self.store(slot, name) for slot, name in enumerate(self.members.incarnations)]

    def mend(self) -> None:
        """End all that is only for a while."""
        for store in self._stores.values():
            store.is_down = False


class Process:
    """A client of the network, with a registry over the stores that are in use when it starts."""

    def __init__(self, network: Network, stores: Stores, settings: Registry, chance: random.Random) -> None:
        self.client = Client(network, chance.choice((0.0, -3_600.0, 40.0, 86_400.0)))
        self._registry = QuorumRegistry(
            stores.in_use(),
            settings,
            self.client,
            channel=self.client,
            chance=chance,
            members=stores.members,
            reopen=stores.store,
        )

    def start_with(self, work: Callable[[QuorumRegistry, Client], None]) -> None:
        """Let it work, from now on."""
        self.client.start(lambda: work(self._registry, self.client))
