"""Whole clients of the registry, the product's own code, over a network as bad as a seed wants it.

    python -m photon.testing.registry_simulation --seeds 100000
    python -m photon.testing.registry_simulation --seed 4711

After every step the rules of protocol F about the registry are checked, and at the end the history by
`photon.testing.history`. Ids are few, so that clients meet. A token is either in the output (it may be
cleared, and is never released) or belongs to a plan that ended without a row (it is released).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count

from photon.pipeline import Registry
from photon.registry.decisions import ABSENT, Stored
from photon.registry.interface import (
    Claim,
    EventKey,
    Joined,
    Lost,
    NotHeld,
    RegistryUnavailable,
    Released,
    Unknown,
    Won,
)
from photon.registry.layout import REGISTER_KEY, SHARD_HASH, item_key, sortable_time
from photon.registry.proposer import QuorumRegistry
from photon.registry.register import (
    Members,
    Register,
    ShardConfig,
    encode_register,
)
from photon.testing.chosen import is_held_by, is_released
from photon.testing.history import Kind, Operation, in_words, problems
from photon.testing.network import REQUEST_TIMEOUT_SECONDS, Client, Network, Weather
from photon.testing.registry_observer import NO_END, Endpoint, Observer, RuleBroken

SETTINGS = Registry(
    deadline=timedelta(seconds=6),
    request_timeout=timedelta(seconds=REQUEST_TIMEOUT_SECONDS),
    horizon_step=timedelta(seconds=30),
)
IDS = 5
CALLS = 5  # of each client
WEATHERS = (
    Weather(),
    Weather(repeated=0.1, in_part=0.05),
    Weather(lost=0.03, late=0.05, repeated=0.1, in_part=0.05),
    Weather(lost=0.15, late=0.1, repeated=0.2, in_part=0.1),
)
LAST_INTERRUPTION = 20  # most clients have as many exchanges
FIRST_HORIZON_US = 60_000_000


@dataclass(frozen=True, slots=True)
class _Fate:
    token: str
    key: EventKey
    has_row: bool


class Simulation:
    """One seed: endpoints, clients, faults, and what was seen.

    `only_history`: the rules of F are not checked, only what clients were told.
    """

    def __init__(self, seed: int, only_history: bool = False) -> None:
        self.seed = seed
        self._only_history = only_history
        self.chance = random.Random(seed)
        self.n = self.chance.choice((1, 3, 3, 5))
        self.network = Network(self.chance, self.chance.choice(WEATHERS))
        self.observer = Observer(self.n, lambda: self.network.now_seconds, only_history)
        self.endpoints = [Endpoint(self.observer, number) for number in range(self.n)]
        self.with_times = self.chance.random() < 0.5
        self.keys = [self._key(number) for number in range(IDS)]
        self.operations: list[Operation] = []
        self._fates: list[_Fate] = []
        self._numbers = count()
        self._collected: set[EventKey] = set()

    def _key(self, number: int) -> EventKey:
        return EventKey(f"id{number}", number * 1_000_000 if self.with_times else None)

    def run(self) -> None:
        """RuleBroken if something does not hold."""
        self._make_register()
        for number in range(self.chance.randrange(2, 5)):
            self._start(f"dc{number % 3}")
        if self.with_times and self.chance.random() < 0.7:
            self._client().start_with(self._collect)
        for _ in range(self.chance.randrange(3)):
            self.network.after(self.chance.uniform(0, 20), self._fall)
        self.network.run()
        self._settle()
        found = problems(self._without_boundary(operation) for operation in self.operations)
        if found:
            raise RuleBroken(f"history: {found[0]}")

    def _make_register(self) -> None:
        register = Register(
            pipeline="simulated",
            settings_hash="simulated",
            shard_hash=SHARD_HASH,
            members=Members(1, tuple(f"slot-{number}" for number in range(self.n))),
            configs=(ShardConfig(2),) if self.with_times else (),
            horizon_us=FIRST_HORIZON_US if self.with_times else None,
        )
        self.configs = register.configs
        for number, endpoint in enumerate(self.endpoints):
            stored = Stored(encode_register(register), "0" * 16, "0" * 16)
            endpoint.items[REGISTER_KEY] = stored
            self.observer.saw(number, REGISTER_KEY, ABSENT, stored)

    # -- clients

    def _client(self) -> _Process:
        return _Process(self)

    def _start(self, datacenter: str) -> None:
        process = self._client()
        process.start_with(lambda registry, client: self._live(registry, client, datacenter))
        if self.chance.random() < 0.5:
            moment = self.chance.randrange(1, LAST_INTERRUPTION)
            process.client.interrupt(moment, lambda: self._restart(process, datacenter))

    def _restart(self, process: _Process, datacenter: str) -> None:
        if not process.client.is_over:
            # Or it is a zombie, beside the one that takes its place.
            if self.chance.random() < 0.7:
                process.client.kill()
            self._client().start_with(lambda registry, client: self._live(registry, client, datacenter))

    def _fall(self) -> None:
        endpoint = self.chance.choice(self.endpoints)
        self.network.down.add(endpoint)
        self.network.after(self.chance.uniform(0, 10), lambda: self.network.down.discard(endpoint))

    def _live(self, registry: QuorumRegistry, client: Client, datacenter: str) -> None:
        for _ in range(CALLS):
            match self.chance.choices(["new", "again", "lookup", "release", "clear"], [5, 3, 2, 3, 2])[0]:
                case "new":
                    keys = self.chance.sample(self.keys, self.chance.randrange(1, 4))
                    self._commit(registry, client, [self._new(datacenter, key) for key in keys])
                case "again":
                    self._commit(registry, client, self._some(lambda fate: True, datacenter))
                case "lookup":
                    self._lookup(registry, client, self.chance.sample(self.keys, 2))
                case "release":
                    self._release(registry, client, self._some(lambda fate: not fate.has_row))
                case "clear":
                    self._clear(registry, client, self._some(self._is_in_output))
            client.sleep(self.chance.expovariate(1 / 0.05))

    def _new(self, datacenter: str, key: EventKey) -> _Fate:
        fate = _Fate(f"{datacenter}:e:1#{next(self._numbers)}:1:0", key, self.chance.random() < 0.5)
        self._fates.append(fate)
        return fate

    def _some(self, wanted: Callable[[_Fate], bool], datacenter: str = "") -> list[_Fate]:
        """Some tokens, each of another id."""
        fates = [f for f in self._fates if wanted(f) and f.token.startswith(datacenter)]
        picked = self.chance.sample(fates, min(len(fates), self.chance.randrange(1, 4)))
        return list({fate.key: fate for fate in picked}.values())

    def _is_in_output(self, fate: _Fate) -> bool:
        won = (o.answer == "won" and o.token == fate.token for o in self.operations)
        return fate.has_row and any(won)

    # -- calls, as history has them

    def _commit(self, registry: QuorumRegistry, client: Client, fates: Sequence[_Fate]) -> None:
        outcomes, done = self._call("commit", client, fates, lambda: registry.commit(_claims(fates)))
        for fate, outcome in zip(fates, outcomes, strict=True):
            done(fate, outcome)

    def _lookup(self, registry: QuorumRegistry, client: Client, keys: Sequence[EventKey]) -> None:
        fates = [_Fate("", key, False) for key in keys]
        outcomes, done = self._call("lookup", client, fates, lambda: registry.lookup(keys))
        for fate, outcome in zip(fates, outcomes, strict=True):
            done(fate, outcome)

    def _release(self, registry: QuorumRegistry, client: Client, fates: Sequence[_Fate]) -> None:
        outcomes, done = self._call("release", client, fates, lambda: registry.release(_claims(fates)))
        for fate, outcome in zip(fates, outcomes, strict=True):
            done(fate, outcome)

    def _clear(self, registry: QuorumRegistry, client: Client, fates: Sequence[_Fate]) -> None:
        def clear() -> list[object]:
            registry.clear(_claims(fates))
            return ["cleared"] * len(fates)

        outcomes, done = self._call("clear", client, fates, clear)
        for fate, outcome in zip(fates, outcomes, strict=True):
            done(fate, outcome)

    def _call(
        self, kind: Kind, client: Client, fates: Sequence[_Fate], call: Callable[[], Sequence[object]]
    ) -> tuple[Sequence[object], Callable[[_Fate, object], None]]:
        begin = self.network.now_seconds
        self.network.disturbed.discard(client)
        first = len(self.operations)
        # Noted before it begins: a client may be killed amid its call.
        self.operations += [Operation(kind, f.key.id, f.token, begin, NO_END, "unknown") for f in fates]
        try:
            outcomes: Sequence[object] = call()
        except RegistryUnavailable:
            outcomes = [Unknown("unavailable")] * len(fates)
        calm = client not in self.network.disturbed and not self.network.weather.repeated
        places = {id(fate): first + index for index, fate in enumerate(fates)}

        def done(fate: _Fate, outcome: object) -> None:
            place = places[id(fate)]
            answer, holder = in_words(outcome)
            end = NO_END if answer == "unknown" else self.network.now_seconds
            self.operations[place] = replace(
                self.operations[place], end=end, answer=answer, holder=holder, undisturbed=calm
            )
            self._judge(fate, outcome, begin)

        return outcomes, done

    def _judge(self, fate: _Fate, outcome: object, begin: float) -> None:
        """Rules F4 and F5."""
        if self._only_history:
            return
        item = item_key(fate.key, self.configs)
        values = self.observer.values(item)
        too_old_us = self.observer.boundary_us(item.p, max(begin, self.observer.first_held(item, fate.token)))
        is_old = fate.key.time_us is not None and fate.key.time_us < too_old_us
        match outcome:
            case Won() if is_old:
                raise RuleBroken(f"F5: {fate} won below the boundary {too_old_us}")
            case Lost(holder) | Joined(holder) | NotHeld(holder):
                if not self._may_be_forgotten(fate.key) and not is_held_by(values, holder):
                    raise RuleBroken(f"F4: {fate} was told {outcome}, never chosen")
            case Won() if self.observer.first_held(item, fate.token) > self.network.now_seconds:
                raise RuleBroken(f"F3: {fate} won, but is not chosen")
            case Released() if not self._may_be_forgotten(fate.key) and not is_released(values, fate.token):
                raise RuleBroken(f"F3: {fate} was told {outcome}, which it is not")

    def _may_be_forgotten(self, key: EventKey) -> bool:
        return key in self._collected

    def _without_boundary(self, operation: Operation) -> Operation:
        """A release asks for no boundary: below it nothing follows from what it found."""
        collected = any(key.id == operation.id for key in self._collected)
        if operation.kind == "release" and collected:
            return replace(operation, answer="unknown", holder="", end=NO_END)
        return operation

    # -- collection: first the boundary, then the endpoints, each when it comes to it (protocol C2)

    def _collect(self, registry: QuorumRegistry, client: Client) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            client.sleep(self.chance.expovariate(1 / 1.0))
            shard = item_key(self.chance.choice(self.keys), self.configs).p
            boundary_us = self.chance.randrange(1, IDS) * 1_000_000

            def raised(register: Register, shard: str = shard, boundary_us: int = boundary_us) -> Register:
                higher = max(boundary_us, register.boundaries_us.get(shard, 0))
                return replace(register, boundaries_us={**register.boundaries_us, shard: higher})

            try:
                now = registry.register.change(raised)
            except RegistryUnavailable:
                continue
            for endpoint in self.endpoints:
                seconds = self.chance.expovariate(1 / 0.5)
                self.network.after(seconds, partial(self._delete, endpoint, shard, now.boundaries_us[shard]))

    def _delete(self, endpoint: Endpoint, shard: str, boundary_us: int) -> None:
        for key in self.keys:
            item = item_key(key, self.configs)
            if item.p == shard and item.s < sortable_time(boundary_us):
                self._collected.add(key)
                self.observer.forget(item)
                endpoint.items.pop(item, None)

    # -- at rest

    def _settle(self) -> None:
        """All is up again and nothing is lost: one more client gets a clear answer about every id (F13)."""
        self.network.weather = Weather()
        self.network.down.clear()

        def ask(registry: QuorumRegistry, client: Client) -> None:
            fates = [self._new("last", key) for key in self.keys]
            for _ in range(2):
                self._commit(registry, client, fates)
            if any(operation.answer == "unknown" for operation in self.operations[-len(fates) :]):
                raise RuleBroken("F13: with all endpoints up an id stays undecided")
            self._lookup(registry, client, self.keys)

        self._client().start_with(ask)
        self.network.run()


class _Process:
    """A client and its registry."""

    def __init__(self, simulation: Simulation) -> None:
        chance = simulation.chance
        self.client = Client(simulation.network, chance.choice((0.0, -3_600.0, 40.0, 86_400.0)))
        self._registry = QuorumRegistry(
            simulation.endpoints, SETTINGS, self.client, channel=self.client, chance=chance
        )

    def start_with(self, work: Callable[[QuorumRegistry, Client], None]) -> None:
        """Let it work, from now on."""
        self.client.start(lambda: work(self._registry, self.client))


def _claims(fates: Sequence[_Fate]) -> list[Claim]:
    return [Claim(fate.key, fate.token) for fate in fates]


def simulate(seed: int, only_history: bool = False) -> str | None:
    """Run one seed: what is wrong, or None."""
    try:
        Simulation(seed, only_history).run()
    except AssertionError as broken:  # a broken rule, or an assertion of the product's own
        return str(broken)
    return None


def first_failure(
    seeds: Sequence[int], budget_seconds: float = NO_END, only_history: bool = False
) -> tuple[int, int | None, str | None]:
    """Run seeds until one fails or the time is up: how many ran, the failing one, what is wrong."""
    end = time.monotonic() + budget_seconds
    ran = 0
    for seed in seeds:
        problem = simulate(seed, only_history)
        ran += 1
        if problem is not None:
            return ran, seed, problem
        if time.monotonic() >= end:
            break
    return ran, None, None


def main() -> int:
    """The command: so many seeds, or one again."""
    parser = argparse.ArgumentParser(description="Simulate clients of the IdRegistry.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run, from 0 or --from")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one alone, and print its calls")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        simulation = Simulation(arguments.seed)
        try:
            simulation.run()
        finally:
            print("\n".join(str(operation) for operation in simulation.operations))
        return 0
    ran, seed, problem = first_failure(range(arguments.first, arguments.first + arguments.seeds))
    print(f"{ran} seeds" if seed is None else f"seed {seed} fails: {problem}\nagain: --seed {seed}")
    return 0 if seed is None else 1


if __name__ == "__main__":
    sys.exit(main())
