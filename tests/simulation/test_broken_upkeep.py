"""Repair, gc and resharding broken on purpose: for each rule left out, something catches it.

What is replaced is the smallest part of the product, or of the store, that keeps the rule. Rules that hold
without anybody looking after the registry are in `test_broken_registries`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Delete, Stored
from photon.registry.consensus.layout import item_key
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.endpoints.endpoints import ActiveEndpoints
from photon.registry.interface import BeyondHorizon
from photon.registry.operations import gc, repair
from photon.registry.quorum import proposer, register_store, rounds
from tests.simulation import gc_stories, repair_stories, simulated_operators
from tests.simulation.catching import (
    ANOTHER_CHOSEN,
    TWO_HELD,
    caught_by_simulation,
    caught_by_story,
    caught_by_the_checker_of_histories,
)
from tests.simulation.simulated_stores import Store

Patch = pytest.MonkeyPatch
REFUSED = "an event was refused without cause"
NOBODY_HAD_WON = "was told, and nobody had won"
LATER_ONE_TOLD_OTHERWISE = "one who came later was told"


# -- repair


def test_a_wiped_endpoint_that_goes_on_gives_two_winners(monkeypatch: Patch) -> None:  # B9, B10
    def lose_and_go_on(self: Store) -> None:
        self.items.clear()
        self.times.clear()

    monkeypatch.setattr(Store, "lose", lose_and_go_on)
    caught_by_simulation("repair", because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories("repair", because=TWO_HELD)


def test_a_repair_of_a_slot_that_is_in_use_meanwhile_gives_two_winners(
    monkeypatch: Patch,
) -> None:  # B, repair
    def without_marking_down(register: Register, slot: int, incarnation: str) -> Register:
        old = register.members
        incarnations = tuple(incarnation if s == slot else i for s, i in enumerate(old.incarnations))
        return replace(register, members=Members(old.version + 1, incarnations, old.down))

    monkeypatch.setattr(repair, "with_slot_down", without_marking_down)
    caught_by_simulation("repair", because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories("repair", because=TWO_HELD)


def test_replies_from_before_a_repair_that_count_after_it_give_two_winners(monkeypatch: Patch) -> None:  # B11
    monkeypatch.setattr(rounds.Rounds, "_is_of", lambda self, register, began_with: True)
    caught_by_story(
        repair_stories.inserts_at_a_store_that_is_gone_and_at_others_after_its_repair,
        because=LATER_ONE_TOLD_OTHERWISE,
    )
    caught_by_story(
        repair_stories.a_clearing_at_a_store_that_is_gone_and_at_another_one_after_its_repair,
        because="was cleared, and was told",
    )
    caught_by_story(
        repair_stories.promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_a_round_that_does_not_check_between_prepare_and_accept_undoes_what_was_won(
    monkeypatch: Patch,
) -> None:  # B11
    right_classic, right_check = rounds.Rounds.classic, rounds.Rounds.check
    unchecked: set[int] = set()  # rounds that have not come to their accepts

    def classic(self: Any, *arguments: Any, **more: Any) -> None:
        unchecked.add(id(self))
        right_classic(self, *arguments, **more)

    def check(self: Any, contenders: Any, began_with: Any) -> Any:
        if id(self) not in unchecked:
            return right_check(self, contenders, began_with)
        unchecked.remove(id(self))
        return self.known

    monkeypatch.setattr(rounds.Rounds, "classic", classic)
    monkeypatch.setattr(rounds.Rounds, "check", check)
    caught_by_story(
        repair_stories.promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_what_a_lookup_found_before_a_repair_does_not_count_after_it(monkeypatch: Patch) -> None:  # B11
    class NeverForgets(dict[Any, Any]):
        def clear(self) -> None:
            """What other members said stays."""

    monkeypatch.setattr(
        proposer, "holders_of", lambda items: rounds.Reading(items, rounds.decide_lookup, NeverForgets())
    )
    caught_by_story(
        repair_stories.a_lookup_at_a_store_that_is_gone_and_at_others_after_its_repair, because=NOBODY_HAD_WON
    )


def test_members_that_are_the_same_at_the_end_may_have_been_others_in_between(
    monkeypatch: Patch,
) -> None:  # B11
    def same_members(self: Any, register: Register, began_with: ActiveEndpoints) -> bool:
        return register.members == began_with.members

    monkeypatch.setattr(rounds.Rounds, "_is_of", same_members)
    caught_by_story(repair_stories.members_that_were_never_agreed_on_asked_in_between, because=NOBODY_HAD_WON)


def test_a_repair_that_reads_one_endpoint_misses_winners(monkeypatch: Patch) -> None:
    right = repair._Copying._pages

    def pages_of_one(self: Any, of_all: bool = False) -> Iterator[Sequence[Any]]:
        one = next(acceptor for acceptor in self._active.acceptors if acceptor is not None)
        copying = copy.copy(self)
        if not of_all:
            copying._active = replace(self._active, acceptors=(one,))
        return right(copying, of_all)

    monkeypatch.setattr(repair._Copying, "_pages", pages_of_one)
    caught_by_story(
        repair_stories.a_winner_of_whom_one_endpoint_that_is_left_knows, because=LATER_ONE_TOLD_OTHERWISE
    )


def test_a_repair_that_copies_values_as_they_are_leaves_stores_that_differ(monkeypatch: Patch) -> None:
    def as_it_is(self: Any, items: Sequence[Any], counters: Any) -> list[Any]:
        return [repair._Chosen(i, i.stored.promised, i.stored.value) for i in items]

    monkeypatch.setattr(repair._Copying, "_identity_round", as_it_is)
    caught_by_simulation("repair", because="F13: after a repair stores differ")


def test_a_repair_that_passes_over_what_is_only_promised_is_outbid_by_it_later(monkeypatch: Patch) -> None:
    right = repair._Copying._is_kept
    monkeypatch.setattr(
        repair._Copying, "_is_kept", lambda self, item: item.stored.value is not None and right(self, item)
    )
    caught_by_story(
        repair_stories.a_promise_whose_accept_arrives_after_the_repair, because=LATER_ONE_TOLD_OTHERWISE
    )


def test_a_repair_that_does_not_check_before_it_accepts_undoes_what_was_won(
    monkeypatch: Patch,
) -> None:  # B11
    monkeypatch.setattr(repair._Copying, "_is_confirmed", lambda self: True)
    caught_by_story(
        repair_stories.a_repair_that_goes_on_while_another_one_has_taken_its_place,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


# -- gc


def test_deleting_before_the_boundary_is_raised_forgets_winners(monkeypatch: Patch) -> None:  # C2
    def raise_it_later(registry: Any, boundary_us: int) -> Register:
        return gc.with_boundary(registry.register.read(), boundary_us)

    monkeypatch.setattr(simulated_operators, "raise_boundary", raise_it_later)
    monkeypatch.setattr(gc._EndpointPass, "_ask_for_boundary", lambda self, keys: [Stored()])
    caught_by_simulation("gc", because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories("gc", because=TWO_HELD)


def test_a_boundary_that_goes_back_lets_deleted_ids_in(monkeypatch: Patch) -> None:  # C2
    monkeypatch.setattr(
        gc, "with_boundary", lambda register, boundary_us: replace(register, boundary_us=boundary_us)
    )
    caught_by_simulation("gc", because="F9: a boundary went back")
    caught_by_the_checker_of_histories("gc", because=TWO_HELD)


def test_a_deletion_that_takes_whatever_is_there_forgets_who_came_since(monkeypatch: Patch) -> None:  # C2
    monkeypatch.setattr(gc, "Delete", lambda key, time: Delete(key))
    caught_by_story(
        gc_stories.an_id_without_a_time_that_is_registered_anew_before_it_is_deleted,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


# -- refusals: an event that is refused without cause is lost


def test_an_id_that_is_too_old_for_any_boundary_is_lost(monkeypatch: Patch) -> None:  # C1
    monkeypatch.setattr(proposer, "is_too_old", lambda key, register: register.boundary_us is not None)
    caught_by_simulation("gc", because="too old, and no boundary is above it")
    caught_by_the_checker_of_histories("gc", because=REFUSED)


def test_an_id_that_is_beyond_any_horizon_is_lost(monkeypatch: Patch) -> None:  # C3
    right = proposer._place

    def beyond_any(key: EventKey, register: Register) -> Any:
        return right(key, register) if register.horizon_us is None else BeyondHorizon()

    monkeypatch.setattr(proposer, "_place", beyond_any)
    caught_by_simulation("resharding", because="was told that it is beyond the horizon")
    caught_by_the_checker_of_histories("resharding", because=REFUSED)


def test_an_id_that_is_beyond_a_horizon_that_nobody_moves_on_is_lost(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(register_store, "with_horizon", lambda register, now_us, step_us: register)
    caught_by_simulation("resharding", because="was told that it is beyond the horizon")
    caught_by_the_checker_of_histories("resharding", because=REFUSED)


# -- resharding


def test_a_commit_beyond_the_horizon_is_looked_for_elsewhere_later(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(proposer, "_place", lambda key, register: item_key(key, register.configs))
    caught_by_simulation("resharding", because="won beyond the horizon")
    caught_by_the_checker_of_histories("resharding", because=TWO_HELD)


def test_configs_that_overlap_have_an_id_twice(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(
        simulated_operators,
        "with_shards",
        lambda register, shards: replace(register, configs=(ShardConfig(shards),)),
    )
    caught_by_simulation("resharding", because="C3: ids below the horizon")
    caught_by_the_checker_of_histories("resharding", because=TWO_HELD)
