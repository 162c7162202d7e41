"""Positions over stores in memory, with faults and one thread; small entries; and what tests do with them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter, Endpoint, ForeignLog, PrimaryLog, Registry
from photon.registry.entry import Entry, LedgerId
from photon.registry.form import checksum, encode
from photon.registry.positions import Chosen, Offer, Positions, Undecided
from photon.registry.register import Generation, Members, Register
from photon.registry.stores.asking import Stores
from photon.registry.stores.copies import ABSENT, Key, Store, ledger_key
from photon.registry.stores.positions import StoreAttempt, StorePositions
from tests.support.manual_clock import ManualClock
from tests.support.memory_store import MemoryStore

LEDGER = LedgerId(0, 0)
SETTINGS = Registry()

_writers = itertools.count()


def entry(before: bytes = b"", writer: str = "") -> bytes:
    """A no-op of a new writer, behind the value `before`."""
    return encode(Entry(writer or f"writer-{next(_writers)}", checksum(before) if before else b""))


def first_register(members: Members, pipeline: str = "events") -> Register:
    return Register(pipeline, "settings", members, generations=(Generation(2),))


def pipeline_over(
    urls: Sequence[str] | Path, settings: Registry, name: str = "events", id_: str = "id"
) -> Pipeline:
    """A pipeline of two datacenters whose registry these servers keep, or the local one below a folder."""
    is_local = isinstance(urls, Path)
    endpoints = "local" if is_local else tuple(Endpoint(url=url) for url in urls)
    return Pipeline(
        name=name,
        file=urls / "events.yaml" if is_local else Path("/nowhere/events.yaml"),
        datacenters={
            dc: Datacenter(logs=Path("l"), lake=Path("k"), state=Path(f"/nowhere/{dc}")) for dc in ("a", "b")
        },
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=ForeignLog(files="*", format="csv", id=(id_,), key=("key",), time="t"),
        registry=settings.model_copy(update={"endpoints": endpoints}),
    )


def key(position: int, ledger: LedgerId = LEDGER) -> Key:
    return Key(ledger_key(1, ledger), position)


def damaged(value: bytes) -> bytes:
    """The value with one byte of it altered."""
    return value[:-20] + bytes([value[-20] ^ 1]) + value[-19:]


class OneThread:
    """A channel that asks in this thread, in an order by chance. Before each answer `interleave` is called.

    A request that nobody waits for any more is sent at once, later by `land`, or never.
    """

    def __init__(self, chance: random.Random, interleave: Callable[[], None] = lambda: None) -> None:
        self._chance = chance
        self.interleave = interleave
        self._late: list[Callable[[], object]] = []

    def exchange(
        self, send: Any, requests: Sequence[Any], heard: Any, is_write: bool, until: Any = None
    ) -> Generator[Any]:
        left = list(range(len(requests)))
        self._chance.shuffle(left)
        try:
            while left:
                self.interleave()
                number = left.pop()
                reply = send(*requests[number])
                heard(number, reply, 0.01)
                yield [(number, reply)]
        finally:
            self._late += [lambda n=n: send(*requests[n]) for n in left if self._chance.random() < 0.7]  # type: ignore[misc]

    def load(self, store: object) -> int:
        return 0

    def in_background(self, work: Callable[[], None]) -> None:
        work()

    def land(self) -> None:
        """Have one request arrive that is on its way."""
        if self._late:
            self._late.pop(self._chance.randrange(len(self._late)))()

    def close(self) -> None: ...


class Memory:
    """Stores in memory with a register at them; clients of one thread."""

    def __init__(self, n: int, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.made: dict[str, MemoryStore] = {}
        self.members = Members(1, tuple(f"{slot}-1" for slot in range(n)))
        self.channels: list[OneThread] = []
        self.clients: list[StorePositions] = []
        self.client().create(first_register(self.members))

    @property
    def stores(self) -> list[MemoryStore]:
        """Return the stores of the first members."""
        return [self.made[name] for name in self.members.incarnations]

    def reopen(self, slot: int, incarnation: str) -> Store:
        return self.made.setdefault(incarnation, MemoryStore(incarnation))

    def client(self, members: Members | None = None) -> StorePositions:
        channel = OneThread(self.chance)
        self.channels.append(channel)
        stores = Stores(members or self.members, self.reopen, channel, self.clock, self.chance)
        self.clients.append(StorePositions(stores, SETTINGS))
        return self.clients[-1]

    @property
    def requests(self) -> list[str]:
        """All that the stores were asked for."""
        return [request for store in self.stores for request in store.requests]

    def forget_requests(self) -> None:
        for store in self.stores:
            store.requests.clear()

    def take_down(self, many: int) -> None:
        """Have the first stores answer nobody."""
        for store in self.stores[:many]:
            store.fault = down

    def mend(self) -> None:
        """Have all stores answer again."""
        for store in self.stores:
            store.fault = lambda request: None

    def values_at(self, position: int) -> list[bytes | None]:
        """The value of each copy."""
        return [store.items.get(key(position), ABSENT).value for store in self.stores]


def down(request: str) -> str | None:
    """A fault: the store does not answer."""
    return "down"


def once(fault: str, of: str) -> Callable[[str], str | None]:
    """A fault that one request of a kind meets."""
    left = [fault]
    return lambda request: left.pop() if request == of and left else None


def append(client: Positions, values: int, ledger: LedgerId = LEDGER) -> list[bytes]:
    """Append so many entries, each behind the one before, confirmed: all values from position 0 on."""
    there = read_all(client, ledger)
    while values:
        attempt = client.attempt()
        own = entry(there[-1] if there else b"")
        outcome = attempt.offer({ledger: Offer(len(there), own)})[ledger]
        attempt.confirm()
        assert isinstance(outcome, Chosen), outcome
        there.append(outcome.value)
        values -= outcome.value == own
    return there


def read_all(client: Positions, ledger: LedgerId = LEDGER) -> list[bytes]:
    """All decided values of a ledger, confirmed."""
    values: list[bytes] = []
    while True:
        attempt = client.attempt()
        some = attempt.read({ledger: len(values)})[ledger].values
        attempt.confirm()
        if not some:
            return values
        values += some


def offered(attempt: StoreAttempt, position: int, value: bytes) -> Chosen | Undecided:
    """Make one offer, and return its answer, unconfirmed."""
    return attempt.offer({LEDGER: Offer(position, value)})[LEDGER]
