"""Sequences of events that broke drafts of the ledgers' rules, each told again (L1 to L12).

Stories of stores are told with the stores: a view made while an endpoint is down, one position made twice
with other bytes, a copy with a bad checksum, a writer that sleeps through a repair. Stories of a start and of
refill are told with the dispatcher and the operations too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from photon.registry import closing, epochs
from photon.registry.appending import append, open_ledger, seal
from photon.registry.closing import Closing, Rowless, close_batches, close_of, end_epoch
from photon.registry.entry import FOR_EVER, Claimant, Entry, LedgerId
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import EpochOver, claim
from photon.registry.register import with_generation
from photon.registry.view import View, catch_up
from tests.registry.in_memory import (
    EAST,
    LEFT,
    RIGHT,
    WEST,
    PositionsInMemory,
    before_the_next,
    claims_of,
    hashes_of,
    held_and_joined,
    held_by,
    with_rows,
)
from tests.support.crashes import SimulatedCrash, raise_simulated_crash
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

FIRST, SECOND = Claimant(EAST, 1, "plan 1"), Claimant(EAST, 2, "plan 2")
OTHER = Claimant(WEST, 1, "plan of west")


def append_close(view: View, store: PositionsInMemory, ledger: LedgerId, through: int, rows: Rowless) -> None:
    """Append one close in one ledger, as somebody does who dies behind it."""
    append(view, store, {ledger: lambda state: close_of(state, EAST, through, rows)})


# -- a process that sleeps, and copies


@pytest.mark.parametrize("ledgers_after", [None, 1, 3], ids=["no roll", "merged", "split"])
def test_a_sleeper_claims_where_its_batch_was_never_closed_and_the_next_close_frees_that(
    ledgers_after: int | None,
) -> None:
    store = PositionsInMemory(2)
    owner, sleeper = store.view("owner"), store.view("a copy that slept")
    claim(owner, store, claims_of(FIRST, LEFT))
    close_batches(owner, store, Closing(EAST, 1, with_rows(LEFT)))  # the left ledger only
    if ledgers_after is not None:
        roll(owner, store, ledgers_after)
    assert held_by(claim(sleeper, store, claims_of(FIRST, RIGHT)), FIRST) == [True]
    claim(owner, store, claims_of(SECOND, 13))
    close_batches(owner, store, Closing(EAST, 2, with_rows(LEFT, 13)))
    assert held_and_joined(owner, LEFT, RIGHT, 13) == [(True, True), (False, False), (True, True)]
    west = store.view("west")
    catch_up(west, store)
    assert held_by(claim(west, store, claims_of(OTHER, RIGHT)), OTHER) == [True]


def test_a_close_is_made_anew_behind_a_claim_that_came_before_it() -> None:
    store = PositionsInMemory()
    owner, clone = store.view("owner"), store.view("clone")
    claim(owner, store, claims_of(FIRST, 1))
    before_the_next(store, "offer", lambda: claim(clone, store, claims_of(FIRST, 2)))
    close_batches(owner, store, Closing(EAST, 1, with_rows(1)))
    assert held_and_joined(owner, 1, 2) == [(True, True), (False, False)]


def test_a_clone_does_not_claim_again_what_the_first_part_of_a_close_has_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "MOST_FREES", 1)
    store, ledger = PositionsInMemory(), LedgerId(0, 0)
    owner, clone = store.view("owner"), store.view("clone")
    claim(owner, store, claims_of(FIRST, 1, 2, 3))
    append_close(owner, store, ledger, 1, with_rows(3))
    catch_up(clone, store)
    with pytest.raises(EpochOver):
        claim(clone, store, claims_of(FIRST, 1, 2, 3))
    close_batches(owner, store, Closing(EAST, 1, with_rows(3)))
    assert held_and_joined(owner, 1, 2, 3) == [(False, False), (False, False), (True, True)]


def test_nothing_is_a_join_before_the_last_part_of_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "MOST_FREES", 2)
    store, ledger = PositionsInMemory(), LedgerId(0, 0)
    owner, reader = store.view("owner"), store.view("reader")
    ids = tuple(range(9))
    claim(owner, store, claims_of(FIRST, *ids))
    for freed in (2, 4):
        append_close(owner, store, ledger, 1, with_rows(*ids[5:]))
        catch_up(reader, store)
        assert held_and_joined(reader, *ids) == [(False, False)] * freed + [(True, False)] * (9 - freed)
    append_close(owner, store, ledger, 1, with_rows(*ids[5:]))
    catch_up(reader, store)
    assert held_and_joined(reader, *ids) == [(False, False)] * 5 + [(True, True)] * 4


# -- epochs that end


def test_an_epoch_that_one_of_two_parents_closed_is_void_in_their_child_and_no_join() -> None:
    store = PositionsInMemory(2)
    owner, survivor = store.view("owner"), store.view("survivor")
    claim(owner, store, claims_of(FIRST, LEFT, RIGHT, 13))
    append_close(survivor, store, LedgerId(0, 0), FOR_EVER, with_rows(LEFT, 13))
    roll(survivor, store, 1)
    assert held_and_joined(survivor, LEFT, RIGHT, 13) == [(True, True), (True, False), (True, False)]
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, 14))
    end_epoch(survivor, store, EAST, with_rows(LEFT, 13))
    assert held_and_joined(survivor, LEFT, RIGHT, 13) == [(True, True), (False, False), (True, True)]


@pytest.mark.parametrize("ledgers_after", [None, 1, 3], ids=["no roll", "merged", "split"])
def test_who_dies_halfway_through_ending_an_epoch_leaves_it_to_the_next(ledgers_after: int | None) -> None:
    store = PositionsInMemory(2)
    owner, survivor, another = (store.view(name) for name in ("owner", "survivor", "another"))
    claim(owner, store, claims_of(FIRST, LEFT, RIGHT))
    append_close(survivor, store, LedgerId(0, 0), FOR_EVER, with_rows())
    if ledgers_after is not None:
        roll(another, store, ledgers_after)
    catch_up(another, store)
    assert another.is_over(EAST)
    assert held_and_joined(another, LEFT, RIGHT) == [(False, False), (True, False)]
    end_epoch(another, store, EAST, with_rows())
    assert held_and_joined(another, LEFT, RIGHT) == [(False, False)] * 2
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, 13))


def test_an_epoch_that_ended_before_any_ledger_was_open_claims_in_none() -> None:
    store = PositionsInMemory(2)
    survivor, owner = View(store.register, "survivor"), View(store.register, "owner, which slept")
    end_epoch(survivor, store, EAST, with_rows())
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, LEFT, RIGHT))


def test_an_epoch_is_ended_in_ledgers_too_that_were_opened_and_orphaned_while_it_was() -> None:
    """The survivor appends to a ledger that is dropped, and has not read yet that it has children."""
    store = PositionsInMemory()
    east, survivor = store.view("east"), store.view("survivor")
    another = store.view("another, which rolls and collects")

    def others_are_faster() -> None:
        roll(another, store, 2)
        raise_boundary(another, store, 101)
        assert drop(another, store) == [0]

    before_the_next(store, "offer", others_are_faster)
    end_epoch(survivor, store, EAST, with_rows())
    with pytest.raises(EpochOver):
        claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=200))


# -- generations


def test_a_ledger_whose_parents_were_put_back_to_before_their_seals_is_refused() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT))
    roll(east, store, 1)
    del store.values[LedgerId(0, 1)][-1]
    with pytest.raises(RegistryMismatch, match="ledger 1-0 is open, and its parents have no end"):
        catch_up(View(store.register, "new"), store)


def test_a_seal_behind_which_the_register_knows_of_no_generation_is_refused() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    seal(east, store, LedgerId(0, 1))
    with pytest.raises(RegistryMismatch, match="knows of no next one"):
        claim(east, store, claims_of(FIRST, RIGHT))


def test_two_rollers_with_different_numbers_open_one_generation() -> None:
    store = PositionsInMemory()
    one, other = store.view("one"), store.view("other")
    before_the_next(store, "change", partial(roll, other, store, 3))
    assert roll(one, store, 2) == 1
    assert [each.ledgers for each in store.register.generations] == [1, 3]
    assert one.states.keys() == other.states.keys()
    assert all(state.is_open for state in one.states.values())


def test_a_ledger_that_was_announced_before_a_boundary_is_born_with_what_its_parents_have() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    store.change(lambda register: with_generation(register, 0, 1))
    raise_boundary(east, store, 101)
    child = LedgerId(1, 0)
    assert not east.states[child].is_open
    open_ledger(east, store, child)
    assert east.states[child].boundary_us == 101
    assert claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100)).are_too_old.all()


def test_a_generation_stays_while_a_sealed_ledger_without_the_boundary_has_no_open_child() -> None:
    """Otherwise the child would be born without the boundary, and give its ids away a second time."""
    store = PositionsInMemory(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    roll(east, store, 2)
    view = store.view("a roller that dies")
    catch_up(view, store)
    store.change(lambda register: with_generation(register, 1, 2))
    seal(view, store, LedgerId(1, 1))
    collector = store.view("a collector that has come to one ledger")
    catch_up(collector, store)
    append(collector, store, {LedgerId(1, 0): lambda state: Entry(boundary_us=101)})
    assert drop(collector, store) == []
    open_ledger(view, store, LedgerId(2, 1))
    found = claim(view, store, claims_of(OTHER, RIGHT, time_us=100))
    assert held_by(found, FIRST) == [True]


def test_items_that_a_collector_left_and_those_that_came_late_go_with_the_next_collection() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    roll(east, store, 1)
    raise_boundary(east, store, 101)
    before_the_next(store, "forget", raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        drop(east, store)
    assert {ledger.generation for ledger in store.values} == {0, 1}
    for _ in range(2):
        assert drop(east, store) == []
        assert {ledger.generation for ledger in store.values} == {1}
        store.values[LedgerId(0, 1)] = [b"an insert that came late"]


def test_readers_from_before_and_after_a_drop_agree_on_what_is_claimed_later() -> None:
    store = PositionsInMemory(2)
    east, before = store.view("east"), store.view("reads before the drop, and after it")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    roll(east, store, 1)
    claim(east, store, claims_of(SECOND, 13, time_us=200))
    raise_boundary(east, store, 101)
    catch_up(before, store)
    assert drop(east, store) == [0]
    later = claims_of(OTHER, LEFT, RIGHT, 13, time_us=150)
    west = store.view("west")
    assert held_by(claim(west, store, later), OTHER) == [True, True, False]
    after = View(store.register, "knows nothing of before")
    for view in (before, after):
        catch_up(view, store)
        assert held_by(view.holders(later.hashes), OTHER) == [True, True, False]
        assert held_by(view.holders(later.hashes), SECOND) == [False, False, True]


def test_who_inserts_into_a_ledger_that_was_deleted_learns_from_its_check_that_it_won_nothing() -> None:
    store = PositionsInMemory(2)
    east, sleeper = store.view("east"), store.view("sleeps through the drop")
    claim(east, store, claims_of(FIRST, LEFT, time_us=100))
    roll(east, store, 1)
    raise_boundary(east, store, 101)
    assert drop(east, store) == [0]
    found = claim(sleeper, store, claims_of(OTHER, RIGHT, 13, time_us=100))
    assert held_by(found, OTHER) == [False, False]
    assert found.are_too_old.all()
    assert sleeper.states.keys() == {LedgerId(1, 0)}


def test_entries_that_were_read_before_a_drop_do_not_count_when_the_check_comes_behind_it() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(1)))
    reader = View(store.register, "reads entries, then the register")

    def others_collect() -> None:
        roll(east, store, 1)
        raise_boundary(east, store, 101)
        assert drop(east, store) == [0]

    before_the_next(store, "confirm", others_collect)
    catch_up(reader, store)
    found = reader.holders(hashes_of(1), np.array([100]))
    assert (found.are_held.tolist(), found.are_too_old.tolist()) == ([False], [True])


# -- starts, signs of life, copies that are put back


def test_who_won_before_a_refill_and_slept_through_it_starts_again() -> None:
    ledgers = MemoryLedgers()
    east = memory_registry(ledgers, "east")
    epoch = epochs.begin_epoch(east, "east", 0, "table")
    plan = Claimant(epoch, 1, "plan")
    assert east.claim(claims_of(plan, 1)).are_of(plan).all()
    ledgers.change(lambda register: replace(register, is_refilling=True))
    with pytest.raises(RegistryUnavailable, match="are being put back"):
        east.claim(claims_of(plan, 2))
    ledgers.change(lambda register: replace(register, incarnation=2, is_refilling=False))
    with pytest.raises(RegistryMismatch, match="was made anew"):
        east.claim(claims_of(plan, 3))
