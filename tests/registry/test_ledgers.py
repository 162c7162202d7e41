"""Stories of two datacenters show how ledgers are read (rules L2 to L12)."""

from __future__ import annotations

import numpy as np
import pytest

from photon.registry.appending import append
from photon.registry.closing import Closing, close_batches, close_of, end_epoch
from photon.registry.entry import Claimant, Entry
from photon.registry.errors import RegistryMismatch
from photon.registry.form import encode
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import EpochOver, claim
from photon.registry.register import with_boundary
from photon.registry.view import View, catch_up
from tests.registry.in_memory import EAST, WEST, PositionsInMemory, claims_of, hashes_of, held_by, with_rows
from tests.support.claims import claims_for

FIRST, SECOND = Claimant(EAST, 1, "plan 1"), Claimant(EAST, 2, "plan 2")
OTHER = Claimant(WEST, 1, "plan of west")


def test_the_first_claim_holds_an_id_and_the_second_learns_who_does() -> None:
    store = PositionsInMemory(2)
    east, west = store.view("east"), store.view("west")
    assert held_by(claim(east, store, claims_of(FIRST, 1, 9)), FIRST) == [True, True]
    found = claim(west, store, claims_of(OTHER, 9, 10))
    assert held_by(found, OTHER) == [False, True]
    assert held_by(found, FIRST) == [True, False]


def test_a_hold_is_a_join_once_its_batch_is_closed_and_free_if_it_has_no_row() -> None:
    store = PositionsInMemory()
    east, west = store.view("east"), store.view("west")
    claim(east, store, claims_of(FIRST, 1, 2))
    assert not east.holders(hashes_of(1, 2)).are_joins.any()
    close_batches(east, store, Closing(EAST, 1, with_rows(1)))
    catch_up(west, store)
    found = west.holders(hashes_of(1, 2))
    assert found.are_joins.tolist() == [True, False]
    assert found.are_held.tolist() == [True, False]
    assert held_by(claim(west, store, claims_of(OTHER, 2)), OTHER) == [True]


def test_an_epoch_that_is_ended_claims_nothing_in_any_ledger_nor_in_children() -> None:
    store = PositionsInMemory(2)
    east, west = store.view("east"), store.view("west")
    end_epoch(west, store, EAST, with_rows())
    with pytest.raises(EpochOver):
        claim(east, store, claims_of(FIRST, 1))
    roll(west, store, 3)
    with pytest.raises(EpochOver):
        claim(east, store, claims_of(FIRST, 1, 6, 12))


def test_what_one_parent_closed_and_the_other_did_not_stays_two_facts_in_their_child() -> None:
    """The claims are one entry of the grandparent: the child has it from both of its parents."""
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1, 12))
    roll(east, store, 2)
    # A closer dies halfway: the left parent alone is closed.
    left = store.register.ledgers(1)[0]
    append(east, store, {left: lambda state: close_of(state, EAST, 1, with_rows(1, 12))})
    roll(east, store, 1)
    assert east.holders(hashes_of(1, 12)).are_joins.tolist() == [True, False]
    close_batches(east, store, Closing(EAST, 1, with_rows(1)))
    found = east.holders(hashes_of(1, 12))
    assert (found.are_joins.tolist(), found.are_held.tolist()) == ([True, False], [True, False])


def test_an_id_below_the_boundary_is_too_old_unless_somebody_holds_it() -> None:
    store = PositionsInMemory()
    east, west = store.view("east"), store.view("west")
    claim(east, store, claims_of(FIRST, 1, time_us=100))
    raise_boundary(west, store, 101)
    found = claim(west, store, claims_of(OTHER, 1, 2, time_us=100))
    assert found.are_too_old.tolist() == [False, True]
    assert held_by(found, FIRST) == [True, False]


def test_a_generation_below_the_boundary_is_dropped_and_its_ids_are_too_old() -> None:
    store = PositionsInMemory(2)
    east, west = store.view("east"), store.view("west")
    claim(east, store, claims_of(FIRST, 1, 9, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(1, 9)))
    roll(east, store, 1)
    claim(east, store, claims_of(SECOND, 3, time_us=200))
    raise_boundary(east, store, 101)
    assert drop(east, store) == [0]
    assert not [ledger for ledger in store.values if ledger.generation == 0]
    for view in (east, west, View(store.register, "a new one")):
        catch_up(view, store)
        found = view.holders(hashes_of(1, 9, 3), np.array([100, 100, 200]))
        assert found.are_too_old.tolist() == [True, True, False]
        assert found.are_held.tolist() == [False, False, True]


def test_a_registry_that_was_put_back_is_not_read_on() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1))
    position = east.states[store.register.ledgers(0)[0]].next_position
    ledger = store.register.ledgers(0)[0]
    del store.values[ledger][position - 1 :]
    other = View(store.register, "another, which knows nothing of it")
    catch_up(other, store)
    claim(other, store, claims_of(OTHER, 2))
    claim(other, store, claims_of(Claimant(WEST, 2, "next"), 3))
    with pytest.raises(RegistryMismatch, match=f"the last entry of ledger {ledger} is gone"):
        catch_up(east, store)


def test_claims_that_are_too_many_for_an_entry_take_several() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    chance = np.random.default_rng(1)
    claims = claims_for(FIRST, chance.integers(0, 2**64, (20_000, 2), dtype=np.uint64))
    found = claim(east, store, claims)
    assert found.are_of(FIRST).all()
    assert all(len(values) > 2 for values in store.values.values())
    close_batches(east, store, Closing(EAST, 1, lambda at, one: np.ones(len(one.hashes), bool)))
    assert not east.holders(claims.hashes).are_held.any()


def test_a_registry_that_lost_its_last_entry_is_refused_though_nothing_stands_behind_it() -> None:
    store = PositionsInMemory()
    ledger = store.register.ledgers(0)[0]
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1))
    del store.values[ledger][-1]
    with pytest.raises(RegistryMismatch, match=f"the last entry of ledger {ledger} is gone"):
        catch_up(east, store)
    claim(store.view("west"), store, claims_of(OTHER, 1))
    with pytest.raises(RegistryMismatch, match=f"the last entry of ledger {ledger} is gone"):
        catch_up(east, store)


def test_who_appends_behind_an_entry_that_is_gone_is_refused() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1))
    ledger = store.register.ledgers(0)[0]
    store.values[ledger][-1] = encode(Entry("somebody else"))
    with pytest.raises(RegistryMismatch, match="is gone"):
        claim(east, store, claims_of(SECOND, 2))


def test_a_register_that_was_put_back_alone_is_refused_by_the_ledgers_of_later_generations() -> None:
    store = PositionsInMemory()
    before = store.register
    east = store.view("east")
    roll(east, store, 2)
    store.decided.register = before
    with pytest.raises(RegistryMismatch, match="its register has gone back"):
        catch_up(east, store)
    fresh = View(store.register, "fresh")
    catch_up(fresh, store)
    with pytest.raises(RegistryMismatch, match="generation 0 is sealed"):
        claim(fresh, store, claims_of(OTHER, 1))
    with pytest.raises(RegistryMismatch, match="was opened in another generation"):
        roll(fresh, store, 3)


def test_what_was_won_below_a_boundary_that_rose_meanwhile_is_too_old() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claims = claims_of(FIRST, 1, time_us=100)
    assert not claim(east, store, claims).are_too_old.any()
    store.decided.register = with_boundary(store.register, 101)
    catch_up(east, store)
    assert claim(east, store, claims).are_too_old.all()
