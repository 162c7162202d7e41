"""The paper's Figure 10 again: ids committed against requests to the store, under growing load of many tasks.

Each task registers, in one call, what came since its last one. So calls get larger where load grows, and
requests grow far less than ids.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from photon.clock import SystemClock
from photon.lifeline import end_with
from photon.pipeline.event_key import EventKey
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.interface import Claim, Won
from photon.registry.open import close_registries, open_registry
from photon.registry.quorum.proposer import QuorumRegistry
from photon.tokens import Occurrence, PlanKey

MOST_IDS_A_CALL = 1_000


@dataclass(frozen=True)
class Load:
    """How many ids a second all tasks together get, and for how long."""

    ids_per_second: float
    tasks: int
    seconds: float


@dataclass(frozen=True)
class Served:
    """What came of a load, over all shards. `calls` are those of the tasks, `requests` those to the store."""

    offered_ids_per_second: float
    ids_per_second: float
    requests_per_second: float
    calls_per_second: float
    shards: int

    @property
    def ids_per_request(self) -> float:
        """How many ids a request to the store commits."""
        return self.ids_per_second / self.requests_per_second

    def of_a_shard(self) -> dict[str, float]:
        """For plots and tables."""
        return {
            "offered_ids_per_second": round(self.offered_ids_per_second / self.shards, 2),
            "ids_per_second": round(self.ids_per_second / self.shards, 2),
            "requests_per_second": round(self.requests_per_second / self.shards, 2),
            "ids_per_request": round(self.ids_per_request, 2),
        }


class Counted:
    """An endpoint whose requests are counted."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor
        self._lock = threading.Lock()
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._acceptor, name)
        if not callable(asked):
            return asked

        def ask(*arguments: Any) -> Any:
            with self._lock:
                self.requests += 1
            return asked(*arguments)

        return ask


@dataclass(frozen=True)
class Tally:
    """Sums over some tasks."""

    ids: int
    calls: int
    requests: int
    seconds: float


def serve(
    acceptors: Sequence[Acceptor], registry: QuorumRegistry, load: Load, chance: random.Random
) -> Tally:
    """Put a load on a registry, from threads of this process; `registry` is one over these acceptors."""
    counted = [Counted(acceptor) for acceptor in acceptors]
    members = registry.register.read().members
    counting = QuorumRegistry(counted, registry.settings, SystemClock(), members=members)
    plans = [PlanKey("east", f"{chance.getrandbits(64):016x}", 1, "0" * 16) for _ in range(load.tasks)]
    starts = [chance.random() for _ in plans]  # of their first id: tasks are not in step
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(load.tasks) as pool:
            work = [pool.submit(_task, counting, load, *one) for one in zip(plans, starts, strict=True)]
            done = [task.result() for task in work]
    finally:
        counting.close()
    seconds = time.monotonic() - began
    ids, calls = (sum(numbers) for numbers in zip(*done, strict=True))
    return Tally(ids, calls, sum(one.requests for one in counted), seconds)


def _task(registry: QuorumRegistry, load: Load, plan: PlanKey, start: float) -> tuple[int, int]:
    """One task: how many ids it has won, in how many calls."""
    rate = load.ids_per_second / load.tasks
    began, won, sent, calls = time.monotonic(), 0, 0, 0
    while (elapsed := time.monotonic() - began) < load.seconds:
        due = int(elapsed * rate + start) - sent
        if due < 1:
            time.sleep((sent + 1 - start) / rate - elapsed)
            continue
        now_us = time.time_ns() // 1_000
        claims = [
            Claim(EventKey(f"{plan.epoch}-{number}", now_us), plan.token(Occurrence(1, number)))
            for number in range(sent, sent + min(due, MOST_IDS_A_CALL))
        ]
        won += sum(isinstance(outcome, Won) for outcome in registry.commit(claims))
        sent += len(claims)
        calls += 1
    return won, calls


def measure(address: RegistryAddress, load: Load, processes: int, seed: int) -> Served:
    """Put a load on the registry at `address`, from tasks in `processes` processes, as Spark's are."""
    share = Load(load.ids_per_second / processes, load.tasks // processes, load.seconds)
    seeds = range(seed * processes, (seed + 1) * processes)
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        tallies = list(pool.map(_measure_here, [address] * processes, [share] * processes, seeds))
    return served(load, tallies, address.settings.shards)


def served(load: Load, tallies: Sequence[Tally], shards: int) -> Served:
    """What came of a load, from the sums of processes that worked at the same time."""
    return Served(
        load.ids_per_second,
        ids_per_second=sum(one.ids / one.seconds for one in tallies),
        requests_per_second=sum(one.requests / one.seconds for one in tallies),
        calls_per_second=sum(one.calls / one.seconds for one in tallies),
        shards=shards,
    )


def _measure_here(address: RegistryAddress, load: Load, seed: int) -> Tally:
    try:
        registry = open_registry(address)
        return serve(registry.endpoints.acceptors, registry, load, random.Random(seed))
    finally:
        close_registries()


def draw(points: Sequence[Served], store: str) -> Any:
    """The figure: per second and shard, ids and requests against what is offered."""
    from matplotlib.figure import Figure

    rows = [point.of_a_shard() for point in points]
    offered = [row["offered_ids_per_second"] for row in rows]
    figure = Figure((6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(offered, [row["ids_per_second"] for row in rows], "o-", label="ids committed")
    axes.plot(offered, [row["requests_per_second"] for row in rows], "s-", label="requests to the store")
    axes.set_xlabel("ids offered a second, per shard")
    axes.set_ylabel("a second, per shard")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"Batching: {points[0].shards} shards, {store}", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
