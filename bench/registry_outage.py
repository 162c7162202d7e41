"""What clients of a registry see when endpoints are killed while they work, and what is left afterwards.

Two processes register the same ids, batch after batch. Servers are killed by who measures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, pairwise
from multiprocessing import get_context

from bench.store_servers import StoreServer
from bench.stored_items import stored_items
from photon.lifeline import end_with
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.layout import fixed_shards
from photon.registry.interface import Claim, Lost, Unknown, Won
from photon.registry.open import close_registries, open_registry
from photon.registry.operations.init import find_registry
from photon.registry.operations.repair import repair_endpoint

IDS_PER_CALL = 200
PAGE_ITEMS = 1_000
TOKENS = {"east": "east:outage:1#0:1:0", "west": "west:outage:1#0:1:0"}


@dataclass(frozen=True, slots=True)
class Outage:
    """What came of killing some endpoints. All but the first two and the pause have to be 0."""

    ids: int
    calls: int
    longest_pause_seconds: float  # of one client, between two calls of `IDS_PER_CALL` ids that returned
    won_twice: int
    lost: int  # won by somebody, and not his when asked after the repair
    different: int  # after the repair not the same at every endpoint


@dataclass(frozen=True, slots=True)
class _Seen:
    won: frozenset[str]
    ends: tuple[float, ...]


def measure_outage(pipeline: Pipeline, servers: Sequence[StoreServer], down: int, seconds: float) -> Outage:
    """Kill the last `down` of these servers under load, bring them back, repair them, and compare."""
    address = find_registry(pipeline)
    begin_at = time.monotonic() + 10  # the processes have started by then
    with ProcessPoolExecutor(
        2, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        seen = [pool.submit(_register, address, name, begin_at, seconds) for name in TOKENS]
        time.sleep(begin_at - time.monotonic() + seconds / 3)
        for server in servers[-down:]:
            server.kill()
        east, west = (one.result() for one in seen)
    for server in servers[-down:]:
        server.start()
        repair_endpoint(pipeline, server.url)
    registry = open_registry(find_registry(pipeline))
    winners = {event_id: name for name, one in zip(TOKENS, (east, west), strict=True) for event_id in one.won}
    return Outage(
        ids=len(winners),
        calls=len(east.ends) + len(west.ends),
        longest_pause_seconds=max(
            (later - one for client in (east, west) for one, later in pairwise(client.ends)), default=seconds
        ),
        won_twice=len(east.won & west.won),
        lost=_not_theirs(registry.commit, winners),
        different=_different(registry.endpoints.acceptors),
    )


def _register(address: RegistryAddress, datacenter: str, begin_at: float, seconds: float) -> _Seen:
    """One client: new ids, call after call, each until all of its outcomes are known."""
    registry = open_registry(address)
    token, won, ends = TOKENS[datacenter], set[str](), []
    try:
        time.sleep(max(0.0, begin_at - time.monotonic()))
        for number in count():
            left = [EventKey(f"{number}-{i}") for i in range(IDS_PER_CALL)]
            while left:
                outcomes = registry.commit([Claim(key, token) for key in left])
                known = list(zip(left, outcomes, strict=True))
                won |= {key.id for key, outcome in known if isinstance(outcome, Won)}
                left = [key for key, outcome in known if isinstance(outcome, Unknown)]
            ends.append(time.monotonic())
            if ends[-1] > begin_at + seconds:
                break
    finally:
        close_registries()
    return _Seen(frozenset(won), tuple(ends))


def _not_theirs(commit: Callable[[Sequence[Claim]], Sequence[object]], winners: Mapping[str, str]) -> int:
    """At how many ids a later claim is not answered with their winner."""
    outcomes = commit([Claim(EventKey(event_id), "later:outage:1#0:1:0") for event_id in winners])
    told = [outcome.holder.token if isinstance(outcome, Lost) else None for outcome in outcomes]
    return sum(token != TOKENS[name] for token, name in zip(told, winners.values(), strict=True))


def _different(acceptors: Sequence[Acceptor]) -> int:
    first, *others = ({key: value for key, value in _items(acceptor)} for acceptor in acceptors)
    keys = set(first).union(*others)
    return sum(any(other.get(key) != first.get(key) for other in others) for key in keys)


def _items(acceptor: Acceptor) -> list[tuple[object, str | None]]:
    return [(item.key, item.stored.value) for item in stored_items(acceptor, fixed_shards())]
