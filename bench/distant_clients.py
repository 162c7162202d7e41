"""Many clients of one registry, each far away from its endpoints: how long a commit takes, and how it ends.

The product's own client over a network in virtual time. Clients, ways and ids are the same in each weather:
while the register stays as it is, while its horizon moves on, a boundary is raised, an endpoint is replaced.
"""

from __future__ import annotations

import logging
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from bench.virtual_network import Send, VirtualClient, VirtualTime
from photon.clock import MICROSECONDS, microseconds
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import SHARD_HASH
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.interface import Claim, Unknown
from photon.registry.operations.gc import raise_boundary
from photon.registry.operations.repair import refill
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.memory_registry import MemoryAcceptor
from photon.tokens import Occurrence, PlanKey

NEAREST_SECONDS, FARTHEST_SECONDS = 0.02, 0.3  # of one way
JITTER = 0.2  # a message takes up to this part longer

ENDPOINTS = 3
CLIENTS = 40
IDS_PER_CALL = 10  # another client registers the first of them at about the same time
PAUSE_SECONDS = 0.5  # of a client between two calls, on average
STEP_SECONDS = 10.0  # from one change of the register to the next one
A_LONG_TIME = timedelta(days=1)
SECONDS = 60.0  # of virtual time, for each change

# What changes while clients commit; nothing in calm weather.
CHANGES = ("calm", "horizon", "boundary", "members")


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


class DistantStore(MemoryAcceptor):
    """The store in a slot."""

    def __init__(self, slot: int) -> None:
        super().__init__()
        self.slot = slot


class DistantClient(VirtualClient):
    """A process that is so far away from each endpoint."""

    def __init__(self, time: VirtualTime, distances: Distances) -> None:
        super().__init__(time)
        self.distances = distances

    def _send(
        self,
        send: Send,
        endpoint: DistantStore,
        batch: Sequence[Any],
        answered: Callable[[Sequence[Any]], None],
    ) -> None:
        way = partial(self.distances.way, endpoint.slot)

        def arrive() -> None:
            answer = send(endpoint, batch)
            self._time.after(way(), lambda: answered(answer))

        self._time.after(way(), arrive)


@dataclass(frozen=True, slots=True)
class Calls:
    """What came of the calls of all clients. A round trip is that to the caller's farthest endpoint."""

    calls: int
    calls_per_second: float
    p50_seconds: float
    p99_seconds: float
    p50_round_trips: float
    p99_round_trips: float
    unknown_share: float  # of the ids


@dataclass(frozen=True, slots=True)
class _Call:
    seconds: float
    round_trips: float
    unknown: int


class DistantClients:
    """So many clients that commit for `seconds` of virtual time while something changes, one of `CHANGES`."""

    def __init__(self, change: str, seconds: float, clients: int = CLIENTS, seed: int = 0) -> None:
        self._change = change
        self._seconds = seconds
        self._clients = clients
        self._chance = random.Random(seed)
        self._time = VirtualTime()
        self._stores: dict[tuple[int, str], DistantStore] = {}
        self._members = Members(1, tuple(f"store-{slot}" for slot in range(ENDPOINTS)))
        step = timedelta(seconds=STEP_SECONDS) if change == "horizon" else A_LONG_TIME
        self._settings = Registry(horizon_step=step)
        self._done: list[_Call] = []

    def measure(self) -> Calls:
        """Run all of them to their ends."""
        self._start(lambda registry, client: self._make_registry(registry))
        self._time.run()
        self._begins = self._time.now_seconds
        for number in range(self._clients):
            self._start(partial(self._commit_until_the_end, number))
        self._start(self._operate)
        self._time.run()
        seconds, round_trips = ([getattr(c, name) for c in self._done] for name in ("seconds", "round_trips"))
        ids = len(self._done) * IDS_PER_CALL
        return Calls(
            len(self._done),
            len(self._done) / self._seconds,
            *_p50_and_p99(seconds),
            *_p50_and_p99(round_trips),
            sum(call.unknown for call in self._done) / ids,
        )

    def _start(self, work: Callable[[QuorumRegistry, DistantClient], None]) -> None:
        client = DistantClient(self._time, Distances(ENDPOINTS, self._chance))
        registry = QuorumRegistry(
            [self._store(slot, name) for slot, name in enumerate(self._members.incarnations)],
            self._settings,
            client,
            channel=client,
            chance=self._chance,
            members=self._members,
            reopen=self._store,
        )
        client.start(lambda: work(registry, client))

    def _store(self, slot: int, incarnation: str) -> DistantStore:
        return self._stores.setdefault((slot, incarnation), DistantStore(slot))

    def _make_registry(self, registry: QuorumRegistry) -> None:
        horizon_us = 2 * microseconds(self._settings.horizon_step)
        registry.register.create(
            Register("bench", "bench", SHARD_HASH, self._members, (ShardConfig(4),), horizon_us)
        )

    def _is_over(self, client: DistantClient) -> bool:
        return self._time.now_seconds > self._begins + self._seconds

    # -- clients

    def _commit_until_the_end(self, number: int, registry: QuorumRegistry, client: DistantClient) -> None:
        plan = PlanKey(f"dc{number % 2}", f"{number:016x}", 1, "0" * 16)
        for call in count():
            client.sleep(self._chance.expovariate(1 / PAUSE_SECONDS))
            if self._is_over(client):
                return
            # What two clients register has the same id, with the same time.
            shared = EventKey(f"{number // 2}-{call}", round(self._begins * MICROSECONDS) + call)
            own = [EventKey(f"{number}-{call}-{i}", client.now_us()) for i in range(1, IDS_PER_CALL)]
            claims = [Claim(key, plan.token(Occurrence(call, i))) for i, key in enumerate((shared, *own))]
            began = self._time.now_seconds
            outcomes = registry.commit(claims)
            seconds = self._time.now_seconds - began
            unknown = sum(isinstance(outcome, Unknown) for outcome in outcomes)
            self._done.append(_Call(seconds, seconds / client.distances.round_trip_seconds, unknown))

    # -- the operator

    def _operate(self, registry: QuorumRegistry, client: DistantClient) -> None:
        """Change the register again and again."""
        for number in count(1):
            client.sleep(STEP_SECONDS)
            if self._is_over(client):
                break
            if self._change == "boundary":
                raise_boundary(registry, number)
            if self._change == "members":
                self._replace_endpoint(registry, number)

    def _replace_endpoint(self, registry: QuorumRegistry, number: int) -> None:
        slot = number % ENDPOINTS
        refill(registry, slot, f"store-{slot}-{number}", lambda: None, timeless_shards=False, run=_one_by_one)


def _one_by_one(works: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
    """In virtual time no thread but the client's own may run."""
    for work in works:
        work()


def _p50_and_p99(values: Sequence[float]) -> tuple[float, float]:
    parts = statistics.quantiles(values, n=100)
    return parts[49], parts[98]


def measure_distant_clients(seconds: float = SECONDS) -> dict[str, Any]:
    """`CHANGES` one after the other, each for so many seconds of virtual time."""
    log = logging.getLogger("photon.registry")
    level = log.level
    log.setLevel(logging.WARNING)  # that some are slow is what they are here for
    try:
        measured = {change: asdict(DistantClients(change, seconds).measure()) for change in CHANGES}
    finally:
        log.setLevel(level)
    return {"clients": CLIENTS, "endpoints": ENDPOINTS, "while_changing": measured}


def table_of(found: Mapping[str, Any]) -> Iterator[str]:
    """A table of what `measure_distant_clients` found."""
    heading = f"{found['clients']} clients, far away"
    yield f"{heading:26}{'calls/s':>10}{'p50 s':>10}{'p99 s':>10}{'round trips':>14}{'unknown':>10}"
    for change, calls in found["while_changing"].items():
        trips = f"{calls['p50_round_trips']:.1f}, {calls['p99_round_trips']:.1f}"
        yield (
            f"{change:26}{calls['calls_per_second']:10.1f}{calls['p50_seconds']:10.2f}"
            f"{calls['p99_seconds']:10.2f}{trips:>14}{calls['unknown_share']:10.2%}"
        )
