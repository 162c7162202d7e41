"""Offering and reading over one, three and five stores in memory, by one thread, with faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.registry.entry import Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.form import checksum
from photon.registry.positions import Chosen, Unconfirmed, Undecided
from photon.registry.register import Members, Register, with_dropped, with_generation
from photon.registry.stores.copies import ABSENT, Copy
from photon.registry.stores.positions import StorePositions
from photon.registry.stores.register_store import MEMBERS_MOVED
from tests.registry.store_backends import (
    LEDGER,
    Memory,
    append,
    damaged,
    down,
    entry,
    key,
    offered,
    once,
    read_all,
)


def with_the_last_down(register: Register) -> Register:
    """The register of a repair's first step: the store in the last slot is another one, and out of use."""
    members = register.members
    names = (*members.incarnations[:-1], "anew")
    return replace(register, members=Members(members.version + 1, names, down=(len(names) - 1,)))


def append_behind(client: StorePositions, values: list[bytes]) -> bytes:
    """Append an entry behind these values, confirmed."""
    attempt = client.attempt()
    own = entry(values[-1])
    assert offered(attempt, len(values), own) == Chosen(own)
    attempt.confirm()
    return own


@pytest.fixture
def memory() -> Memory:
    return Memory(3)


@pytest.fixture
def client(memory: Memory) -> StorePositions:
    return memory.client()


SIZES = pytest.mark.parametrize("n", [1, 3, 5])


@SIZES
def test_what_is_offered_is_chosen_with_one_request_to_each_store(n: int) -> None:
    memory = Memory(n)
    attempt = memory.client().attempt()
    memory.forget_requests()
    own = entry()
    assert offered(attempt, 0, own) == Chosen(own)
    assert len(memory.requests) >= (3 * n + 3) // 4
    assert set(memory.requests) == {"insert"}


@SIZES
def test_who_comes_second_is_told_the_first_ones_value(n: int) -> None:
    memory = Memory(n)
    one, other = memory.client(), memory.client()
    first, second = entry(), entry()
    assert offered(one.attempt(), 0, first) == Chosen(first)
    attempt = other.attempt()
    assert offered(attempt, 0, second) == Chosen(first)
    attempt.confirm()
    assert read_all(memory.client()) == [first]


@SIZES
def test_a_lost_answer_is_no_loss(n: int) -> None:
    memory = Memory(n)
    for store in memory.stores:
        store.fault = once("lost answer", "insert")
    own = entry()
    assert offered(memory.client().attempt(), 0, own) == Chosen(own)


@SIZES
def test_throttled_inserts_are_sent_again_and_cost_no_ballot(n: int) -> None:
    memory = Memory(n)
    attempt = memory.client().attempt()
    for store in memory.stores:
        store.fault = once("throttled", "insert")
        store.requests.clear()
    own = entry()
    assert offered(attempt, 0, own) == Chosen(own)
    assert set(memory.requests) == {"insert"}
    assert memory.values_at(0).count(own) >= (3 * n + 3) // 4


@pytest.mark.parametrize(("n", "out"), [(3, 1), (5, 2)])
def test_with_a_minority_known_to_be_down_a_position_costs_an_accept_and_a_check(n: int, out: int) -> None:
    memory = Memory(n)
    client = memory.client()
    memory.take_down(out)
    values = append(client, 2)
    for _ in range(3):
        memory.forget_requests()
        values.append(append_behind(client, values))
        for store in memory.stores[out:]:
            assert sorted(store.requests) == ["accept", "get", "prepare"]  # prepares the next position
    assert read_all(memory.client())[:-1] == values[:-1]


def test_what_was_reserved_counts_only_once_a_check_has_confirmed_it(
    memory: Memory, client: StorePositions
) -> None:
    other = memory.client()
    memory.take_down(1)
    values = append(client, 2)
    attempt = client.attempt()
    own = entry(values[-1])
    assert offered(attempt, 2, own) == Chosen(own)
    memory.mend()
    other.change(with_the_last_down)
    with pytest.raises(Unconfirmed):
        attempt.confirm()
    memory.forget_requests()
    values.append(own)
    assert append_behind(client, values)
    assert memory.stores[1].requests[0] == "prepare"


def two_behind_which_is_reserved(memory: Memory, client: StorePositions) -> list[bytes]:
    """Append two entries while a store is down: the client has reserved position 2 then. All are up again."""
    memory.take_down(1)
    values = append(client, 2)
    memory.mend()
    return values


def test_who_sleeps_on_a_reservation_through_a_change_of_members_does_not_use_it(memory: Memory) -> None:
    sleeper, other = memory.client(), memory.client()
    values = two_behind_which_is_reserved(memory, sleeper)
    other.change(with_the_last_down)
    values.append(append_behind(other, values))
    attempt = sleeper.attempt()
    late = entry(values[1])
    assert offered(attempt, 2, late) in (Chosen(values[2]), Undecided(MEMBERS_MOVED))
    with pytest.raises(Unconfirmed):
        attempt.confirm()
    assert append(memory.client(), 1)[:3] == values


def test_what_was_reserved_is_used_once(memory: Memory, client: StorePositions) -> None:
    """Two values at one ballot could both be chosen by it."""
    memory.take_down(1)
    values = append(client, 2)
    for store in memory.stores[1:]:
        store.fault = lambda request: "lost request" if request == "accept" else None
    (first, second) = (client.attempt(), client.attempt())
    offered(first, 2, entry(values[-1]))
    ballots = [store.items[key(2)].promised for store in memory.stores[1:]]
    offered(second, 2, entry(values[-1]))
    assert all(
        store.items[key(2)].promised > one for store, one in zip(memory.stores[1:], ballots, strict=True)
    )


def test_who_has_reserved_a_position_is_waited_for_and_not_for_ever(memory: Memory) -> None:
    holder, other = memory.client(), memory.client()
    values = two_behind_which_is_reserved(memory, holder)
    began_us = memory.clock.elapsed_us()
    values.append(append_behind(other, values))
    assert memory.clock.elapsed_us() > began_us
    assert append(memory.client(), 1)[:3] == values


def test_of_two_who_append_to_one_ledger_neither_starves(memory: Memory) -> None:
    quick, slow = memory.client(), memory.client()
    values = append(quick, 1)
    for _ in range(3):  # the quick one is first, again and again
        assert offered(slow.attempt(), len(values) - 1, entry()) == Chosen(values[-1])
        values.append(append_behind(quick, values))
    attempt = slow.attempt()
    assert offered(attempt, len(values) - 1, entry(values[-2])) == Chosen(values[-1])
    attempt.confirm()
    own = entry(values[-1])

    def accepted_meanwhile(seconds: float) -> None:
        assert offered(slow.attempt(), len(values), own) == Chosen(own)

    memory.clock.sleep = accepted_meanwhile  # type: ignore[method-assign]
    assert offered(quick.attempt(), len(values), entry(values[-1])) == Chosen(own)


@pytest.mark.parametrize(("n", "out"), [(1, 1), (3, 2), (5, 3)])
def test_with_a_majority_down_the_outcome_is_undecided_and_reading_says_so(n: int, out: int) -> None:
    memory = Memory(n)
    client = memory.client()
    append(client, 1)
    attempt = client.attempt()
    memory.take_down(out)
    assert isinstance(offered(attempt, 1, entry()), Undecided)
    with pytest.raises(RegistryUnavailable):
        attempt.read({LEDGER: 1})
    with pytest.raises(RegistryUnavailable):
        attempt.confirm()


# -- reading


@SIZES
def test_a_ledger_of_many_pages_is_read_from_any_position_on(n: int) -> None:
    memory = Memory(n)
    values = append(memory.client(), 11)
    assert read_all(memory.client()) == values
    for first in range(12):
        some = memory.client().attempt().read({LEDGER: first})[LEDGER].values
        assert list(some) == values[first : first + len(some)]
        assert bool(some) == (first < 11)


def test_all_but_the_tail_is_read_from_one_store(memory: Memory) -> None:
    append(memory.client(), 11)
    client = memory.client()
    attempt = client.attempt()
    nearest = client.stores.nearest(client.stores.active)
    memory.forget_requests()
    assert len(attempt.read({LEDGER: 0})[LEDGER].values) == 3  # a page of four proves three
    assert [store.requests for slot, store in enumerate(memory.stores) if slot != nearest] == [[], []]


def test_with_one_of_three_down_a_new_view_writes_nothing_and_lacks_the_last_entry_at_most(
    memory: Memory,
) -> None:
    values = append(memory.client(), 9)
    for out in range(3):
        memory.stores[out].fault = down
        before = [dict(store.items) for store in memory.stores]
        assert read_all(memory.client()) in (values, values[:-1])
        assert [store.items for store in memory.stores] == before
        memory.stores[out].fault = lambda request: None


@pytest.mark.parametrize("position", [0, 3, 5])
def test_a_damaged_copy_is_no_reply_and_another_one_is_read(memory: Memory, position: int) -> None:
    values = append(memory.client(), 6)
    memory.stores[0].items[key(position)] = Copy(damaged(values[position]))
    found = read_all(memory.client())
    assert found == (values if position < 5 else values[:5])  # two copies do not prove the last
    longer = append(memory.client(), 1)
    assert longer[:6] == values
    assert read_all(memory.client()) == longer


@pytest.mark.parametrize("position", [0, 2])
def test_the_only_copy_being_damaged_nobody_is_told_that_nothing_is_there(position: int) -> None:
    memory = Memory(1)
    values = append(memory.client(), 3)
    memory.stores[0].items[key(position)] = Copy(damaged(values[position]))
    attempt = memory.client().attempt()
    with pytest.raises(RegistryUnavailable, match=f"position 1.0-0/{position}"):
        attempt.read({LEDGER: position})
    assert isinstance(offered(attempt, position, entry()), Undecided)


def test_a_ballot_mends_a_damaged_copy(memory: Memory) -> None:
    (value,) = append(memory.client(), 1)
    memory.stores[1].items[key(0)] = Copy(damaged(value))
    assert offered(memory.client().attempt(), 0, entry()) == Chosen(value)
    assert memory.values_at(0).count(value) >= 2
    assert read_all(memory.client()) == [value]


@pytest.mark.parametrize("out", [0, 1, None])
def test_one_of_three_put_back_to_an_older_copy_replaces_no_decided_value(out: int | None) -> None:
    for seed in range(5):
        memory = Memory(3, seed)
        client = memory.client()
        append(client, 2)
        older = dict(memory.stores[0].items)
        values = append(client, 3)
        memory.stores[0].items = older
        if out is not None:
            memory.stores[out].fault = down
        assert append(memory.client(), 2)[:5] == values


# -- the check


def test_an_attempt_is_void_once_the_members_have_changed(memory: Memory, client: StorePositions) -> None:
    other = memory.client()
    attempt = client.attempt()
    own = entry()
    assert offered(attempt, 0, own) == Chosen(own)
    other.change(with_the_last_down)
    with pytest.raises(Unconfirmed):
        attempt.confirm()
    client.attempt().confirm()  # the next one asks the stores that the register names


def test_a_ballot_of_an_attempt_whose_members_have_changed_accepts_nothing(
    memory: Memory, client: StorePositions
) -> None:
    other = memory.client()
    attempt = client.attempt()
    memory.stores[0].items[key(0)] = Copy(entry())  # so that a ballot is needed
    other.change(with_the_last_down)
    assert isinstance(offered(attempt, 0, entry()), Undecided)
    assert all("accept" not in store.requests[6:] for store in memory.stores[2:])
    assert all(store.items.get(key(0), ABSENT).accepted == "" for store in memory.stores)


def test_an_attempt_is_void_once_the_registry_was_made_anew(memory: Memory, client: StorePositions) -> None:
    other = memory.client()
    attempt = client.attempt()
    append(other, 1)
    other.change(lambda register: replace(register, incarnation=2))
    assert attempt.read({LEDGER: 0})[LEDGER].values
    with pytest.raises(Unconfirmed):
        attempt.confirm()
    assert read_all(client) == []


# -- the register


@SIZES
def test_changes_of_two_clients_are_both_in_the_register(n: int) -> None:
    memory = Memory(n)
    one, other = memory.client(), memory.client()
    one.change(lambda register: with_generation(register, 0, 4))
    other.change(lambda register: with_dropped(register, 0))
    assert one.read_register() == other.read_register()
    register = one.attempt().confirm()
    assert [each.is_dropped for each in register.generations] == [True, False]


def test_a_change_half_written_is_ended_by_who_reads_it(memory: Memory, client: StorePositions) -> None:
    for store in memory.stores[1:]:
        store.fault = lambda request: "down" if request == "accept" else None
    with pytest.raises(RegistryUnavailable):
        client.change(lambda register: with_generation(register, 0, 4))
    memory.mend()
    memory.stores[1].fault = down
    assert len(memory.client().read_register().generations) == 2
    memory.stores[1].fault, memory.stores[0].fault = lambda request: None, down
    assert len(memory.client().read_register().generations) == 2


# -- forgetting


def test_only_ledgers_of_dropped_generations_are_forgotten(memory: Memory, client: StorePositions) -> None:
    append(client, 9)
    with pytest.raises(ValueError, match="0-0"):
        client.forget([LEDGER])
    client.change(lambda register: with_dropped(with_generation(register, 0, 4), 0))
    memory.stores[1].fault = down
    kept = append(client, 1, LedgerId(1, 0))
    client.forget([LEDGER, LedgerId(0, 1)])
    assert [sum(k.ledger == "1.0-0" for k in store.items) for store in memory.stores] == [0, 9, 0]
    assert read_all(client, LedgerId(1, 0)) == kept


def test_two_offers_of_one_client_never_share_a_ballot(memory: Memory, client: StorePositions) -> None:
    """Two values at one ballot could both be chosen by it."""
    memory.stores[0].items[key(0)] = Copy(entry())  # so that a ballot is needed
    ballots = []
    for _ in range(2):
        for store in memory.stores:
            store.fault = lambda request: "lost request" if request == "accept" else None
        assert isinstance(offered(client.attempt(), 0, entry()), Undecided)
        ballots.append({store.items[key(0)].promised for store in memory.stores})
        for store in memory.stores:  # loses the promises: the next ballot counts from 1 again
            store.items[key(0)] = replace(store.items.get(key(0), ABSENT), promised="")
    assert not {one.partition("-")[2] for one in ballots[0]} & {one.partition("-")[2] for one in ballots[1]}


def test_a_store_that_throttles_is_asked_again_to_forget(memory: Memory, client: StorePositions) -> None:
    append(client, 3)
    client.change(lambda register: with_dropped(with_generation(register, 0, 4), 0))
    memory.stores[2].fault = once("throttled", "forget")
    client.forget([LEDGER])
    assert [sum(k.ledger == "1.0-0" for k in store.items) for store in memory.stores] == [0, 0, 0]


@SIZES
def test_the_greatest_sign_of_life_that_a_majority_has_is_told(n: int) -> None:
    memory = Memory(n)
    one, other = memory.client(), memory.client()
    epoch, silent = Epoch("east", 3), Epoch("west", 1)
    for number in (4, 7, 5):
        one.beat(epoch, number)
    memory.take_down((n - 1) // 2)
    assert other.beats([epoch, silent]) == {epoch: 7, silent: 0}
    other.beat(epoch, 8)
    assert one.beats([epoch]) == {epoch: 8}
    assert other.beats([]) == {}


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_majority_that_is_silent_neither_keeps_nor_tells_signs_of_life(n: int) -> None:
    memory = Memory(n)
    client = memory.client()
    memory.take_down(n // 2 + 1)
    with pytest.raises(RegistryUnavailable, match="too few stores of the registry answer for signs of life"):
        client.beat(Epoch("east", 1), 1)
    with pytest.raises(RegistryUnavailable, match="too few stores of the registry answer for signs of life"):
        client.beats([Epoch("east", 1)])


def test_a_store_that_is_just_filled_does_not_count_for_signs_of_life(memory: Memory) -> None:
    client, epoch = memory.client(), Epoch("east", 1)
    client.change(with_the_last_down)
    client.beat(epoch, 1)
    assert sum(len(store.numbers) for store in memory.stores) == 2
    assert client.beats([epoch]) == {epoch: 1}


def test_a_check_asks_each_store_once_for_the_register_and_the_last_entry(
    memory: Memory, client: StorePositions
) -> None:
    values = append(client, 2)
    attempt = client.attempt()
    memory.forget_requests()
    register, lacking = attempt.check({LEDGER: (1, checksum(values[1]))})
    assert (register, lacking) == (client.read_register(), set())
    assert memory.requests.count("ending") <= 3
    assert client.attempt().check({LEDGER: (1, checksum(values[0]))})[1] == {LEDGER}
    assert client.attempt().check({LEDGER: (2, checksum(values[1]))})[1] == {LEDGER}
