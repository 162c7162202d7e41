"""Repair, collection and resharding broken on purpose: for each rule left out, something catches it.

What is replaced is the smallest part of the product, or of the store, that keeps the rule. Rules that hold
without anybody looking after the registry are in `test_broken_registries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from photon.registry import proposer, refill, rounds, sweep
from photon.registry.acceptor import NoReply
from photon.registry.interface import RegistryUnavailable
from photon.registry.layout import item_key
from photon.registry.register import Members, Register, ShardConfig
from photon.testing import simulated_operators
from photon.testing.simulated_stores import Store
from tests.simulation import repair_stories
from tests.simulation.catching import caught_by_simulation, caught_by_the_checker_of_histories

Patch = pytest.MonkeyPatch


def caught_by(story: Callable[[], None]) -> None:
    """By a story that is told step by step: simulations come upon it too seldom."""
    with pytest.raises(AssertionError) as caught:
        story()
    print(f"caught by {story.__name__}: {caught.value}")


# -- repair


def test_a_wiped_endpoint_that_goes_on_gives_two_winners(monkeypatch: Patch) -> None:  # B9, B10
    def lose_and_go_on(self: Store) -> None:
        self.items.clear()
        self.times.clear()

    monkeypatch.setattr(Store, "lose", lose_and_go_on)
    caught_by_simulation("repair")
    caught_by_the_checker_of_histories("repair")


def test_a_repair_of_a_slot_that_is_in_use_meanwhile_gives_two_winners(
    monkeypatch: Patch,
) -> None:  # B, repair
    def without_marking_down(register: Register, slot: int, incarnation: str) -> Register:
        old = register.members
        incarnations = tuple(incarnation if s == slot else i for s, i in enumerate(old.incarnations))
        return replace(register, members=Members(old.version + 1, incarnations, old.down))

    monkeypatch.setattr(refill, "with_slot_down", without_marking_down)
    caught_by_simulation("repair")
    caught_by_the_checker_of_histories("repair")


def test_replies_from_before_a_repair_that_count_after_it_give_two_winners(monkeypatch: Patch) -> None:  # B11
    monkeypatch.setattr(rounds.Rounds, "_is_of", lambda self, register, began_with: True)
    caught_by(repair_stories.inserts_at_a_store_that_is_gone_and_at_others_after_its_repair)
    caught_by(repair_stories.a_clearing_at_a_store_that_is_gone_and_at_another_one_after_its_repair)
    caught_by(repair_stories.promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair)


def test_a_repair_that_reads_one_endpoint_misses_winners(monkeypatch: Patch) -> None:
    def pages_of_one(self: Any, of_all: bool = False) -> Iterator[Sequence[Any]]:
        source = next(acceptor for acceptor in self._seats.acceptors if acceptor is not None)
        deadline = self._deadline()
        while isinstance(page := source.scan(None, 100), NoReply):
            if not deadline.pause():
                raise RegistryUnavailable(page.reason)
        yield [item for item in page.items if self._is_kept(item)]

    monkeypatch.setattr(refill._Copying, "_pages", pages_of_one)
    caught_by_simulation("repair")


def test_a_repair_that_copies_values_as_they_are_leaves_stores_that_differ(monkeypatch: Patch) -> None:
    def as_it_is(self: Any, items: Sequence[Any], counters: Any, choose: Any) -> list[Any]:
        return [refill._Settled(i, i.stored.promised, i.stored.value) for i in items]

    monkeypatch.setattr(refill._Copying, "_settle_once", as_it_is)
    caught_by_simulation("repair")
    caught_by_the_checker_of_histories("repair")


def test_a_repair_that_passes_over_what_is_only_promised_is_outbid_by_it_later(monkeypatch: Patch) -> None:
    right = refill._Copying._is_kept
    monkeypatch.setattr(
        refill._Copying, "_is_kept", lambda self, item: item.stored.value is not None and right(self, item)
    )
    caught_by(repair_stories.a_promise_whose_accept_arrives_after_the_repair)


def test_a_repair_that_does_not_check_before_it_accepts_undoes_what_was_won(
    monkeypatch: Patch,
) -> None:  # B11
    monkeypatch.setattr(refill._Copying, "_is_confirmed", lambda self: True)
    caught_by(repair_stories.a_repair_that_goes_on_while_another_one_has_taken_its_place)


# -- collection


def test_deleting_before_the_boundary_is_raised_forgets_winners(monkeypatch: Patch) -> None:  # C2
    def raise_it_later(registry: Any, boundary_us: int) -> Register:
        return sweep.with_boundary(registry.register.read(), boundary_us)

    monkeypatch.setattr(simulated_operators, "raise_boundary", raise_it_later)
    monkeypatch.setattr(sweep._Sweep, "_bring_register", lambda self: None)
    caught_by_simulation("collection")
    caught_by_the_checker_of_histories("collection")


def test_a_boundary_that_goes_back_lets_collected_ids_in(monkeypatch: Patch) -> None:  # C2
    monkeypatch.setattr(
        sweep, "with_boundary", lambda register, boundary_us: replace(register, boundary_us=boundary_us)
    )
    assert "F9" in caught_by_simulation("collection")
    caught_by_the_checker_of_histories("collection")


# -- resharding


def test_a_commit_beyond_the_horizon_is_looked_for_elsewhere_later(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(proposer, "_place", lambda key, register: item_key(key, register.configs))
    assert "C3" in caught_by_simulation("resharding")
    caught_by_the_checker_of_histories("resharding")


def test_configs_that_overlap_have_an_id_twice(monkeypatch: Patch) -> None:  # C3
    monkeypatch.setattr(
        simulated_operators,
        "with_shards",
        lambda register, shards: replace(register, configs=(ShardConfig(shards),)),
    )
    assert "C3" in caught_by_simulation("resharding")
    caught_by_the_checker_of_histories("resharding")
