"""Registries broken on purpose that harm only clients far away from each other: each is caught, and by what.

See `tests.simulation.test_broken_registries`.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from photon.clock import microseconds
from photon.ledger.stores.deadline import Deadline
from photon.registry.consensus.layout import Held, holder_of
from photon.registry.consensus.quorums import all_of_them
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import Lost, Won
from photon.registry.quorum import outcomes, proposer, rounds
from photon.registry.quorum.proposer import QuorumRegistry
from photon.registry.quorum.register_store import RegisterStore
from tests.simulation.catching import caught_by_story, search
from tests.simulation.catching_registries import TWO_HELD
from tests.simulation.distant_simulation import SETTINGS, simulate
from tests.unit import test_registry_quorum, test_registry_slow_endpoint

Patch = pytest.MonkeyPatch

SEEDS = range(30)


def caught_at_a_distance(because: str, only_history: bool = False) -> None:
    """By the rules and bounds of the simulation of clients far away, in one of the first seeds."""
    search(lambda seed: simulate(seed, only_history, over_requests=False), SEEDS, because, "clients far away")


def test_a_horizon_that_every_call_moves_and_waits_for_holds_clients_up(monkeypatch: Patch) -> None:  # B12
    def move_it(self: RegisterStore, now_us: int) -> Any:
        wanted_us = now_us + 2 * self._horizon_step_us
        return self.change(lambda now: replace(now, horizon_us=max(now.horizon_us or 0, wanted_us)))

    def move_now(self: QuorumRegistry) -> None:
        self._rounds.known = self.register.advance_horizon(self.clock.now_us())

    monkeypatch.setattr(RegisterStore, "advance_horizon", move_it)
    monkeypatch.setattr(QuorumRegistry, "_move_horizon_in_background", move_now)
    two_steps = 2 * microseconds(SETTINGS.horizon_step)
    monkeypatch.setattr(QuorumRegistry, "_draw_lead", lambda self: two_steps)
    caught_at_a_distance(because="half of the calls took more than")


class TimeOfDay:
    """A clock that takes the time of day for the time that has elapsed."""

    def __init__(self, clock: Any) -> None:
        self.elapsed_us = clock.now_us
        self.sleep = clock.sleep


def test_deadlines_by_the_time_of_day_end_calls_when_a_clock_is_set(monkeypatch: Patch) -> None:  # B15
    def by_the_time_of_day(self: Deadline, clock: Any, *others: Any, **more: Any) -> None:
        right(self, TimeOfDay(clock), *others, **more)

    right = Deadline.__init__
    monkeypatch.setattr(Deadline, "__init__", by_the_time_of_day)
    caught_at_a_distance(because="ended unknown")


def test_a_second_claim_of_a_call_that_wins_beside_the_first_is_two_winners(monkeypatch: Patch) -> None:  # B7
    def wins_too(leader: str, outcome: Any, token: str) -> Any:
        return outcome if isinstance(outcome, Won) else right(leader, outcome, token)

    right = outcomes.outcome_of_follower
    monkeypatch.setattr(proposer, "outcome_of_follower", wins_too)
    caught_at_a_distance(because="won, but is not chosen")
    caught_at_a_distance(because=TWO_HELD, only_history=True)


def test_the_same_claim_twice_in_a_call_that_loses_to_itself_is_seen(monkeypatch: Patch) -> None:  # B16
    def loses(leader: str, outcome: Any, token: str) -> Any:
        return Lost(holder_of(Held(leader))) if isinstance(outcome, Won) else right(leader, outcome, token)

    right = outcomes.outcome_of_follower
    monkeypatch.setattr(proposer, "outcome_of_follower", loses)
    caught_at_a_distance(because="a token lost to itself")


def test_proposers_that_do_not_pause_outbid_each_other(monkeypatch: Patch) -> None:  # B15
    def go_on_at_once(self: Deadline, outbid: bool = False) -> bool:
        return self._clock.elapsed_us() < self._end_us

    monkeypatch.setattr(Deadline, "pause", go_on_at_once)
    caught_at_a_distance(because="ended unknown")


def test_a_token_whose_epoch_nobody_looks_for_wins_after_it_is_over(monkeypatch: Patch) -> None:  # B18
    monkeypatch.setattr(proposer, "fenced", lambda tokens, register: {})
    monkeypatch.setattr(outcomes, "fenced", lambda tokens, register: {})
    monkeypatch.setattr(outcomes, "fenced_epoch", lambda token, register: None)
    caught_at_a_distance(because="its epoch was over")


def test_a_round_that_waits_for_every_endpoint_is_held_up_by_one(monkeypatch: Patch) -> None:  # B13
    right = Endpoints.ask

    def wait_for_all(
        self: Endpoints, send: Any, requests: Any, size: int, _: Any, *more: Any, **kw: Any
    ) -> Any:
        return right(self, send, requests, size, all_of_them, *more, **kw)

    class AwaitedInVain(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert super().wait(0.2), "a call waits for the slowest endpoint"
            return True

    monkeypatch.setattr(Endpoints, "ask", wait_for_all)
    monkeypatch.setattr(test_registry_slow_endpoint.threading, "Event", AwaitedInVain)
    story = test_registry_slow_endpoint.test_a_slow_endpoint_holds_up_neither_commits_nor_lookups
    caught_by_story(story, because="a call waits for the slowest endpoint")


def test_a_throttled_insert_that_is_left_to_a_ballot_writes_more(monkeypatch: Patch) -> None:  # B14
    monkeypatch.setattr(rounds, "throttled_inserts", lambda inserted, n: {})
    writes = "test_of_three_endpoints_that_throttle_30_percent_each_is_asked_for_1_6_writes_an_id_at_most"
    caught_by_story(getattr(test_registry_quorum, writes), because="<= 1.6")
