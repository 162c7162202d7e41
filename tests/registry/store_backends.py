"""Positions over stores in memory, with faults and one thread; small entries; and what tests do with them."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
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


def pipeline_over(urls: Sequence[str], settings: Registry, name: str = "events", id_: str = "id") -> Pipeline:
    """A pipeline of two datacenters whose registry these servers keep."""
    return Pipeline(
        name=name,
        file=Path("/nowhere/events.yaml"),
        datacenters={
            dc: Datacenter(logs=Path("l"), lake=Path("k"), state=Path(f"/nowhere/{dc}")) for dc in ("a", "b")
        },
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=ForeignLog(files="*", format="csv", id=(id_,), key=("key",), time="t"),
        registry=settings.model_copy(update={"endpoints": tuple(Endpoint(url=url) for url in urls)}),
    )


def key(position: int, ledger: LedgerId = LEDGER) -> Key:
    return Key(ledger_key(1, ledger), position)


def damaged(value: bytes) -> bytes:
    """The value with one byte of it altered."""
    return value[:-20] + bytes([value[-20] ^ 1]) + value[-19:]


class OneThread:
    """A channel that asks in this thread, in an order by chance. Before each answer `interleave` is called.

    What nobody waits for any more is sent at once, later by `land`, or never.
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
        """Those of the first members."""
        return [self.made[name] for name in self.members.incarnations]

    def reopen(self, slot: int, incarnation: str) -> Store:
        return self.made.setdefault(incarnation, MemoryStore(incarnation))

    def client(self, members: Members | None = None) -> StorePositions:
        channel = OneThread(self.chance)
        self.channels.append(channel)
        stores = Stores(members or self.members, self.reopen, channel, self.clock, self.chance)
        self.clients.append(StorePositions(stores, SETTINGS))
        return self.clients[-1]

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
    """What comes of one offer, unconfirmed."""
    return attempt.offer({LEDGER: Offer(position, value)})[LEDGER]


def append_by_eight(client: Callable[[], StorePositions], each: int, disturb: Callable[[], None]) -> None:
    """Eight threads append to twenty ledgers until all have so many entries, while `disturb` is called.

    Checked: whatever anybody is told of a position, now or later, is the same value.
    """
    ledgers = [LedgerId(0, number) for number in range(20)]
    seen: dict[tuple[LedgerId, int], bytes] = {}
    lock = threading.Lock()

    def see(ledger: LedgerId, position: int, value: bytes) -> None:
        with lock:
            assert seen.setdefault((ledger, position), value) == value, (ledger, position)

    def write(seed: int) -> None:
        own, chance = client(), random.Random(seed)
        views: dict[LedgerId, list[bytes]] = {ledger: [] for ledger in ledgers}
        while short := [ledger for ledger, view in views.items() if len(view) < each]:
            some = chance.sample(short, min(8, len(short)))
            reading = own.attempt()
            found = reading.read({ledger: len(views[ledger]) for ledger in some})
            reading.confirm()
            for ledger, tail in found.items():
                for value in tail.values:
                    see(ledger, len(views[ledger]), value)
                    views[ledger].append(value)
            ends = {ledger: views[ledger][-1] if views[ledger] else b"" for ledger in some}
            offering = own.attempt()
            outcomes = offering.offer(
                {ledger: Offer(len(views[ledger]), entry(end)) for ledger, end in ends.items()}
            )
            offering.confirm()
            for ledger, outcome in outcomes.items():
                if isinstance(outcome, Chosen):
                    see(ledger, len(views[ledger]), outcome.value)
                    views[ledger].append(outcome.value)

    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(write, seed) for seed in range(8)]
        disturb()
        for one in writing:
            one.result()
    reader = client()
    for ledger in ledgers:
        values = read_all(reader, ledger)
        assert len(values) >= each - 1  # of the last one two copies may be no proof
        for position, value in enumerate(values):
            see(ledger, position, value)
