"""Registries broken on purpose: for each rule left out, something catches it, and says what.

What is replaced is the smallest part of the product, or of the endpoint, that keeps the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from photon.ledger.stores.copies import FAST_BALLOT, Done, NoReply, NoReplyKind
from photon.pipeline.event_key import EventKey
from photon.registry.consensus import decisions
from photon.registry.consensus.acceptor import ABSENT, Promised, Refused, Stored, Unchanged
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    Tombstone,
    datacenter_of,
    decode_value,
    encode_value,
    holder_of,
)
from photon.registry.consensus.quorums import all_of_them
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import Claim, Free, Lost, Unknown, Won
from photon.registry.quorum import clearing, outcomes, proposer, reading, register_store, rounds
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.simulation.catching import caught_by_story
from tests.simulation.catching_registries import (
    ANOTHER_CHOSEN,
    HELD_AFTER_RELEASE,
    TWO_HELD,
    caught_by_exploration,
    caught_by_simulation,
    caught_by_the_checker_of_histories,
)

Patch = pytest.MonkeyPatch


def test_an_insert_that_says_yes_to_everybody_gives_two_winners(monkeypatch: Patch) -> None:  # B1
    right = FaultyStore._insert

    def if_not_exists(self: FaultyStore, insert: Any) -> Done:
        right(self, insert)
        return Done()

    monkeypatch.setattr(FaultyStore, "_insert", if_not_exists)
    caught_by_exploration("two proposers, one endpoint", because="it won, but did not hold the id")
    caught_by_simulation(because="won, but is not chosen")
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_two_that_lose_on_sight_lose_to_each_other(monkeypatch: Patch) -> None:  # B3
    right = decisions.decide_fast

    def lose_on_sight(token: str, replies: Sequence[Any], n: int) -> decisions.FastOutcome:
        for reply in replies:
            value = decode_value(reply.value) if isinstance(reply, Stored) and reply.value else None
            if isinstance(value, Held) and value.token != token:
                return Lost(holder_of(value))
        return right(token, replies, n)

    monkeypatch.setattr(rounds, "decide_fast", lose_on_sight)
    caught_by_exploration("two proposers", because="who did not hold the id at that time")
    caught_by_simulation(because="never chosen")
    caught_by_the_checker_of_histories(because=HELD_AFTER_RELEASE)


def test_joined_on_sight_names_one_who_may_lose(monkeypatch: Patch) -> None:  # B3
    def joined_on_sight(stored: Sequence[Stored], n: int) -> Any:
        values = [decode_value(s.value) for s in stored if s.value is not None]
        return next((holder_of(value) for value in values if not isinstance(value, Tombstone)), None)

    monkeypatch.setattr(reading, "decide_lookup", joined_on_sight)
    caught_by_exploration("a lookup before a commit", because="who did not hold the id at that time")
    caught_by_simulation(because="never chosen")
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_a_fast_quorum_of_a_majority_gives_two_winners(monkeypatch: Patch) -> None:  # B, f
    monkeypatch.setattr(decisions, "fast_quorum", decisions.majority)
    caught_by_exploration(
        "two proposers and a message that is lost or late", because="it won, but did not hold the id"
    )
    caught_by_simulation(because="won, but is not chosen")
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_a_recovery_that_counts_over_all_endpoints_misses_the_winner(monkeypatch: Patch) -> None:  # B4
    right = decisions.recover

    def count_over_all(replies: Sequence[Stored], n: int) -> str | None:
        value = right(replies, n)
        if value is None or any(s.accepted != FAST_BALLOT for s in replies) or value.startswith("C:"):
            return value
        return value if sum(s.value == value for s in replies) >= decisions.fast_quorum(n) else None

    monkeypatch.setattr(rounds, "recover", count_over_all)
    caught_by_exploration("a commit beside another one's release", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_reading_before_preparing_misses_what_came_between(monkeypatch: Patch) -> None:  # B4
    right = rounds.Rounds._prepare

    def read_then_prepare(self: Any, contenders: Any, ballots: Any) -> list[list[Any]]:
        there = self.endpoints.read([contender.item for contender in contenders], all_of_them)
        return [
            [
                Promised(b) if isinstance(a, Promised) and isinstance(b, Stored) else a
                for a, b in zip(*pair, strict=True)
            ]
            for pair in zip(right(self, contenders, ballots), there, strict=True)
        ]

    monkeypatch.setattr(rounds.Rounds, "_prepare", read_then_prepare)
    caught_by_exploration("two proposers", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_ballots_that_are_not_unique_mix_two_proposers(monkeypatch: Patch) -> None:  # B4
    monkeypatch.setattr(Endpoints, "new_proposer", lambda self: "0" * 16)
    monkeypatch.setattr(FaultyStore, "_prepare", _prepare_again)
    caught_by_exploration("two proposers", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories(because=TWO_HELD, first_seed=90)


def _prepare_again(self: FaultyStore, prepare: Any) -> Any:
    """An endpoint that takes an equal ballot for a repetition of the request."""
    now = self.items.get(prepare.key, ABSENT)
    if now.promised > prepare.ballot:
        return Refused(now)
    self.items[prepare.key] = replace(now, promised=prepare.ballot)
    return Promised(now)


def test_an_accept_that_does_not_test_its_ballot_overwrites_a_promise(monkeypatch: Patch) -> None:  # B4
    def accept_all(self: FaultyStore, accept: Any) -> Done:
        now = self.items.get(accept.key, ABSENT)
        promised = max(now.promised, accept.ballot)  # or the fall of the promise alone would be caught
        self.items[accept.key] = Stored(accept.value, max(now.accepted, accept.ballot), promised)
        return Done()

    monkeypatch.setattr(FaultyStore, "_accept", accept_all)
    caught_by_exploration("two proposers", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_a_prepare_that_tests_no_ballot_takes_a_promise_back(monkeypatch: Patch) -> None:  # B4
    def promise_all(self: FaultyStore, prepare: Any) -> Promised:
        now = self.items.get(prepare.key, ABSENT)
        self.items[prepare.key] = replace(now, promised=prepare.ballot)
        return Promised(now)

    monkeypatch.setattr(FaultyStore, "_prepare", promise_all)
    caught_by_exploration("two proposers", because="a promise fell")


def test_an_insert_that_forgets_its_promise_lets_another_one_win_beside_it(monkeypatch: Patch) -> None:  # B4
    right = FaultyStore._insert

    def without_promise(self: FaultyStore, insert: Any) -> Any:
        return right(self, replace(insert, ballot=FAST_BALLOT))

    monkeypatch.setattr(FaultyStore, "_insert", without_promise)
    caught_by_exploration("a commit beside a promise, with endpoints down in turn", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN, first_seed=150)


def test_a_release_that_deletes_forgets_a_promise(monkeypatch: Patch) -> None:  # B5
    right = FaultyStore._accept

    def delete(self: FaultyStore, accept: Any) -> Any:
        reply = right(self, accept)
        if isinstance(reply, Done) and accept.value.startswith("X:"):
            del self.items[accept.key]
        return reply

    monkeypatch.setattr(FaultyStore, "_accept", delete)
    caught_by_exploration("a release before another commit", because="a promise fell")
    caught_by_simulation(because="which it is not")
    caught_by_the_checker_of_histories(because=HELD_AFTER_RELEASE)


def test_a_tombstone_that_forgets_its_token_lets_it_win_again(monkeypatch: Patch) -> None:  # B5
    def commit_anyway(current: str | None, token: str) -> Any:
        value = decode_value(current) if current is not None else Tombstone(())
        return Held(token) if isinstance(value, Tombstone) else value

    for module in (proposer, decisions):
        monkeypatch.setattr(module, "value_to_commit", commit_anyway)
    caught_by_exploration("a commit beside its release", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN)
    caught_by_the_checker_of_histories(because=HELD_AFTER_RELEASE)


def test_a_lost_answer_taken_for_a_loss_is_a_loss_to_oneself(monkeypatch: Patch) -> None:  # B2
    right = decisions.decide_fast

    def duplicate_is_lost(token: str, replies: Sequence[Any], n: int) -> decisions.FastOutcome:
        if any(isinstance(r, Stored) and r.value == encode_value(Held(token)) for r in replies):
            return Lost(holder_of(Held(token)))
        return right(token, replies, n)

    monkeypatch.setattr(rounds, "decide_fast", duplicate_is_lost)
    caught_by_exploration("two proposers, one endpoint", because="lost to itself")
    caught_by_simulation(because="never chosen")
    caught_by_the_checker_of_histories(because="a token lost to itself")


def test_no_answer_taken_for_a_yes_gives_wins_that_are_none(monkeypatch: Patch) -> None:  # B8
    def silence_is_consent(inserted: Sequence[Any], there: Sequence[Any]) -> list[Any]:
        return [there[i] if isinstance(r, Unchanged) else Done() for i, r in enumerate(inserted)]

    monkeypatch.setattr(rounds, "fast_replies", silence_is_consent)
    caught_by_exploration("two proposers, one endpoint", because="it won, but did not hold the id")
    caught_by_simulation(because="won, but is not chosen")
    caught_by_the_checker_of_histories(because=TWO_HELD)


def test_an_unprocessed_key_taken_for_absent_calls_a_held_id_free(monkeypatch: Patch) -> None:  # B8
    def absent_if_unprocessed(acceptor: Any, items: Any) -> list[Any]:
        return [reply if isinstance(reply, Stored) else ABSENT for reply in right(acceptor, items)]

    right = FaultyStore.read
    monkeypatch.setattr(FaultyStore, "read", absent_if_unprocessed)
    acceptor = FaultyStore(ManualClock())
    registry = memory_registry(acceptor, clock=ManualClock())
    keys = [EventKey(f"id-{number}") for number in range(10)]
    registry.commit([Claim(key, "east:e:1#p:1:0") for key in keys])
    acceptor.fail("unprocessed")
    assert Free() in registry.lookup(keys)


def test_an_id_twice_in_one_request_is_refused_as_a_whole(monkeypatch: Patch) -> None:  # B7
    monkeypatch.setattr(proposer, "first_of_each", lambda items: np.arange(len(items)))
    registry = memory_registry(FaultyStore(ManualClock()), clock=ManualClock())
    with pytest.raises(AssertionError, match="one request names an item twice"):
        registry.commit([Claim(EventKey("a"), f"{datacenter}:e:1#p:1:0") for datacenter in ("east", "west")])


def test_a_cleared_copy_that_is_ignored_gives_two_winners_or_none(monkeypatch: Patch) -> None:  # B6
    monkeypatch.setattr(decisions, "is_cleared", lambda text: False)
    caught_by_exploration("clearing", because=ANOTHER_CHOSEN)
    caught_by_simulation(because="with all endpoints up an id stays undecided", first_seed=110)


def test_a_clearing_that_too_few_endpoints_know_of_lets_its_token_in_again(monkeypatch: Patch) -> None:  # B6
    monkeypatch.setattr(clearing._Copies, "are_known_to_few", lambda self, n: False)
    caught_by_exploration(
        "clearing while endpoints are down in turn", because="won again after it was cleared"
    )


def test_a_clearing_that_takes_what_it_will_replace_for_replaced_lets_its_token_in_again(
    monkeypatch: Patch,
) -> None:  # B6
    right = clearing._copies_of

    def all_are_cleared(contender: Any, replies: Sequence[Any]) -> Any:
        copies = right(contender, replies)
        holding = {i for i, r in enumerate(replies) if isinstance(r, Stored) and r.value in copies.held}
        return replace(copies, cleared_at=copies.cleared_at | holding)

    monkeypatch.setattr(clearing, "_copies_of", all_are_cleared)
    caught_by_exploration("clearing while an endpoint falls silent", because="won again after it was cleared")


@pytest.mark.parametrize("kind", ["throttled", "unclear"])
def test_a_clearing_that_takes_an_endpoint_that_answers_for_one_that_is_down_leaves_tokens(
    kind: NoReplyKind, monkeypatch: Patch
) -> None:  # B6
    right = clearing.Clearing._is_to_be_repeated

    def as_if_down(self: Any, replies: Sequence[Any]) -> bool:
        silences = [replace(r, kind="unreachable") for r in replies if getattr(r, "kind", "") == kind]
        answers = [r for r in replies if getattr(r, "kind", "") != kind]
        return right(self, [*answers, *silences])

    def a_clearing_beside_an_endpoint_that_answers_and_does_nothing_at_first() -> None:
        clock = ManualClock()
        acceptors = [FaultyStore(clock) for _ in range(3)]
        registry = memory_registry(*acceptors, clock=clock)
        claims = [Claim(EventKey("a"), "east:e:1#p:1:0")]
        assert registry.commit(claims) == [Won()]
        refused = NoReply("not now", kind)
        answers = iter([[refused]])
        replace_it = acceptors[2].replace
        monkeypatch.setattr(acceptors[2], "replace", lambda batch: next(answers, None) or replace_it(batch))
        registry.clear(claims)
        (left,) = (item for key, item in acceptors[2].items.items() if key.s == "ia")
        assert left.value == "C:east", f"{left.value} is left where an endpoint answered"

    a_clearing_beside_an_endpoint_that_answers_and_does_nothing_at_first()
    monkeypatch.setattr(clearing.Clearing, "_is_to_be_repeated", as_if_down)
    caught_by_story(
        a_clearing_beside_an_endpoint_that_answers_and_does_nothing_at_first, because="is left where"
    )


def test_a_retry_after_clearing_that_is_let_in_is_seen(monkeypatch: Patch) -> None:  # B6
    right = decisions.decide_fast

    def own_datacenter_wins(token: str, replies: Sequence[Any], n: int) -> decisions.FastOutcome:
        outcome = right(token, replies, n)
        if isinstance(outcome, Lost) and outcome.holder == holder_of(Cleared(datacenter_of(token))):
            return Won()
        return outcome

    monkeypatch.setattr(rounds, "decide_fast", own_datacenter_wins)
    caught_by_simulation(because="won, but is not chosen")
    caught_by_the_checker_of_histories(because="an id that was cleared was let in")


def test_a_boundary_that_is_checked_before_the_win_only_lets_old_ids_in(monkeypatch: Patch) -> None:  # C1
    def without_boundary(contender: Any, of_rows: bool) -> Any:
        return contender.verdict or Unknown(contender.reason)

    monkeypatch.setattr(proposer, "outcome_of_commit", without_boundary)
    monkeypatch.setattr(outcomes, "too_old", lambda keys, register: np.zeros(len(keys), bool))
    caught_by_simulation("gc", because="won below the boundary")
    caught_by_the_checker_of_histories("gc", because=TWO_HELD)


def test_a_check_that_is_older_than_the_replies_lets_old_ids_in(monkeypatch: Patch) -> None:  # C1, B11
    right = rounds.Rounds._read_register
    monkeypatch.setattr(rounds.Rounds, "_read_register", lambda self: self.known or right(self))
    caught_by_simulation("gc", because="won below the boundary")
    caught_by_the_checker_of_histories("gc", because=TWO_HELD)


def test_a_horizon_by_each_ones_clock_goes_back(monkeypatch: Patch) -> None:  # C3
    def by_the_clock(register: Any, now_us: int, step_us: int) -> Any:
        return (
            replace(register, horizon_us=now_us + 2 * step_us)
            if register.horizon_us is not None
            else register
        )

    monkeypatch.setattr(register_store, "with_horizon", by_the_clock)
    caught_by_simulation(because="F9: the horizon went back")


def test_an_accept_over_a_cleared_value_brings_its_token_back(monkeypatch: Patch) -> None:  # B6
    def overwrite(self: FaultyStore, accept: Any) -> Any:
        now = self.items.get(accept.key, ABSENT)
        if now.promised > accept.ballot:
            return Refused(now)
        self.items[accept.key] = Stored(accept.value, accept.ballot, accept.ballot)
        return Done()

    monkeypatch.setattr(FaultyStore, "_accept", overwrite)
    caught_by_exploration("clearing beside a zombie", because=ANOTHER_CHOSEN)
    caught_by_simulation(because=ANOTHER_CHOSEN, first_seed=350)
