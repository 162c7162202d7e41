"""Ledgers broken on purpose: for each rule left out, random schedules catch it, and say what went wrong.

Each test replaces the smallest part of the product that keeps the rule. L11 is in `test_frees`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from photon.registry import appending, closing, fold, generations, id_registry, view
from photon.registry.appending import Make
from photon.registry.entry import NO_TIME_US, Claimant, Claims, Entry, Genesis, LedgerId, Mask
from photon.registry.fold import LedgerState
from photon.registry.holds import Refs
from photon.registry.positions import Positions
from photon.registry.view import Holders, View
from photon.releases import making
from photon.releases.making import Counted
from photon.releases.release import Part, Place, Release
from tests.registry import simulated_releases, test_staged
from tests.registry.in_memory import EAST, PositionsInMemory, claims_of, hashes_of, with_rows
from tests.registry.simulated_world import Table
from tests.registry.simulation import simulate
from tests.simulation.catching import caught_by_story, search

SEEDS = 400
TWO_ROWS = "has two rows"
NOT_ITS_HOLDER = "is a row, and who holds the id is"
NO_ROW = "which has no row of it"
PUT_BACK = "a copy was put back"  # a reader who reads on says so
TWO_WAYS = "are read in two ways"

Patch = pytest.MonkeyPatch


def caught(because: str, first_seed: int = 0) -> None:
    """Search seeds for one that finds the fault. `first_seed`: near one that does, if many before do not."""
    search(simulate, range(first_seed, first_seed + SEEDS), because, "simulation")


# -- appending: L1, L2, L8


def test_a_close_made_for_an_earlier_position_joins_what_has_no_row(monkeypatch: Patch) -> None:  # L1
    right = appending.append

    def made_once(make: Make) -> Make:
        made: list[Entry | None] = []

        def once(state: LedgerState) -> Entry | None:
            made[:] = made or [make(state)]
            return made[0]

        return once

    def append(one: View, positions: Positions, makes: Mapping[LedgerId, Make]) -> set[LedgerId]:
        return right(one, positions, {ledger: made_once(make) for ledger, make in makes.items()})

    monkeypatch.setattr(appending, "append", append)
    monkeypatch.setattr(id_registry, "append", append)
    # Schedules come upon it once in a hundred seeds.
    story = test_staged.test_a_close_is_made_anew_behind_a_claim_that_came_before_it
    caught_by_story(story, r"\(True, True\) != \(False, False\)")


def test_a_later_claim_that_holds_the_id_gives_it_two_rows(monkeypatch: Patch) -> None:  # L2
    def nobody_holds(refs: Refs, state: LedgerState, state_of: fold.StateOf) -> Mask:
        return np.zeros(len(refs.generations), bool)

    def young(self: View, state: LedgerState, claims: Claims) -> Claims:
        return claims.take(claims.times_us >= state.boundary_us)

    monkeypatch.setattr(fold, "still_held", nobody_holds)
    monkeypatch.setattr(View, "still_free", young)
    caught(TWO_ROWS)


def test_an_append_that_is_not_checked_wins_in_a_ledger_that_was_deleted(monkeypatch: Patch) -> None:  # L8
    monkeypatch.setattr(appending, "confirm", lambda one, attempt, states=(): True)
    caught(PUT_BACK)


# -- closing: L3, L4, L9


def a_copy_claims_behind_the_close_of_its_batch() -> None:
    store = PositionsInMemory()
    owner, copy = store.view("owner"), store.view("copy")
    plan = Claimant(EAST, 1, "plan")
    id_registry.claim(owner, store, claims_of(plan, 1))
    closing.close_batches(owner, store, closing.Closing(EAST, 1, with_rows(1)))
    with suppress(id_registry.EpochOver):
        id_registry.claim(copy, store, claims_of(plan, 2))
    view.catch_up(owner, store)
    assert not owner.holders(hashes_of(2)).are_held.any(), "a claim counts behind its close"


def test_claims_that_count_behind_their_close_are_never_closed_again(monkeypatch: Patch) -> None:  # L3
    a_copy_claims_behind_the_close_of_its_batch()
    monkeypatch.setattr(LedgerState, "is_void", lambda state, epoch, batch: False)
    # Schedules come upon it once in a hundred seeds.
    caught_by_story(a_copy_claims_behind_the_close_of_its_batch, "a claim counts behind its close")


def test_a_close_that_frees_nothing_joins_what_has_no_row(monkeypatch: Patch) -> None:  # L4
    monkeypatch.setattr(closing, "_frees", lambda state, epoch, through, rowless: iter(()))
    caught(NO_ROW)


def test_what_is_held_and_not_closed_is_taken_for_a_join(monkeypatch: Patch) -> None:  # L9
    right = View.holders

    def holders(self: View, *columns: Any) -> Holders:
        found = right(self, *columns)
        return replace(found, are_joins=found.are_held)

    monkeypatch.setattr(View, "holders", holders)
    caught(NO_ROW)


# -- generations: L5, L6, L7, L12


def test_a_ledger_that_is_born_without_a_boundary_is_behind_its_parents(
    monkeypatch: Patch,
) -> None:  # L5
    right = appending._genesis

    def genesis(one: View, ledger: LedgerId) -> Genesis:
        return replace(right(one, ledger), boundary_us=0)

    monkeypatch.setattr(appending, "_genesis", genesis)
    caught("is born with a boundary before that of")


def test_claims_behind_a_seal_are_read_in_two_ways(monkeypatch: Patch) -> None:  # L6
    monkeypatch.setattr(LedgerState, "takes_entries", property(lambda state: state.is_open))
    caught(TWO_WAYS, first_seed=60)


def test_a_child_that_does_not_know_who_is_over_lets_them_claim(monkeypatch: Patch) -> None:  # L7
    right = appending._genesis

    def genesis(one: View, ledger: LedgerId) -> Genesis:
        return replace(right(one, ledger), void={})

    monkeypatch.setattr(appending, "_genesis", genesis)
    caught("and not in its child")


def test_a_child_that_takes_void_for_closed_joins_what_has_no_row(monkeypatch: Patch) -> None:  # L7
    right = fold._opened

    def opened(state: LedgerState, genesis: Genesis, state_of: fold.StateOf) -> LedgerState:
        born = right(state, genesis, state_of)
        unclosed = {at: one for at, one in born.unclosed.items() if not born.is_over(one.claimant.epoch)}
        return replace(born, unclosed=unclosed)

    monkeypatch.setattr(fold, "_opened", opened)
    # Schedules come upon it once in a hundred seeds.
    story = test_staged.test_an_epoch_that_one_of_two_parents_closed_is_void_in_their_child_and_no_join
    caught_by_story(story, r"\(True, True\) != \(True, False\)")


def test_a_generation_dropped_by_the_register_s_boundary_takes_holds_of_rows_along(
    monkeypatch: Patch,
) -> None:  # L12
    def below_any_boundary(one: View) -> list[LedgerState]:
        return [replace(state, boundary_us=NO_TIME_US) for state in one.states.values()]

    monkeypatch.setattr(generations, "newest_states", below_any_boundary)
    caught(NOT_ITS_HOLDER)


# -- releases: R1, R2


def test_a_cut_made_before_its_commit_is_synced_loses_rows_with_the_power(monkeypatch: Patch) -> None:  # R2
    def all_that_it_has(table: Table, closed: Place) -> Place:
        return simulated_releases.reached_in(table, table.newest)

    monkeypatch.setattr(simulated_releases, "place_in", all_that_it_has)
    caught("rows up to", first_seed=66)


def test_a_cut_that_takes_a_late_count_goes_back(monkeypatch: Patch) -> None:  # R2
    def as_counted(last: Release, counted: Mapping[str, Counted]) -> dict[str, Part]:
        return {**last.parts, **{name: one.part for name, one in counted.items()}}

    monkeypatch.setattr(making, "_parts", as_counted)
    caught("goes back")


def test_a_generation_that_begins_without_the_last_release_gives_its_number_again(
    monkeypatch: Patch,
) -> None:  # R1
    monkeypatch.setattr(appending, "_last_release", lambda one, ledger: None)
    caught("two releases have number", first_seed=8)
