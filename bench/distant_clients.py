"""Drivers of two datacenters, far away from the registry's endpoints: how long a batch's claims take.

The product's own code over a network in virtual time, 20 to 300 ms one way. What has come since the last
batch is the next one, so that batches grow with the distance, and events a second hold.
"""

from __future__ import annotations

import logging
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.ledger_rates import all_have_rows, claims_of
from photon.pipeline.sections import Registry
from photon.process.clock import MICROSECONDS
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Epoch, Hashes
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Generation, Members, Register
from photon.registry.stores.asking import Stores
from photon.registry.stores.copies import Copy, Key, NoReply, Page
from photon.registry.stores.deadline import request_timeout
from photon.registry.stores.decisions import majority
from photon.registry.stores.positions import StorePositions
from photon.registry.view import View, current_register
from tests.support.memory_store import MemoryStore
from tests.support.virtual_network import Send, VirtualClient, VirtualTime

NEAREST_SECONDS, FARTHEST_SECONDS = 0.02, 0.3  # one way
JITTER = 0.2  # a message takes up to this part longer

DATACENTERS = ("east", "west")
EVENTS_PER_SECOND = 2_000.0  # each datacenter
MOST_EVENTS = 25_000  # in a batch
CONTENDED = 0.1  # so many of the ids both claim, in both ledgers
SECONDS = 60.0  # virtual time
PAGE_ITEMS = 10  # a page of DynamoDB has about as many large entries

# The weather while drivers claim. `contended`: not only ids at home, and some that the other claims too.
# `some down`: as many endpoints as may be.
WEATHERS = ("calm", "contended", "some down")
_SILENCE = NoReply("no answer in time", "unreachable")
LEDGERS = (2, 8)  # in the generation, half of them each one's home


class Distances:
    """How far one client is from each of n endpoints."""

    def __init__(self, n: int, chance: random.Random) -> None:
        self._chance = chance
        self._seconds = [chance.uniform(NEAREST_SECONDS, FARTHEST_SECONDS) for _ in range(n)]

    def way(self, slot: int) -> float:
        """The seconds that one message takes, there or back."""
        return self._seconds[slot] * self._chance.uniform(1.0, 1.0 + JITTER)

    @property
    def round_trip_seconds(self) -> float:
        """The longest time that a request and its answer take: to the farthest endpoint."""
        return 2 * max(self._seconds) * (1.0 + JITTER)


class DistantStore(MemoryStore):
    """The store in a slot, in memory."""

    def __init__(self, slot: int) -> None:
        super().__init__(f"store-{slot}")
        self.slot = slot
        self.is_down = False
        # Only probes find out: `DistantClient` lets no other answer come back.
        self.fault = lambda request: "no answer in time" if self.is_down and request == "get" else None

    def page(self, first: Key) -> Page:
        """Some values in a row: nobody leaves a gap here."""
        copies: dict[int, Copy] = {}
        while (key := Key(first.ledger, first.position + len(copies))) in self.items:
            copies[key.position] = self.items[key]
            if len(copies) == PAGE_ITEMS:
                return Page(first.position, key.position, copies)
        return Page(first.position, None, copies)


class DistantClient(VirtualClient):
    """A process that is so far away from each endpoint."""

    def __init__(self, time: VirtualTime, distances: Distances, timeout_seconds: float) -> None:
        super().__init__(time)
        self.distances = distances
        self._timeout_seconds = timeout_seconds

    def _send(
        self, send: Send, endpoint: DistantStore, request: Any, answered: Callable[[Any], None]
    ) -> None:
        way = partial(self.distances.way, endpoint.slot)

        def arrive() -> None:
            answer = send(endpoint, request)
            self._time.after(way(), lambda: answered(answer))

        if not endpoint.is_down:
            self._time.after(way(), arrive)
            return
        answer = send(endpoint, request)  # which nobody gets: who knows of the silence does not send
        if isinstance(answer, NoReply) and answer.kind == "not_asked":
            self._time.after(0.0, lambda: answered(answer))
        else:
            self._time.after(self._timeout_seconds, lambda: answered(_SILENCE))


@dataclass(frozen=True, slots=True)
class Claimed:
    """The batches of all drivers. A round trip is that to the driver's farthest endpoint."""

    batches: int
    events_per_second: float  # both together
    slower_events_per_second: float  # the one that claimed fewer
    p50_seconds: float
    p90_seconds: float
    p50_round_trips: float
    p90_round_trips: float
    unknown_batches: int
    won_twice: int


@dataclass(frozen=True, slots=True)
class _Batch:
    datacenter: str
    events: int
    seconds: float
    round_trips: float


class DistantClients:
    """A driver of each datacenter that claims for `seconds` of virtual time, over so many endpoints."""

    def __init__(
        self, weather: str, endpoints: int, ledgers: int = 2, seconds: float = SECONDS, seed: int = 0
    ) -> None:
        self._weather = weather
        self._ledgers = ledgers
        self._seconds = seconds
        self._seed = seed
        self._endpoints = endpoints
        self._chance = random.Random(seed)
        self._time = VirtualTime()
        self._stores = [DistantStore(slot) for slot in range(endpoints)]
        self._settings = Registry()
        self._begins = 0.0
        self._done: list[_Batch] = []
        self._won: list[Hashes] = []
        self._unknown = 0

    def measure(self) -> Claimed:
        """Have all of it happen."""
        self._start(self._make_registry)
        self._time.run()
        self._begins = self._time.now_seconds
        for store in self._stores[majority(self._endpoints) :]:
            store.is_down = self._weather == "some down"
        for number, datacenter in enumerate(DATACENTERS):
            self._start(partial(self._join, datacenter, number))
        self._time.run()
        seconds, trips = ([getattr(b, name) for b in self._done] for name in ("seconds", "round_trips"))
        rates = [
            sum(batch.events for batch in self._done if batch.datacenter == name) / self._seconds
            for name in DATACENTERS
        ]
        won = np.concatenate(self._won)
        return Claimed(
            len(self._done),
            sum(rates),
            min(rates),
            *_p50_and_p90(seconds),
            *_p50_and_p90(trips),
            self._unknown,
            len(won) - len(np.unique(won, axis=0)),
        )

    def _start(self, work: Callable[[StorePositions, DistantClient], None]) -> None:
        timeout_seconds = request_timeout(self._settings).total_seconds()
        client = DistantClient(self._time, Distances(self._endpoints, self._chance), timeout_seconds)
        members = Members(1, tuple(f"store-{slot}" for slot in range(self._endpoints)))
        stores = Stores(members, lambda slot, _: self._stores[slot], client, client, self._chance)
        positions = StorePositions(stores, self._settings)
        client.start(lambda: work(positions, client))

    def _make_registry(self, positions: StorePositions, client: DistantClient) -> None:
        members = positions.stores.active.members
        homes = tuple(name for name in DATACENTERS for _ in range(self._ledgers // len(DATACENTERS)))
        generation = Generation(self._ledgers, homes)
        positions.create(Register("bench", "bench", members, generations=(generation,)))

    def _join(self, datacenter: str, number: int, positions: StorePositions, client: DistantClient) -> None:
        registry = IdRegistry(positions, View(current_register(positions), datacenter))
        registry.catch_up()
        epoch, claimed, closes = Epoch(datacenter, 1), 0, None
        chance = np.random.default_rng([self._seed, number])
        batch = 0
        while (passed := self._time.now_seconds - self._begins) < self._seconds:
            due = min(int(passed * EVENTS_PER_SECOND) - claimed, MOST_EVENTS)
            if due < 1:
                client.sleep(1 / EVENTS_PER_SECOND)
                continue
            batch += 1
            claims = self._claims(Claimant(epoch, batch, f"plan-{batch}"), due, number, chance)
            began = self._time.now_seconds
            while True:
                try:
                    holders = registry.claim(claims, closes)
                    break
                except RegistryUnavailable:
                    self._unknown += 1
            seconds = self._time.now_seconds - began
            self._done.append(_Batch(datacenter, due, seconds, seconds / client.distances.round_trip_seconds))
            self._won.append(claims.hashes[holders.are_of(claims.claimant)])
            closes = Closing(epoch, batch, all_have_rows)
            claimed += due

    def _claims(self, claimant: Claimant, count: int, number: int, chance: np.random.Generator) -> Claims:
        hashes = chance.integers(0, 2**64, (count, 2), dtype=np.uint64)
        if self._weather == "contended":
            # Both have some ids of a second in common: those are made of its number.
            shared = int(count * CONTENDED)
            same = np.random.default_rng([self._seed, int(self._time.now_seconds)])
            hashes[:shared] = same.integers(0, 2**64, (shared, 2), dtype=np.uint64)
        else:
            top = np.uint64(number) << np.uint64(63)  # the half of the range that is at home
            hashes[:, 0] = (hashes[:, 0] >> np.uint64(1)) | top
        return claims_of(claimant, hashes, round(self._time.now_seconds * MICROSECONDS))


def _p50_and_p90(values: Sequence[float]) -> tuple[float, float]:
    parts = statistics.quantiles(values, n=10)
    return parts[4], parts[8]


def measure_distant_clients(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Three and five endpoints in each of `WEATHERS`, for so many seconds of virtual time."""
    log = logging.getLogger("photon")
    level = log.level
    log.setLevel(logging.CRITICAL)  # that one is down is what it is here for
    try:
        return [
            {
                "endpoints": endpoints,
                "ledgers": ledgers,
                "weather": weather,
                **asdict(DistantClients(weather, endpoints, ledgers, seconds).measure()),
            }
            for endpoints in (3, 5)
            for ledgers in LEDGERS
            for weather in WEATHERS
        ]
    finally:
        log.setLevel(level)


def table_of(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table of what `measure_distant_clients` found."""
    heads = f"{'events/s':>10}{'slower':>8}{'p50 s':>8}{'p90 s':>8}{'round trips':>14}{'unknown':>9}"
    yield f"{'two drivers, far away':36}{heads}"
    for one in found:
        trips = f"{one['p50_round_trips']:.1f}, {one['p90_round_trips']:.1f}"
        name = f"{one['endpoints']} endpoints, {one['ledgers']} ledgers, {one['weather']}"
        yield (
            f"{name:36}{one['events_per_second']:10,.0f}{one['slower_events_per_second']:8,.0f}"
            f"{one['p50_seconds']:8.2f}{one['p90_seconds']:8.2f}{trips:>14}{one['unknown_batches']:9}"
        )
