"""Turns at appending: who loses position after position asks, and the others wait a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from photon.registry.appending import LOST_IN_A_ROW
from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.id_registry import IdRegistry, claim
from photon.registry.positions import Chosen, Offer, Tail
from photon.registry.register import Register, with_epoch, with_given_up
from photon.registry.turns import TURN_SECONDS, Turns, ask_for_turn
from photon.registry.view import View
from tests.registry.in_memory import EAST, WEST, PositionsInMemory, claims_of
from tests.support.manual_clock import ManualClock
from tests.support.memory_ledgers import MemoryLedgers


def with_epochs(*datacenters: str) -> Register:
    register = MemoryLedgers().register
    for name in datacenters:
        register, _ = with_epoch(register, name)
    return register


BOTH = with_epochs("east", "west")


def waited_seconds(turns: Turns) -> float:
    clock = ManualClock()
    began_us = clock.elapsed_us()
    turns.give(clock)
    return (clock.elapsed_us() - began_us) / 1_000_000


@pytest.fixture
def ledgers() -> MemoryLedgers:
    return MemoryLedgers()


def test_who_is_asked_waits_once(ledgers: MemoryLedgers) -> None:
    east = Turns(ledgers)
    east.look("east", BOTH)
    ask_for_turn(ledgers, "west")
    east.look("east", BOTH)
    assert [waited_seconds(east), waited_seconds(east)] == [TURN_SECONDS, 0.0]
    east.look("east", BOTH)
    assert waited_seconds(east) == 0.0


def test_what_was_asked_before_the_first_look_counts_no_more(ledgers: MemoryLedgers) -> None:
    east = Turns(ledgers)
    ask_for_turn(ledgers, "west")
    east.look("east", BOTH)
    assert waited_seconds(east) == 0.0
    ask_for_turn(ledgers, "west")  # another process of it goes on from its count
    east.look("east", BOTH)
    assert waited_seconds(east) == TURN_SECONDS


def test_nobody_waits_for_itself_or_for_who_was_given_up(ledgers: MemoryLedgers) -> None:
    east, retired = Turns(ledgers), with_given_up(BOTH, "west", False)
    for register in (BOTH, retired):
        east.look("east", register)
    ask_for_turn(ledgers, "east")
    ask_for_turn(ledgers, "west")
    east.look("east", retired)
    assert waited_seconds(east) == 0.0


def test_turns_ask_nothing_where_there_is_one_datacenter_and_fail_nobody_while_stores_are_away(
    ledgers: MemoryLedgers,
) -> None:
    turns = Turns(ledgers)
    turns.look("east", with_epochs("east"))
    assert ledgers.calls["beats"] == 0
    ledgers.is_away = True
    turns.look("east", BOTH)
    ask_for_turn(ledgers, "east")
    assert waited_seconds(turns) == 0.0


class NearOne(PositionsInMemory):
    """Somebody near takes each position just before the next offers come, so often."""

    left = 0
    is_undecided = False  # at its end there is always something that a reader can't judge

    def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Tail]:
        tails = super().read(first)
        if not self.is_undecided:
            return tails
        return {one: replace(tail, ending="undecided") for one, tail in tails.items()}

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen]:
        if self.left:
            left, self.left = self.left, 0
            claim(self.near, self, claims_of(Claimant(EAST, left, f"plan {left}"), 100 + left))
            self.left = left - 1
        return super().offer(offers)

    def begin(self) -> None:
        self.near: View = self.view("near")


@pytest.mark.parametrize("losses", [LOST_IN_A_ROW - 1, LOST_IN_A_ROW])
def test_who_loses_some_positions_in_a_row_asks_for_a_turn(losses: int) -> None:
    store = NearOne()
    store.begin()
    far = IdRegistry(store, store.view("far"))
    store.left = losses
    assert far.claim(claims_of(Claimant(WEST, 1, "plan"), 1)).are_held.all()
    asked = store.decided.beats.get(Epoch("west", 0), 0)
    assert asked == int(losses == LOST_IN_A_ROW)


def test_a_start_settles_each_ledger_once_however_fast_another_one_appends() -> None:
    store = NearOne()
    store.begin()
    far = IdRegistry(store, store.view("far"))
    store.left, store.is_undecided = 50, True
    far.catch_up()
    assert store.left == 49  # far settled nothing itself: somebody else was faster
