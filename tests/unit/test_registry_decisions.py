"""What replies mean, for 1, 3 and 5 endpoints: the table of protocol B, rule by rule."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from photon.ledger.stores.copies import Done
from photon.ledger.stores.decisions import ballot, fast_quorum, majority
from photon.registry.consensus.acceptor import ABSENT, Stored
from photon.registry.consensus.decisions import (
    NeedsBallot,
    TooFewReplies,
    chosen_value,
    decide_fast,
    decide_lookup,
    next_counter,
    recover,
    value_to_commit,
    value_to_release,
    verdict_of,
)
from photon.registry.consensus.layout import Cleared, Held, Tombstone, encode_value, fast_value
from photon.registry.interface import Holder, Lost, Released, Won

OWN, OTHER = "east:e:1#p:1:0", "west:e:1#p:1:0"
A, B = fast_value(OWN), fast_value(OTHER)
CLEARED = encode_value(Cleared("west"))
FIRST, SECOND = ballot(1, "0" * 16), ballot(2, "0" * 16)


def fast(value: str) -> Stored:
    return Stored(value)


def classic(value: str, at: str) -> Stored:
    return Stored(value, accepted=at, promised=at)


# -- quorums and ballots


@pytest.mark.parametrize(("n", "q", "f"), [(1, 1, 1), (3, 2, 3), (5, 3, 4)])
def test_quorums_are_those_of_the_protocol(n: int, q: int, f: int) -> None:
    assert (majority(n), fast_quorum(n)) == (q, f)


def test_a_ballot_sorts_by_its_counter_and_any_ballot_is_above_the_fast_round() -> None:
    assert "" < ballot(9, "f" * 16) < ballot(10, "0" * 16) < ballot(10, "0" * 15 + "1")


def test_ballots_sort_as_their_counters_do() -> None:
    counters = [1, 9, 10, 11, 99, 100, 999_999_999, 10**12]
    ballots = [ballot(counter, "0" * 16) for counter in counters]
    assert ballots == sorted(ballots)
    assert [next_counter([Stored(promised=b)]) for b in ballots] == [counter + 1 for counter in counters]


def test_the_next_ballot_is_above_all_that_were_promised_or_accepted() -> None:
    seen = [ABSENT, classic(A, ballot(4, "a" * 16)), Stored(promised=ballot(7, "b" * 16))]
    assert (next_counter(seen), next_counter([])) == (8, 1)


# -- fast round (B2, B3)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_fast_quorum_of_inserts_wins_and_one_less_does_not(n: int) -> None:
    f = fast_quorum(n)
    assert decide_fast(OWN, [Done()] * f, n) == Won()
    assert (
        decide_fast(OWN, [fast(A), *[Done()] * (f - 1)], n) == Won()
    )  # inserted before, the answer got lost
    assert decide_fast(OWN, [Done()] * (f - 1), n) != Won()


RELEASED_OTHER = encode_value(Tombstone((OTHER,)))
RELEASED_BOTH = encode_value(Tombstone((OTHER, OWN)))


@pytest.mark.parametrize(
    ("replies", "n", "outcome"),
    [
        # Too few answers say nothing.
        ([], 1, TooFewReplies()),
        ([Done()], 3, TooFewReplies()),
        ([Done(), Done()], 5, TooFewReplies()),
        # Nothing is chosen, or nothing that shows.
        ([classic(A, FIRST)], 1, NeedsBallot()),
        ([Stored(promised=FIRST)], 1, NeedsBallot()),
        ([fast(B), fast(B), Done()], 3, NeedsBallot()),
        ([classic(B, FIRST), classic(B, SECOND), fast(B)], 3, NeedsBallot()),
        ([classic(RELEASED_OTHER, FIRST)], 1, NeedsBallot()),
        # Another value is chosen: a fast quorum, a majority at one ballot, or one cleared copy.
        ([fast(B)] * 4, 5, Lost(Holder("west", OTHER))),
        ([classic(B, FIRST), classic(B, FIRST), Done()], 3, Lost(Holder("west", OTHER))),
        ([fast(CLEARED), fast(B), Done()], 3, Lost(Holder("west", None))),
        # The end of a token.
        ([classic(RELEASED_BOTH, FIRST)], 1, Released()),
    ],
)
def test_a_fast_round_decides_only_what_its_replies_prove(
    replies: list[Done | Stored], n: int, outcome: object
) -> None:
    assert decide_fast(OWN, replies, n) == outcome


# -- lookup (B3, B8)


@pytest.mark.parametrize(
    ("replies", "n", "holder"),
    [
        ([ABSENT], 1, None),
        ([fast(B)], 1, Holder("west", OTHER)),
        ([classic(B, FIRST)], 1, Holder("west", OTHER)),
        ([fast(CLEARED)], 1, Holder("west", None)),
        ([classic(encode_value(Tombstone((OTHER,))), FIRST)], 1, None),
        ([Stored(promised=FIRST)], 1, None),
        ([fast(B), fast(B), ABSENT], 3, None),
        ([fast(B), fast(B)], 3, None),
        ([classic(B, FIRST), classic(B, FIRST)], 3, Holder("west", OTHER)),
        ([], 1, TooFewReplies()),
        ([fast(B)], 3, TooFewReplies()),
    ],
)
def test_a_lookup_names_a_holder_only_if_he_is_chosen(
    replies: list[Stored], n: int, holder: Holder | TooFewReplies | None
) -> None:
    assert decide_lookup(replies, n) == holder


# -- recovery (B4, B6), exhaustively


@pytest.mark.parametrize("n", [1, 3, 5])
def test_any_majority_recovers_what_a_fast_round_has_chosen(n: int) -> None:
    for stored in product([ABSENT, fast(A), fast(B)], repeat=n):
        chosen = [value for value in (A, B) if stored.count(fast(value)) >= fast_quorum(n)]
        for size in range(majority(n), n + 1):
            for replies in combinations(stored, size):
                if chosen:
                    assert recover(replies, n) == chosen[0], (stored, replies)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_at_most_one_value_can_have_been_chosen_by_a_fast_round(n: int) -> None:
    # Two values above the threshold would have no right answer.
    for replies in range(majority(n), n + 1):
        assert 2 * (replies + fast_quorum(n) - n) > replies


@pytest.mark.parametrize("n", [3, 5])
def test_any_majority_recovers_what_a_classic_round_has_chosen(n: int) -> None:
    possible = [ABSENT, fast(A), fast(B), classic(B, FIRST), classic(A, SECOND)]
    for stored in product(possible, repeat=n):
        if stored.count(classic(A, SECOND)) < majority(n):
            continue
        for replies in combinations(stored, majority(n)):
            assert recover(replies, n) == A, (stored, replies)


@pytest.mark.parametrize("n", [3, 5])
def test_a_chosen_value_that_some_endpoints_have_cleared_is_recovered_as_cleared_or_held(n: int) -> None:
    for stored in product([ABSENT, fast(B), fast(CLEARED), fast(A)], repeat=n):
        copies = stored.count(fast(B)) + stored.count(fast(CLEARED))
        if copies < fast_quorum(n):
            continue
        for size in range(majority(n), n + 1):
            for replies in combinations(stored, size):
                expected = CLEARED if fast(CLEARED) in replies else B
                assert recover(replies, n) == expected, (stored, replies)


def test_a_value_counts_over_the_real_number_of_replies() -> None:
    # 3 of 4 replies may be a fast quorum of 4 of 5; 3 of 5 can't be.
    assert recover([fast(A)] * 3 + [fast(B)], 5) == A
    assert recover([fast(A)] * 3 + [fast(B)] * 2, 5) is None


def test_the_highest_ballot_beats_any_number_of_older_copies() -> None:
    assert recover([classic(A, SECOND), classic(B, FIRST), classic(B, FIRST)], 5) == A


def test_the_cleared_copy_beats_the_token_at_the_same_ballot() -> None:
    assert recover([classic(B, FIRST), classic(CLEARED, FIRST)], 3) == CLEARED


def test_what_is_proven_chosen_is_what_any_majority_recovers() -> None:
    possible = [ABSENT, fast(A), fast(B), classic(A, FIRST)]
    for stored in product(possible, repeat=3):
        value = chosen_value(stored, 3)
        if value is not None:
            for replies in combinations(stored, 2):
                assert recover(replies, 3) == value, (stored, replies)


# -- what is proposed (B5)


def test_a_commit_takes_a_free_id_and_one_that_another_token_left() -> None:
    assert value_to_commit(None, OWN) == Held(OWN)
    assert value_to_commit(encode_value(Tombstone((OTHER,))), OWN) == Held(OWN, (OTHER,))


@pytest.mark.parametrize("value", [Held(OTHER), Held(OWN), Cleared("west"), Tombstone((OWN,))])
def test_a_commit_leaves_every_other_value_as_it_is(value: Held | Cleared | Tombstone) -> None:
    assert value_to_commit(encode_value(value), OWN) == value


@pytest.mark.parametrize(
    ("current", "proposed"),
    [
        (None, Tombstone((OWN,))),
        (Held(OWN), Tombstone((OWN,))),
        (Held(OWN, (OTHER,)), Tombstone((OTHER, OWN))),
        (Tombstone((OTHER,)), Tombstone((OTHER, OWN))),
        (Tombstone((OWN, OTHER)), Tombstone((OTHER, OWN))),
        (Held(OTHER), Held(OTHER)),
        (Cleared("east"), Cleared("east")),
    ],
)
def test_a_release_leaves_a_tombstone_that_remembers_every_released_token(
    current: Held | Cleared | Tombstone | None, proposed: Held | Cleared | Tombstone
) -> None:
    assert value_to_release(encode_value(current) if current else None, OWN) == proposed


def test_a_chosen_value_says_who_won() -> None:
    assert verdict_of(Held(OWN), OWN) == Won()
    assert verdict_of(Held(OTHER), OWN) == Lost(Holder("west", OTHER))
    assert verdict_of(Cleared("east"), OWN) == Lost(Holder("east", None))
    assert verdict_of(Tombstone((OWN,)), OWN) == Released()
