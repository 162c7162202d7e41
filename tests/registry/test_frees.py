"""Frees of what is closed name claims, and free what these still hold and nothing else (rule L11)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from photon.registry import fold
from photon.registry.appending import append
from photon.registry.closing import Closing, close_batches
from photon.registry.entry import Claimant, Entry, Free, LedgerId
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.holds import Holds
from photon.registry.id_registry import claim
from photon.registry.view import View, catch_up
from tests.registry.in_memory import EAST, WEST, PositionsInMemory, claims_of, hashes_of, with_rows
from tests.simulation.catching import caught_by_story

FIRST, OTHER = Claimant(EAST, 1, "plan"), Claimant(WEST, 1, "plan of west")
FIRST_LEDGER = LedgerId(0, 0)
CLAIMED_AT = 1  # the position behind the genesis


@dataclass
class Scene:
    """East has claimed ids 1 and 2, and closed the first of them, if `is_closed`."""

    store: PositionsInMemory
    east: View
    west: View

    def free(self, ledger: LedgerId, *ids: int) -> None:
        """Have east free the ids that its claims hold, in this ledger."""
        frees = (Free(FIRST_LEDGER, CLAIMED_AT, hashes_of(*ids)),)
        append(self.east, self.store, {ledger: lambda state: Entry(frees=frees)})
        catch_up(self.west, self.store)

    def west_wins(self, *ids: int) -> list[bool]:
        won: list[bool] = claim(self.west, self.store, claims_of(OTHER, *ids)).are_of(OTHER).tolist()
        return won


def scene(is_closed: bool = True) -> Scene:
    store = PositionsInMemory()
    east, west = store.view("east"), store.view("west")
    claim(east, store, claims_of(FIRST, 1, 2))
    if is_closed:
        close_batches(east, store, Closing(EAST, 1, with_rows(1, 2)))
    catch_up(west, store)
    return Scene(store, east, west)


def test_a_join_that_is_freed_is_won_by_the_next_claim() -> None:
    one = scene()
    one.free(FIRST_LEDGER, 1)
    assert one.west_wins(1, 2) == [True, False]


def test_a_free_of_a_child_counts_for_what_was_claimed_in_its_parent() -> None:
    one = scene()
    roll(one.east, one.store, 1)
    one.free(LedgerId(1, 0), 1)
    assert one.west_wins(1, 2) == [True, False]


def a_free_that_comes_late_leaves_the_next_holder_alone() -> None:
    one = scene()
    one.free(FIRST_LEDGER, 1)
    one.west_wins(1)
    close_batches(one.west, one.store, Closing(WEST, 1, with_rows(1)))
    one.free(FIRST_LEDGER, 1)
    assert one.west.holders(hashes_of(1)).are_of(OTHER).all(), "a free took the id from its next holder"


def test_a_free_that_comes_late_leaves_the_next_holder_alone() -> None:
    a_free_that_comes_late_leaves_the_next_holder_alone()


def test_what_is_not_closed_yet_is_left_to_its_close() -> None:
    one = scene(is_closed=False)
    one.free(FIRST_LEDGER, 1)
    assert one.west.holders(hashes_of(1, 2)).are_of(FIRST).all()


def test_a_ledger_frees_nothing_of_another_one_s_range() -> None:
    one = scene()
    roll(one.east, one.store, 2)
    one.free(LedgerId(1, 1), 1)  # id 1 is in the range of the first
    assert one.west.holders(hashes_of(1)).are_of(FIRST).all()


def test_frees_that_name_a_dropped_ledger_are_passed_over() -> None:
    one = scene()
    roll(one.east, one.store, 1)
    raise_boundary(one.east, one.store, 101)
    assert drop(one.east, one.store) == [0]
    later = claims_of(OTHER, 1, time_us=200)
    catch_up(one.west, one.store)
    claim(one.west, one.store, later)
    one.free(LedgerId(1, 0), 1)
    assert one.west.holders(later.hashes).are_of(OTHER).all()


# -- without the rule


def test_frees_that_do_not_look_who_holds_take_an_id_from_its_next_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # L11
    def free(state: fold.LedgerState, at: fold.ClaimsAt, hashes: fold.Hashes, holds: Holds) -> None:
        holds.free(state.ledger.generation, hashes)

    monkeypatch.setattr(fold, "_free", free)
    caught_by_story(a_free_that_comes_late_leaves_the_next_holder_alone, "took the id from its next holder")
