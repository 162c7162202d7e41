"""Views, appending and rolling over stores: what ledgers need of positions, with one of three stores down."""

from __future__ import annotations

import pytest

from photon.registry.appending import open_ledger
from photon.registry.entry import Claimant
from photon.registry.generations import roll
from photon.registry.id_registry import claim
from photon.registry.stores.positions import StorePositions
from photon.registry.view import View, catch_up
from tests.registry.in_memory import EAST, WEST, claims_of, hashes_of
from tests.registry.store_backends import Memory, damaged, down, key

FIRST, OTHER = Claimant(EAST, 1, "plan 1"), Claimant(WEST, 1, "plan of west")


def view_of(positions: StorePositions, writer: str) -> View:
    view = View(positions.read_register(), writer)
    for ledger in view.register.ledgers(0):
        open_ledger(view, positions, ledger)
    return view


@pytest.mark.parametrize("out", [0, 1, 2, None])
def test_two_datacenters_claim_over_three_stores_of_which_one_may_be_down(out: int | None) -> None:
    memory = Memory(3)
    east_store, west_store = memory.client(), memory.client()
    east, west = view_of(east_store, "east"), view_of(west_store, "west")
    if out is not None:
        memory.stores[out].fault = down
    assert claim(east, east_store, claims_of(FIRST, 1, 9)).are_of(FIRST).all()
    found = claim(west, west_store, claims_of(OTHER, 9, 10))
    assert found.are_of(OTHER).tolist() == [False, True]
    assert found.are_of(FIRST).tolist() == [True, False]


def test_a_roll_goes_over_stores_and_a_new_view_finds_what_was_held_before() -> None:
    memory = Memory(3)
    store = memory.client()
    east = view_of(store, "east")
    claim(east, store, claims_of(FIRST, 1, 2, 9))
    roll(east, store, 3)
    memory.stores[1].fault = down
    other_store = memory.client()
    other = View(other_store.read_register(), "west")
    found = claim(other, other_store, claims_of(OTHER, 1, 2, 9, 11))
    assert found.are_of(FIRST).tolist() == [True, True, True, False]


def test_a_copy_that_rots_takes_no_claim_away() -> None:
    memory = Memory(3)
    store = memory.client()
    east = view_of(store, "east")
    claim(east, store, claims_of(FIRST, 1))
    claim(east, store, claims_of(FIRST, 2))
    rotten = memory.stores[0].items[key(1)]
    assert rotten.value is not None
    memory.stores[0].items[key(1)] = type(rotten)(damaged(rotten.value))
    other_store = memory.client()
    other = View(other_store.read_register(), "west")
    catch_up(other, other_store)
    assert other.holders(hashes_of(1, 2)).are_of(FIRST).all()
