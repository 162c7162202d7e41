"""Whole clients of the registry, the product's own code, over a network as bad as a seed wants it.

    python -m tests.simulation.registry_simulation --seeds 100000
    python -m tests.simulation.registry_simulation --seed 4711

Every step is checked by the rules of protocol F about the registry, and the history at the end by
`tests.simulation.history`. Ids are few, so that clients meet. A token is either in the output (it may be
cleared, and is never released) or belongs to a plan that ended without a row (it is released).
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import count
from multiprocessing import get_context
from unittest import mock

from photon.faults import disarm
from photon.ledger.stores.decisions import majority
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus import layout
from photon.registry.consensus.layout import SHARD_HASH, item_key
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.history import problems
from tests.simulation.network import REQUEST_TIMEOUT_SECONDS, Client, Network, Weather
from tests.simulation.observer import NO_END, Observer, RuleBroken
from tests.simulation.simulated_calls import Calls, Fate
from tests.simulation.simulated_operators import Operators, Upkeep
from tests.simulation.simulated_process import Process
from tests.simulation.simulated_stores import Stores

SETTINGS = Registry(
    total_timeout=timedelta(seconds=6),
    request_timeout=timedelta(seconds=REQUEST_TIMEOUT_SECONDS),
    horizon_step=timedelta(seconds=30),
)
IDS = 5
APART_US = 20_000_000  # so that some are beyond the first horizon
FIRST_HORIZON_US = 50_000_000
CALLS = 5  # of each client
LAST_INTERRUPTION = 20  # most clients have as many exchanges
WEATHERS = (
    Weather(),
    Weather(repeated=0.1, in_part=0.05, throttled=0.05, unreadable=0.03, short_page=0.3),
    Weather(
        lost=0.03, late=0.05, repeated=0.1, in_part=0.05, throttled=0.03, unreadable=0.02, short_page=0.1
    ),
    Weather(lost=0.15, late=0.1, repeated=0.2, in_part=0.1, throttled=0.1, unreadable=0.05, short_page=0.3),
)
BATCH_OF_SEEDS = 2_000  # of the command, between two lines of what it has done
UPKEEP: dict[Upkeep, float] = {"gc": 0.35, "repair": 0.35, "resharding": 0.35}  # of the seeds
TAKE_SOME_FOR_SLOW = 0.3  # of the clients: they go on without them, and insert with promises
OVER_REQUESTS = 0.25  # of the seeds: clients send the product's own requests, and stores interpret them


class Simulation:
    """One seed: stores, clients, operators, faults, and what was seen.

    `only_history`: no rule of F is checked, only whether what clients were told can be true. `upkeep`: what
    operators do. `over_requests`: whether clients send the product's own requests. None: as the seed has it.
    """

    def __init__(
        self,
        seed: int,
        only_history: bool = False,
        upkeep: Collection[Upkeep] | None = None,
        over_requests: bool | None = None,
    ) -> None:
        way_to_ask = random.Random(f"{seed}, how to ask")  # of its own: all else is as with the other way
        drawn_requests = way_to_ask.random() < OVER_REQUESTS
        self.over_requests = drawn_requests if over_requests is None else over_requests
        self._transactions = way_to_ask.random() < 0.5 if self.over_requests else None
        self._prejudice = random.Random(f"{seed}, who is slow")
        self.chance = random.Random(seed)
        drawn = [name for name, share in UPKEEP.items() if self.chance.random() < share]
        self.upkeep = drawn if upkeep is None else upkeep
        self.n = self.chance.choice((3, 3, 5) if "repair" in self.upkeep else (1, 3, 3, 5))
        self.with_times = "resharding" in self.upkeep or self.chance.random() < 0.5
        self.network = Network(self.chance, self.chance.choice(WEATHERS))
        self.keys = [self._key(number) for number in range(IDS)]
        event_us = {item_key(k, (ShardConfig(1),)).s: number * APART_US for number, k in enumerate(self.keys)}
        self.observer = Observer(self.n, lambda: self.network.now_seconds, event_us, only_history)
        self.stores = Stores(self.network, self.observer, self._first_register())
        self._only_history = only_history
        is_whole = "repair" not in self.upkeep
        self.calls = Calls(self.network, self.observer, self.stores, self.keys, only_history, is_whole)
        self.operators = Operators(
            self.network, self.stores, self.chance, [*event_us.values()], self._process
        )
        self._fates: list[Fate] = []
        self._numbers = count()

    def _key(self, number: int) -> EventKey:
        time_us = number * APART_US
        return EventKey(f"id{number}", *((time_us,) if self.with_times else (None, time_us)))

    def run(self) -> None:
        """RuleBroken if something does not hold."""
        try:
            # Gc and repair look through the shards that have ids, and not through a thousand empty ones.
            fixed = sorted({item_key(key, ()).p for key in self.keys if not self.with_times})
            with mock.patch.object(layout, "fixed_shards", return_value=fixed):
                self._run()
        finally:
            disarm()

    def _run(self) -> None:
        for number in range(self.chance.randrange(2, 5)):
            self._start(f"dc{number % 3}")
        for upkeep in self.upkeep:
            self.operators.begin(upkeep)
        for _ in range(self.chance.choice((0, 1, 3, 8))):
            self.network.after(self.chance.uniform(0, 20), self._fall)
        try:
            self.network.run()
        finally:
            disarm()
        self._come_to_rest()
        found = problems(self.calls.history())
        if found:
            raise RuleBroken(f"history: {found[0]}")

    def _first_register(self) -> Register:
        return Register(
            pipeline="simulated",
            settings_hash="simulated",
            shard_hash=SHARD_HASH,
            members=Members(1, tuple(f"slot-{slot}-0" for slot in range(self.n))),
            configs=(ShardConfig(2),) if self.with_times else (),
            horizon_us=FIRST_HORIZON_US if self.with_times else None,
        )

    # -- clients

    def _process(self) -> Process:
        slow = frozenset[int]()
        if self._prejudice.random() < TAKE_SOME_FOR_SLOW:
            slow = frozenset(self._prejudice.sample(range(self.n), self.n - majority(self.n)))
        return Process(self.network, self.stores, SETTINGS, self.chance, self._transactions, slow)

    def _start(self, datacenter: str) -> None:
        process = self._process()
        process.start_with(lambda registry, client: self._live(registry, client, datacenter))
        if self.chance.random() < 0.5:
            moment = self.chance.randrange(1, LAST_INTERRUPTION)
            process.client.interrupt(moment, lambda: self._restart(process, datacenter))

    def _restart(self, process: Process, datacenter: str) -> None:
        if not process.client.is_over:
            # Or it is a zombie, beside the one that takes its place.
            if self.chance.random() < 0.7:
                process.client.kill()
            self._process().start_with(lambda registry, client: self._live(registry, client, datacenter))

    def _fall(self) -> None:
        store = self.chance.choice(self.stores.in_use())
        store.is_down = True

        def rise() -> None:
            store.is_down = False

        self.network.after(self.chance.expovariate(1 / 3.0), rise)

    def _live(self, registry: QuorumRegistry, client: Client, datacenter: str) -> None:
        calls = self.calls
        for _ in range(CALLS):
            match self.chance.choices(["new", "again", "lookup", "release", "clear"], [5, 3, 2, 3, 2])[0]:
                case "new":
                    keys = self.chance.sample(self.keys, self.chance.randrange(1, 4))
                    calls.commit(registry, client, [self._new(datacenter, key) for key in keys])
                case "again":
                    calls.commit(registry, client, self._some(lambda fate: True, datacenter))
                case "lookup":
                    calls.lookup(registry, client, self.chance.sample(self.keys, 2))
                case "release":
                    calls.release(registry, client, self._some(lambda fate: not fate.has_row))
                case "clear":
                    calls.clear(registry, client, self._some(self._is_in_output))
            # Now and then it is idle while much happens elsewhere.
            client.sleep(self.chance.expovariate(1 / (8.0 if self.chance.random() < 0.1 else 0.05)))

    def _new(self, datacenter: str, key: EventKey) -> Fate:
        fate = Fate(f"{datacenter}:e:1#{next(self._numbers)}:1:0", key, self.chance.random() < 0.5)
        self._fates.append(fate)
        return fate

    def _some(self, wanted: Callable[[Fate], bool], datacenter: str = "") -> list[Fate]:
        """Some tokens, each of another id."""
        fates = [f for f in self._fates if wanted(f) and f.token.startswith(datacenter)]
        picked = self.chance.sample(fates, min(len(fates), self.chance.randrange(1, 4)))
        return list({fate.key: fate for fate in picked}.values())

    def _is_in_output(self, fate: Fate) -> bool:
        won = (o.answer == "won" and o.token == fate.token for o in self.calls.operations)
        return fate.has_row and any(won)

    # -- at rest

    def _come_to_rest(self) -> None:
        """All is up and repaired, and nothing is lost: an id is decided, and found everywhere (F13)."""
        self.network.weather = Weather()
        self.stores.mend()
        self._repair_all()
        self._process().start_with(self._ask_about_all)
        self.network.run()
        if "repair" in self.upkeep:
            self._repair_all()  # somebody may have completed a change that was half-way
            # One that goes on with a comparison that died does not see what differs since that had passed.
            self._repair(self.chance.randrange(self.n), anew=True)
            self._must_agree()

    def _repair_all(self) -> None:
        while broken := self.operators.broken_slots():
            if not self._repair(broken[0]):
                return

    def _repair(self, slot: int, anew: bool = False) -> bool:
        self.operators.repair(slot, anew)
        self.network.run()
        has_ended = slot not in self.operators.broken_slots()
        if not has_ended:
            self._breaks(f"F13: a repair of slot {slot} does not end though all is up")
        return has_ended

    def _ask_about_all(self, registry: QuorumRegistry, client: Client) -> None:
        fates = [self._new("last", key) for key in self.keys]
        for _ in range(2):
            self.calls.commit(registry, client, fates)
        if any(operation.answer == "unknown" for operation in self.calls.operations[-len(fates) :]):
            self._breaks("F13: with all endpoints up an id stays undecided")
        self.calls.lookup(registry, client, self.keys)

    def _must_agree(self) -> None:
        configs = self.observer.register.configs
        for item in (item_key(key, configs) for key in self.keys):
            values = {s.items[item].value if item in s.items else None for s in self.stores.in_use()}
            if len(values) > 1 and not self.observer.is_forgotten(item):
                self._breaks(f"F13: after a repair stores differ about {item}: {values}")

    def _breaks(self, rule: str) -> None:
        if not self._only_history:
            raise RuleBroken(rule)


def simulate(
    seed: int,
    only_history: bool = False,
    upkeep: Collection[Upkeep] | None = None,
    over_requests: bool | None = None,
) -> str | None:
    """Run one seed: what is wrong, or None."""
    try:
        Simulation(seed, only_history, upkeep, over_requests).run()
    except AssertionError as broken:  # a broken rule, or an assertion of the product's own
        return str(broken)
    return None


def first_failure(
    seeds: Sequence[int],
    budget_seconds: float = NO_END,
    only_history: bool = False,
    upkeep: Collection[Upkeep] | None = None,
) -> tuple[int, int | None, str | None]:
    """Run seeds until one fails or the time is up: how many ran, the failing one, what is wrong."""
    end = time.monotonic() + budget_seconds
    ran = 0
    for seed in seeds:
        problem = simulate(seed, only_history, upkeep)
        ran += 1
        if problem is not None:
            return ran, seed, problem
        if time.monotonic() >= end:
            break
    return ran, None, None


def search(
    seeds: range, processes: int, budget_seconds: float = NO_END
) -> tuple[int, int | None, str | None]:
    """`first_failure` over several processes, each with its share of the seeds."""
    shares = [seeds[number::processes] for number in range(processes)]
    # Spawned: what is forked has locks of threads that it does not have.
    with ProcessPoolExecutor(processes, get_context("spawn"), _be_quiet) as pool:
        found = list(pool.map(first_failure, shares, [budget_seconds] * processes))
    ran = sum(count for count, _, _ in found)
    failed = [(seed, problem) for _, seed, problem in found if seed is not None]
    return (ran, *min(failed, default=(None, None)))


def _be_quiet() -> None:
    """Simulated clients tell of endpoints that fall, some sixty times a seed."""
    logging.getLogger("photon.registry").setLevel(logging.ERROR)


def main() -> int:
    """The command: so many seeds, or one again."""
    parser = argparse.ArgumentParser(description="Simulate clients and operators of the IdRegistry.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run, from 0 or --from")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--seed", type=int, help="run this one alone, and print its calls")
    arguments = parser.parse_args()
    _be_quiet()
    if arguments.seed is not None:
        simulation = Simulation(arguments.seed)
        try:
            simulation.run()
        finally:
            print("\n".join(str(operation) for operation in simulation.calls.operations))
        return 0
    began, end = time.monotonic(), arguments.first + arguments.seeds
    for first in range(arguments.first, end, BATCH_OF_SEEDS):
        ran, seed, problem = search(range(first, min(first + BATCH_OF_SEEDS, end)), arguments.processes)
        print(f"{first - arguments.first + ran} seeds, {time.monotonic() - began:.0f} s", flush=True)
        if seed is not None:
            print(f"seed {seed} fails: {problem}\nagain: --seed {seed}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
