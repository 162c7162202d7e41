"""Histories by chance: clients in the midst of each other's rounds, faults, late requests, repairs.

One thread, so that a seed repeats its history. Whatever is confirmed of a position must be the same for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from photon.registry.errors import RegistryUnavailable
from photon.registry.form import EntryDamaged, checksum
from photon.registry.positions import Chosen, Unconfirmed
from photon.registry.register import Members, Register
from photon.registry.stores.copies import ABSENT, Accept, Copy, Done, Key, Prepare, Promised
from photon.registry.stores.decisions import ballot, count_done, counter_above, majority, recover
from photon.registry.stores.positions import StorePositions
from tests.registry.store_backends import (
    LEDGER,
    Memory,
    MemoryStore,
    damaged,
    entry,
    key,
    offered,
)

STEPS = 30
DEPTH = 3  # a client acts in the midst of another one's round, and a third one in the midst of his
SEEDS = [range(10), pytest.param(range(10, 1_500), marks=pytest.mark.long)]


class History:
    """Clients over n stores; what they are told is checked."""

    def __init__(self, n: int, seed: int) -> None:
        self.memory = Memory(n, seed)
        self.chance = self.memory.chance
        self.seen: dict[int, bytes] = {}
        self.depth = 0
        self.idle = [self.memory.client() for _ in range(3)]
        self.views: dict[int, list[bytes]] = {id(client): [] for client in self.idle}
        self.is_repairing = False
        self.repairs = 0
        for channel in self.memory.channels:
            channel.interleave = self.interleave
        for name in self.memory.members.incarnations:
            self.memory.made[name].fault = self.fault
        self.out: str | None = None  # the store that is down now

    def fault(self, request: str) -> str | None:
        return self.chance.choices([None, "lost request", "lost answer", "throttled"], [94, 2, 3, 1])[0]

    def interleave(self) -> None:
        """Something else happens in the midst of a round."""
        if self.depth < DEPTH and self.chance.random() < 0.08:
            self.depth += 1
            self.act()
            self.depth -= 1

    def act(self) -> None:
        actions = {"append": 8, "read": 4, "land": 6, "down": 2, "damage": 1, "repair": 1 + 4 * self.depth}
        match self.chance.choices([*actions], [*actions.values()])[0]:
            case "append" if self.idle:
                self.with_a_client(self.append)
            case "read" if self.idle:
                self.with_a_client(self.read)
            case "land":
                self.chance.choice(self.memory.channels).land()
            case "down":
                self.change_who_is_down()
            case "damage" if self.seen:
                self.damage_one()
            case "repair" if self.idle and not self.is_repairing and self.out is None:
                self.is_repairing = True
                self.with_a_client(self.repair)
                self.is_repairing = False

    def with_a_client(self, do) -> None:  # type: ignore[no-untyped-def]
        client = self.idle.pop(self.chance.randrange(len(self.idle)))
        with suppress(RegistryUnavailable, Unconfirmed):  # then it forgets what the attempt brought
            do(client)
        self.idle.append(client)

    # -- what clients do

    def read(self, client: StorePositions) -> None:
        view = self.views[id(client)]
        attempt = client.attempt()
        found = list(attempt.read({LEDGER: len(view)})[LEDGER].values)
        self.interleave()
        attempt.confirm()
        self.tell(view, found)

    def append(self, client: StorePositions) -> None:
        self.read(client)
        view = self.views[id(client)]
        attempt = client.attempt()
        outcome = offered(attempt, len(view), entry(view[-1] if view else b""))
        self.interleave()
        attempt.confirm()
        if isinstance(outcome, Chosen):
            self.tell(view, [outcome.value])

    def tell(self, view: list[bytes], values: Sequence[bytes]) -> None:
        for value in values:
            assert self.seen.setdefault(len(view), value) == value, f"position {len(view)} has two values"
            view.append(value)

    # -- what happens to stores

    def change_who_is_down(self) -> None:
        """Take a store down, or back; at most one is down at a time."""
        if self.out is not None:
            self.memory.made[self.out].fault, self.out = self.fault, None
        elif not self.is_repairing and len(self.memory.made) > 1 and self.chance.random() < 0.5:
            self.out = self.chance.choice(self.names())
            self.memory.made[self.out].fault = lambda request: "down"

    def damage_one(self) -> None:
        """A copy of a decided value, if all others are whole."""
        at = key(self.chance.choice(list(self.seen)))
        stores = [self.memory.made[name] for name in self.names()]
        copies = [store.items.get(at, ABSENT) for store in stores]
        if len(stores) == 1 or any(copy.value != self.seen[at.position] for copy in copies):
            return
        number = self.chance.randrange(len(stores))
        stores[number].items[at] = replace(copies[number], value=damaged(self.seen[at.position]))

    def names(self) -> tuple[str, ...]:
        return self.members.incarnations

    @property
    def members(self) -> Members:
        """The newest that anybody knows of."""
        known = [client.stores.active.members for client in self.memory.clients]
        return max(known, key=lambda members: members.version)

    def repair(self, client: StorePositions) -> None:
        """Give one slot a new store, with what the others have (docs/adr/0017), to its end or not."""
        register = client.read_register()
        members, n = register.members, len(register.members.incarnations)
        if n == 1 or self.repairs >= 6:
            return
        self.repairs += 1
        slot = next(iter((*members.down, *members.fresh)), self.chance.randrange(n))
        name = f"{slot}-{self.repairs + 1}"
        names = tuple(name if at == slot else other for at, other in enumerate(members.incarnations))
        version = members.version
        client.change(lambda now: _with(now, version, Members(version + 1, names, down=(slot,))))
        if client.stores.active.members.incarnations != names:
            return  # another one was faster
        others = [self.memory.made[other] for number, other in enumerate(names) if number != slot]
        new = self.memory.made.setdefault(name, MemoryStore(name))
        for at in sorted({at for store in others for at in store.items if at.ledger != "register"}):
            self._copy(at, others, new, n)
            self.interleave()
        client.change(lambda now: _with(now, version + 1, Members(version + 2, names, fresh=(slot,))))
        client.change(lambda now: _with(now, version + 2, Members(version + 3, names)))
        new.fault = self.fault

    def _copy(self, at: Key, others: list[MemoryStore], new: MemoryStore, n: int) -> None:
        """Decide in one round over the other stores, then have the same value at the new one."""
        counter = counter_above([store.items.get(at, ABSENT) for store in others])
        own = ballot(counter, f"{self.chance.getrandbits(64):016x}")
        replies = [store.prepare(Prepare(at, own)) for store in others]
        promised = [reply.before for reply in replies if isinstance(reply, Promised)]
        promised = [copy for copy in promised if _is_whole(copy)]
        if len(promised) < majority(n):
            raise RegistryUnavailable(f"{at} can't be copied now")  # another repair begins anew
        value = recover(promised, n)
        if value is None:
            return
        accepted = [store.accept(Accept(at, own, value)) for store in others]
        if count_done(accepted) < majority(n) or not isinstance(new.accept(Accept(at, own, value)), Done):
            raise RegistryUnavailable(f"{at} can't be copied now")


def _with(register: Register, version: int, members: Members) -> Register:
    return replace(register, members=members) if register.members.version == version else register


def _is_whole(copy: Copy) -> bool:
    with suppress(EntryDamaged):
        return copy.value is None or bool(checksum(copy.value))
    return False


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seeds", SEEDS)
def test_no_history_gives_a_position_two_values(n: int, seeds: range) -> None:
    for seed in seeds:
        print(f"seed {seed}")
        history = History(n, seed)
        for _ in range(STEPS):
            history.act()


def test_histories_come_to_positions_and_to_repairs() -> None:
    histories = [History(3, seed) for seed in range(8)]
    for history in histories:
        for _ in range(STEPS):
            history.act()
    assert sum(len(history.seen) for history in histories) > 50
    assert sum(history.members.version > 3 for history in histories) > 3
