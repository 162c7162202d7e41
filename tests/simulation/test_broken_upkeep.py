"""Repair, gc and resharding broken on purpose: for each rule left out, something catches it.

What is replaced is the smallest part of the product, or of the store, that keeps the rule. Rules that hold
without anybody looking after the registry are in `test_broken_registries`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from photon.registry.consensus.acceptor import Delete, Stored
from photon.registry.consensus.columns import InsertColumn, Mask
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.endpoints.endpoints import ActiveEndpoints
from photon.registry.interface import KeyColumns
from photon.registry.operations import copying, gc, ranges, repair
from photon.registry.quorum import outcomes, proposer, reading, register_store, rounds
from tests.simulation import gc_stories, repair_stories, simulated_operators
from tests.simulation.catching import caught_by_story
from tests.simulation.catching_registries import (
    ANOTHER_CHOSEN,
    TWO_HELD,
    caught_by_simulation,
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
    caught_by_the_checker_of_histories("repair", because=TWO_HELD, first_seed=50)


def test_replies_from_before_a_repair_that_count_after_it_give_two_winners(monkeypatch: Patch) -> None:  # B11
    monkeypatch.setattr(rounds.Rounds, "_is_confirmed_by", lambda self, register, began_with: True)
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


def test_inserts_with_promises_that_are_accepted_unchecked_undo_what_was_won(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # B11
    right_insert, right_confirmed = rounds.Rounds._insert, rounds.Rounds._is_confirmed_by
    unchecked: set[int] = set()  # rounds that have not come to their accepts

    def insert(self: Any, inserts: InsertColumn) -> Any:
        if inserts.ballot:
            unchecked.add(id(self))
        return right_insert(self, inserts)

    def is_confirmed_by(self: Any, register: Any, began_with: ActiveEndpoints) -> bool:
        if id(self) in unchecked:
            unchecked.remove(id(self))
            return True
        return right_confirmed(self, register, began_with)

    monkeypatch.setattr(rounds.Rounds, "_insert", insert)
    monkeypatch.setattr(rounds.Rounds, "_is_confirmed_by", is_confirmed_by)
    caught_by_story(
        repair_stories.inserts_with_promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_what_a_lookup_found_before_a_repair_does_not_count_after_it(monkeypatch: Patch) -> None:  # B11
    monkeypatch.setattr(reading.Reading, "forget", lambda self: None)
    caught_by_story(
        repair_stories.a_lookup_at_a_store_that_is_gone_and_at_others_after_its_repair, because=NOBODY_HAD_WON
    )


def test_members_that_are_the_same_at_the_end_may_have_been_others_in_between(
    monkeypatch: Patch,
) -> None:  # B11
    def same_members(self: Any, register: Any, began_with: ActiveEndpoints) -> bool:
        return isinstance(register, Register) and register.members == began_with.members

    monkeypatch.setattr(rounds.Rounds, "_is_confirmed_by", same_members)
    caught_by_story(repair_stories.members_that_were_never_agreed_on_asked_in_between, because=NOBODY_HAD_WON)


def test_a_repair_that_reads_one_endpoint_misses_winners(monkeypatch: Patch) -> None:
    right = copying.Copying._pages

    def pages_of_one(self: Any, shard: str, after: Any, of_all: bool) -> Any:
        pages = right(self, shard, after, of_all)
        return pages if of_all else {min(pages): pages[min(pages)]}

    monkeypatch.setattr(copying.Copying, "_pages", pages_of_one)
    caught_by_story(
        repair_stories.a_winner_of_whom_one_endpoint_that_is_left_knows, because=LATER_ONE_TOLD_OTHERWISE
    )


def test_a_repair_that_copies_what_one_endpoint_has_makes_a_winner_of_it(monkeypatch: Patch) -> None:
    def of_any(copies: Any, n: int) -> Any:
        return next((copy for copy in copies if copy.stored.value is not None), None)

    monkeypatch.setattr(copying, "settled", of_any)
    caught_by_simulation("repair", because=ANOTHER_CHOSEN, first_seed=220)


def test_a_repair_that_copies_a_value_over_a_later_promise_is_outbid_by_it(monkeypatch: Patch) -> None:
    right = copying.settled

    def without_promises(copies: Any, n: int) -> Any:
        kept = [replace(c, stored=replace(c.stored, promised=c.stored.accepted)) for c in copies]
        return right(kept, n)

    monkeypatch.setattr(copying, "settled", without_promises)
    caught_by_story(
        repair_stories.a_promise_over_a_value_whose_accept_arrives_after_the_repair,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_a_repair_that_passes_over_what_is_only_promised_is_outbid_by_it_later(monkeypatch: Patch) -> None:
    right = copying.Copying._is_kept

    def has_a_value(self: Any, copies: Any) -> bool:
        return any(copy.stored.value is not None for copy in copies) and right(self, copies)

    monkeypatch.setattr(copying.Copying, "_is_kept", has_a_value)
    caught_by_story(
        repair_stories.a_promise_whose_accept_arrives_after_the_repair, because=LATER_ONE_TOLD_OTHERWISE
    )


def test_a_repair_that_does_not_check_before_it_accepts_undoes_what_was_won(
    monkeypatch: Patch,
) -> None:  # B11
    monkeypatch.setattr(copying.Copying, "_is_confirmed", lambda self: True)
    caught_by_story(
        repair_stories.a_repair_that_goes_on_while_another_one_has_taken_its_place,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_a_repair_that_notes_what_it_has_not_copied_yet_misses_winners(monkeypatch: Patch) -> None:
    right = ranges.Ranges._work_on

    def note_first(self: Any, work: Any) -> None:
        def noted(shard: str, after: Any) -> Iterator[Any]:
            self._open[shard] = "~"
            self.note()
            yield from work(shard, after)

        right(self, noted)

    monkeypatch.setattr(ranges.Ranges, "_work_on", note_first)
    caught_by_story(
        repair_stories.a_repair_that_died_goes_on_with_what_it_had_not_copied,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


# -- positions


def forget_open_ranges(monkeypatch: Patch) -> None:
    right = ranges.PositionItem.read
    monkeypatch.setattr(
        ranges.PositionItem,
        "read",
        lambda self, deadline: (found := right(self, deadline)) and replace(found, open={}),
    )


def test_a_repair_that_takes_every_range_that_was_begun_for_done_misses_winners(monkeypatch: Patch) -> None:
    forget_open_ranges(monkeypatch)
    caught_by_story(
        repair_stories.a_repair_that_died_goes_on_with_what_it_had_not_copied,
        because=LATER_ONE_TOLD_OTHERWISE,
    )


def test_a_gc_that_takes_every_range_that_was_begun_for_done_leaves_ids(monkeypatch: Patch) -> None:
    forget_open_ranges(monkeypatch)
    caught_by_story(gc_stories.a_pass_that_died_within_a_shard_and_the_same_again, because="there is still")


def test_a_gc_that_goes_on_where_one_with_another_boundary_was_leaves_ids(monkeypatch: Patch) -> None:  # C2
    class OfAnyWork(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    right = ranges.Ranges.__init__

    def init(self: Any, shards: Any, work: str, *more: Any) -> None:
        right(self, shards, OfAnyWork(work), *more)

    monkeypatch.setattr(ranges.Ranges, "__init__", init)
    caught_by_story(gc_stories.a_pass_that_died_and_one_with_a_later_boundary, because="there is still")


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
    def if_there_is_any(keys: KeyColumns, register: Register) -> Mask:
        return np.full(len(keys), register.boundary_us is not None)

    for module in (proposer, outcomes):
        monkeypatch.setattr(module, "too_old", if_there_is_any)
    caught_by_simulation("gc", because="too old, and no boundary is above it")
    caught_by_the_checker_of_histories("gc", because=REFUSED)


def test_an_id_that_is_beyond_any_horizon_is_lost(monkeypatch: Patch) -> None:  # C3
    def beyond_any(keys: KeyColumns, register: Register) -> Mask:
        return np.full(len(keys), register.horizon_us is not None)

    monkeypatch.setattr(proposer, "beyond_horizon", beyond_any)
    caught_by_simulation("resharding", because="was told that it is beyond the horizon")
    caught_by_the_checker_of_histories("resharding", because=REFUSED)


def test_an_id_that_is_beyond_a_horizon_that_nobody_moves_on_is_lost(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(register_store, "with_horizon", lambda register, now_us, step_us: register)
    caught_by_simulation("resharding", because="was told that it is beyond the horizon")
    caught_by_the_checker_of_histories("resharding", because=REFUSED)


# -- resharding


def test_a_commit_beyond_the_horizon_is_looked_for_elsewhere_later(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(proposer, "beyond_horizon", lambda keys, register: np.zeros(len(keys), bool))
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
