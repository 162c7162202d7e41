"""No order of messages breaks a rule of one position; each rule that is left out is found by some order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from photon.registry.stores import decisions, rounds
from photon.registry.stores.asking import ActiveStores
from photon.registry.stores.copies import FAST_BALLOT, Accept, Copy, Done, Insert, NoReply, Prepare, Promised
from photon.registry.stores.decisions import majority
from tests.registry import exploration
from tests.registry.exploration import Apply, Case, Offerer, Request, applied, explore

Patch = pytest.MonkeyPatch
A, B, C = (Offerer(value) for value in (b"a", b"b", b"c"))
CASES: dict[str, Case] = {
    "two offer": Case((A, B)),
    "one of two crashes": Case((A._replace(crashes=1), B)),
    "one knows of a silent store": Case((A, B._replace(lacks_stores=True))),
    "one has reserved the position": Case((A, B._replace(reserves=True))),
    "one alone tries again and again": Case((A._replace(attempts=2, timeouts=3),)),
    "one offers behind another, and hears too little": Case((A, B._replace(timeouts=2, after=0))),
}
LONG_CASES: dict[str, Case] = {
    "one of two tries again": Case((A._replace(attempts=2), B)),
    "one of two goes on early": Case((A._replace(early=1), B)),
    "a message is lost or late": Case((A._replace(timeouts=1), B)),
    "one knows of a silent store, and a message is lost": Case(
        (A, B._replace(lacks_stores=True, timeouts=1))
    ),
    "two know of a silent store": Case(
        (A._replace(lacks_stores=True, timeouts=1), B._replace(lacks_stores=True))
    ),
    "one who knows of a silent store goes on early": Case(
        (A._replace(lacks_stores=True, early=1), B._replace(lacks_stores=True))
    ),
    "one reserves, and a message is lost or late": Case((A, B._replace(reserves=True, timeouts=1))),
    "two reserve": Case((A._replace(reserves=True, timeouts=1), B._replace(reserves=True))),
    "one reserves, and goes on early": Case((A._replace(attempts=2), B._replace(reserves=True, early=1))),
    "two over five stores": Case((A, B), n=5),
    "two offer, and a third once the first is done": Case((A, B, C._replace(after=0))),
}
RESERVING = B._replace(reserves=True, timeouts=1)
LATER = B._replace(timeouts=2, after=0)  # hears too little of the value that is chosen already


@pytest.mark.parametrize(
    "case",
    [*CASES.values(), *(pytest.param(case, marks=pytest.mark.long) for case in LONG_CASES.values())],
    ids=[*CASES, *LONG_CASES],
)
def test_no_order_of_messages_breaks_a_rule(case: Case) -> None:
    found = explore(case)
    assert found.problem == "", "\n".join(found.way)
    assert found.states > 50


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


# -- rounds that conclude what they must not


def test_a_fast_quorum_of_a_majority_lets_two_values_be_chosen(monkeypatch: Patch) -> None:  # B3
    monkeypatch.setattr(rounds, "fast_quorum", majority)
    monkeypatch.setattr(decisions, "fast_quorum", majority)
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
    right = exploration.reserved_by

    def forgetful(prepare: Prepare, replies: Sequence[Any], active: ActiveStores) -> rounds.Reserved | None:
        reserved = right(prepare, replies, active)
        return reserved and reserved._replace(copies=[Copy()] * len(reserved.copies))

    monkeypatch.setattr(exploration, "reserved_by", forgetful)
    assert_caught(Case((A, RESERVING)), TWO_VALUES)


def test_a_position_that_a_minority_has_promised_is_not_reserved(monkeypatch: Patch) -> None:  # B4
    def by_one(prepare: Prepare, replies: Sequence[Any], active: ActiveStores) -> rounds.Reserved | None:
        copies = [reply.before for reply in replies if isinstance(reply, Promised)]
        return rounds.Reserved(active, prepare.key, prepare.ballot, [*copies, Copy()]) if copies else None

    monkeypatch.setattr(exploration, "reserved_by", by_one)
    # A free ballot proposes another's value first, which alone would prevent the fault: leave that out too.
    monkeypatch.setattr(rounds, "value_to_propose", lambda own, some, n: decisions.recover(some, n) or own)
    assert_caught(Case((A, RESERVING._replace(timeouts=2))), TWO_VALUES)


def test_no_answer_that_is_taken_for_a_yes_is_no_proof(monkeypatch: Patch) -> None:  # B2, B8
    count: Callable[[Sequence[object]], int] = decisions.count_done

    def with_silence(replies: Sequence[object]) -> int:
        return count(replies) + sum(isinstance(reply, NoReply) for reply in replies)

    monkeypatch.setattr(rounds, "count_done", with_silence)
    assert_caught(Case((A._replace(timeouts=1), B)), NOT_CHOSEN)
