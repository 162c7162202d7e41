"""How many ids a second a registry commits and looks up, for several processes as Spark's tasks are.

`bench.registry_measurement` chooses the registry.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from itertools import count
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.lifeline import end_with
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.interface import ClaimColumns, Joined, KeyColumns, Won
from photon.registry.open import close_registries, open_registry
from photon.registry.quorum.proposer import QuorumRegistry
from photon.tokens import Occurrence, PlanKey

_start: Any = None  # where the processes wait for each other


class WrongAnswers(Exception):
    """Ids of one's own were not won, or not found again: what was measured is not a registry that works."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a measurement asks for. `delay_seconds` goes by before each request to an endpoint."""

    processes: int = 2
    threads: int = 4  # of each process, each with a call of its own
    ids_per_call: int = 2_000
    seconds: float = 10.0  # of commits, and again of lookups
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What came of it, over all processes."""

    commits_per_second: float
    lookups_per_second: float
    commit_cpu_us: float  # CPU of the client for each id
    lookup_cpu_us: float


def mean_rates(rates: Sequence[Rates]) -> Rates:
    """Of measurements that took the same time."""
    return Rates(*map(statistics.fmean, zip(*map(astuple, rates), strict=True)))


class Distant:
    """An endpoint that is so far away."""

    def __init__(self, acceptor: Acceptor, delay_seconds: float, clock: Clock) -> None:
        self._acceptor = acceptor
        self._delay_seconds = delay_seconds
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._acceptor, name)
        if not callable(asked):
            return asked

        def ask(*arguments: Any) -> Any:
            self._clock.sleep(self._delay_seconds)
            return asked(*arguments)

        return ask


def measure_rates(address: RegistryAddress, load: Load) -> Rates:
    """Put the load on the registry at `address`. WrongAnswers if it does not answer as it must."""
    context = get_context("spawn")  # a fork would share connections and threads
    together = context.Barrier(load.processes)
    with ProcessPoolExecutor(
        load.processes, mp_context=context, initializer=_begin, initargs=(together, os.getpid())
    ) as pool:
        each = list(pool.map(_measure_here, [address] * load.processes, [load] * load.processes))
    mean = mean_rates(each)
    return replace(
        mean,
        commits_per_second=mean.commits_per_second * load.processes,
        lookups_per_second=mean.lookups_per_second * load.processes,
    )


def _begin(barrier: Any, parent: int) -> None:
    end_with(parent)
    global _start
    _start = barrier


def _measure_here(address: RegistryAddress, load: Load) -> Rates:
    registry = open_registry(address)
    distant = None
    if load.delay_seconds:
        clock = SystemClock()
        acceptors: Any = [Distant(a, load.delay_seconds, clock) for a in registry.endpoints.acceptors]
        distant = QuorumRegistry(acceptors, address.settings, clock, members=address.members)
    try:
        return _measure(distant or registry, load)
    except BaseException:
        _start.abort()  # or the others would wait for this one
        raise
    finally:
        if distant is not None:
            distant.close()
        close_registries()


def _measure(registry: QuorumRegistry, load: Load) -> Rates:
    plan = PlanKey("east", f"{registry.endpoints.chance.getrandbits(64):016x}", 1, "0" * 16)
    numbers = count()

    def new_claims() -> ClaimColumns:
        begin = next(numbers) * load.ids_per_call
        each = pa.array(range(begin, begin + load.ids_per_call)).cast(pa.string())
        ids = pc.binary_join_element_wise(plan.epoch, each, "-")
        at_us = pa.repeat(SystemClock().now_us(), load.ids_per_call)
        prefix = plan.token(Occurrence(1, 0)).removesuffix("0")
        return ClaimColumns(KeyColumns(ids, None, at_us), pc.binary_join_element_wise(prefix, each, ""))

    committed: list[KeyColumns] = []

    def commit() -> int:
        claims = new_claims()
        outcomes = registry.commit(claims)
        if not outcomes.are(Won).all():
            wrong = [outcome for outcome in outcomes if outcome != Won()]
            raise WrongAnswers(f"{len(wrong)} new ids were not won: {wrong[0]}")
        committed.append(claims.keys)
        return len(claims)

    turns = count()

    def look_up() -> int:
        keys = committed[next(turns) % len(committed)]
        if not registry.lookup(keys).are(Joined).all():
            raise WrongAnswers("an id that was won is not there")
        return len(keys)

    commit()  # connections are made
    rates: list[float] = []
    costs_us: list[float] = []
    for call in (commit, look_up):
        _start.wait()
        began_seconds = time.process_time()
        done, per_second = _per_second(call, load)
        rates.append(per_second)
        costs_us.append((time.process_time() - began_seconds) / done * MICROSECONDS)
    return Rates(*rates, *costs_us)


def _per_second(call: Callable[[], int], load: Load) -> tuple[int, float]:
    began = time.monotonic()

    def again_and_again(_: int) -> int:
        done = 0
        while time.monotonic() - began < load.seconds:
            done += call()
        return done

    with ThreadPoolExecutor(load.threads) as pool:
        done = sum(pool.map(again_and_again, range(load.threads)))
    return done, done / (time.monotonic() - began)
