"""The stores of a simulated registry by slot and incarnation, as endpoints have tables.

An observer sees all that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from photon.ledger.stores.copies import FAST_BALLOT, NoReply
from photon.registry.consensus.acceptor import ABSENT, Page, Stored
from photon.registry.consensus.layout import MARKS_SHARD, REGISTER_KEY, ItemKey
from photon.registry.consensus.register import Members, Register, encode_register
from photon.registry.operations.ranges import POSITIONS
from photon.testing.faulty_store import FaultyStore
from tests.simulation.interpreter import Interpreter, Row
from tests.simulation.network import Network
from tests.simulation.observer import Observer

TABLE = "simulated"
_REFUSED = NoReply("connection refused", "unreachable")


class Store(FaultyStore):
    """One incarnation of the store in a slot. `is_there`: it has a table; `is_down`: now it is silent."""

    writes_per_request = reads_per_request = 2  # so that calls take several

    def __init__(
        self, network: Network, observer: Observer, slot: int, incarnation: str, is_there: bool
    ) -> None:
        super().__init__()
        chance = network.chance
        self.interpreter = Interpreter(  # for clients that send requests as the product does
            TABLE,
            _Rows(self),
            leaves_out=lambda: chance.random() < network.weather.in_part,
            ends_page=lambda: chance.random() < network.weather.short_page,
        )
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
            self.show(key, stored)
        return replies

    def show(self, key: ItemKey, before: Stored) -> None:
        """Have the observer see an item as it is now."""
        now = self.items.get(key)
        # What gc deletes is gone, not taken back; how far upkeep or an epoch is, is its own affair.
        if now is not None and key.p not in (POSITIONS, MARKS_SHARD):
            self._observer.saw(self.slot, self.incarnation, key, before, now)


class _Rows(MutableMapping[ItemKey, Row]):
    """A store's items by their attributes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: ItemKey) -> Row:
        stored = self._store.items[key]
        row = {"p": key.p, "s": key.s, "e": self._store.times.get(key, "")}
        if stored.value is not None:
            row["t"] = stored.value
        return row | {name: b for name, b in (("a", stored.accepted), ("b", stored.promised)) if b}

    def __setitem__(self, key: ItemKey, row: Row) -> None:
        before = self._store.items.get(key, ABSENT)
        self._store.items[key] = Stored(row.get("t"), row.get("a", FAST_BALLOT), row.get("b", FAST_BALLOT))
        self._store.times[key] = row["e"]
        self._store.show(key, before)

    def __delitem__(self, key: ItemKey) -> None:
        del self._store.items[key]
        self._store.times.pop(key, None)

    def __iter__(self) -> Iterator[ItemKey]:
        return iter(self._store.items)

    def __len__(self) -> int:
        return len(self._store.items)


class Stores:
    """All stores that a simulated registry ever had."""

    def __init__(self, network: Network, observer: Observer, register: Register) -> None:
        self._network = network
        self._observer = observer
        self._stores: dict[tuple[int, str], Store] = {}
        stored = Stored(encode_register(register), "0" * 16, "0" * 16)
        for slot, incarnation in enumerate(register.members.incarnations):
            store = Store(network, observer, slot, incarnation, is_there=True)
            store.items[REGISTER_KEY] = stored
            self._stores[slot, incarnation] = store
        observer.begin(register, stored)

    @property
    def members(self) -> Members:
        """The members in the register that was chosen last: what `find_registry` would find."""
        return self._observer.register.members

    def store(self, slot: int, incarnation: str) -> Store:
        """The store of an incarnation; until it is made it answers nothing."""
        return self._stores.setdefault(
            (slot, incarnation), Store(self._network, self._observer, slot, incarnation, is_there=False)
        )

    def in_use(self) -> list[Store]:
        """Those that the members name."""
        return [self.store(slot, name) for slot, name in enumerate(self.members.incarnations)]

    def mend(self) -> None:
        """End all that is only for a while."""
        for store in self._stores.values():
            store.is_down = False
