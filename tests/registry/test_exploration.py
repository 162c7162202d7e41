"""No order of messages breaks a rule of one position; each rule that is left out is found by some order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from photon.registry.stores import decisions, rounds
from photon.registry.stores.asking import ActiveStores
from photon.registry.stores.copies import FAST_BALLOT, Accept, Copy, Done, Insert, NoReply, Prepare, Promised
from photon.registry.stores.decisions import majority
from tests.registry import exploring
from tests.registry.exploration import CASES, LONG_CASES, ORDERS, SAMPLED_CASES, A, B
from tests.registry.exploring import Apply, Case, Request, applied, explore, sample

Patch = pytest.MonkeyPatch
RESERVING = B._replace(reserves=True, timeouts=1)
LATER = B._replace(timeouts=2, after=0)  # it hears too little of what is chosen already


@pytest.mark.parametrize(
    "case",
    [*CASES.values(), *(pytest.param(case, marks=pytest.mark.long) for case in LONG_CASES.values())],
    ids=[*CASES, *LONG_CASES],
)
def test_no_order_of_messages_breaks_a_rule(case: Case) -> None:
    found = explore(case)
    assert found.problem == "", "\n".join(found.way)
    assert found.states > 50


@pytest.mark.long
@pytest.mark.parametrize("case", SAMPLED_CASES.values(), ids=SAMPLED_CASES)
def test_no_random_order_of_messages_of_three_breaks_a_rule(case: Case) -> None:
    found = sample(case, ORDERS, seed=0)
    assert found.problem == "", "\n".join(found.way)
    assert found.states > 10 * ORDERS


def test_random_orders_of_three_find_what_a_ballot_overwrites(monkeypatch: Patch) -> None:  # B4
    monkeypatch.setattr(rounds, "value_to_propose", lambda own, promised, n: own)
    found = sample(SAMPLED_CASES["three offer, and messages are lost or late"], 300, seed=0)
    assert TWO_VALUES in found.problem


def assert_caught(case: Case, because: str, apply: Apply = applied) -> None:
    found = explore(case, apply)
    assert because in found.problem, f"{found.states} states, and: {found.problem or 'nothing is wrong'}"


TWO_VALUES, NOT_CHOSEN = "two values are chosen", "which is not chosen"


# -- stores that do not as they should


def test_an_insert_that_says_yes_to_everybody_is_no_proof() -> None:  # B1
    def apply(copy: Copy | None, request: Request) -> tuple[Copy | None, Any]:
        after, reply = applied(copy, request)
        return after, Done() if isinstance(request, Insert) else reply

    assert_caught(Case((A, B)), NOT_CHOSEN, apply)


def test_an_accept_that_does_not_test_its_ballot_overwrites_a_promise() -> None:  # B4
    def apply(copy: Copy | None, request: Request) -> tuple[Copy | None, Any]:
        if isinstance(request, Accept):
            promised = max(request.ballot, (copy or Copy()).promised)
            return Copy(request.value, request.ballot, promised), Done()
        return applied(copy, request)

    assert_caught(Case((A, B._replace(attempts=2, after=None))), TWO_VALUES, apply)


def test_a_prepare_that_tests_no_ballot_takes_a_promise_back() -> None:  # B4
    def apply(copy: Copy | None, request: Request) -> tuple[Copy | None, Any]:
        if isinstance(request, Prepare):
            before = copy or Copy()
            return replace(before, promised=request.ballot), Promised(before)
        return applied(copy, request)

    assert_caught(Case((A, B)), "a promise fell", apply)


# -- rounds that conclude what they must not


def test_a_fast_quorum_of_a_majority_lets_two_values_be_chosen(monkeypatch: Patch) -> None:  # B3
    monkeypatch.setattr(rounds, "fast_quorum", majority)
    monkeypatch.setattr(decisions, "fast_quorum", majority)
    assert_caught(Case((A, B)), NOT_CHOSEN)


def test_a_value_that_is_taken_for_chosen_on_sight_may_lose(monkeypatch: Patch) -> None:  # B3
    def on_sight(copies: Sequence[Copy], n: int) -> bytes | None:
        return next((copy.value for copy in copies if copy.value is not None), None)

    monkeypatch.setattr(rounds, "chosen", on_sight)
    assert_caught(Case((A, B)), NOT_CHOSEN)


def test_a_ballot_that_proposes_its_own_value_overwrites_what_was_chosen(monkeypatch: Patch) -> None:  # B4
    monkeypatch.setattr(rounds, "value_to_propose", lambda own, promised, n: own)
    assert_caught(Case((A, LATER)), TWO_VALUES)


def test_a_recovery_that_counts_over_all_stores_misses_what_was_chosen(monkeypatch: Patch) -> None:  # B4
    def over_all(promised: Sequence[Copy], n: int) -> bytes | None:
        held = [copy for copy in promised if copy.value is not None]
        highest = max((copy.accepted for copy in held), default=FAST_BALLOT)
        values = [copy.value for copy in held if copy.accepted == highest]
        if highest != FAST_BALLOT:
            return values[0]
        return next((one for one in values if values.count(one) >= decisions.fast_quorum(n)), None)

    def propose(own: bytes, promised: Sequence[Copy], n: int) -> bytes:
        return over_all(promised, n) or own

    monkeypatch.setattr(rounds, "value_to_propose", propose)
    assert_caught(Case((A, LATER)), TWO_VALUES)


def test_who_reserves_and_forgets_what_was_there_overwrites_what_was_chosen(monkeypatch: Patch) -> None:  # B4
    right = exploring.reserved_by

    def forgetful(prepare: Prepare, replies: Sequence[Any], active: ActiveStores) -> rounds.Reserved | None:
        reserved = right(prepare, replies, active)
        return reserved and reserved._replace(copies=[Copy()] * len(reserved.copies))

    monkeypatch.setattr(exploring, "reserved_by", forgetful)
    assert_caught(Case((A, RESERVING)), TWO_VALUES)


def test_a_position_that_a_minority_has_promised_is_not_reserved(monkeypatch: Patch) -> None:  # B4
    def by_one(prepare: Prepare, replies: Sequence[Any], active: ActiveStores) -> rounds.Reserved | None:
        copies = [reply.before for reply in replies if isinstance(reply, Promised)]
        return rounds.Reserved(active, prepare.key, prepare.ballot, [*copies, Copy()]) if copies else None

    monkeypatch.setattr(exploring, "reserved_by", by_one)
    # That a free ballot proposes another's value first is a second line, which saves this one.
    monkeypatch.setattr(rounds, "value_to_propose", lambda own, some, n: decisions.recover(some, n) or own)
    assert_caught(Case((A, RESERVING._replace(timeouts=2))), TWO_VALUES)


def test_no_answer_that_is_taken_for_a_yes_is_no_proof(monkeypatch: Patch) -> None:  # B2, B8
    count: Callable[[Sequence[object]], int] = decisions.count_done

    def with_silence(replies: Sequence[object]) -> int:
        return count(replies) + sum(isinstance(reply, NoReply) for reply in replies)

    monkeypatch.setattr(rounds, "count_done", with_silence)
    assert_caught(Case((A._replace(timeouts=1), B)), NOT_CHOSEN)
