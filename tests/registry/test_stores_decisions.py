"""Copies prove the value of a position, and pages the entries of a ledger."""

from __future__ import annotations

import itertools

import pytest

from photon.registry.form import checksum, predecessor
from photon.registry.stores.copies import ABSENT, Copy, Done, NoReply, Page, Promised, Refused
from photon.registry.stores.decisions import (
    ballot,
    chosen,
    counter_above,
    fast_quorum,
    is_voted,
    majority,
    recover,
    value_to_propose,
)
from photon.registry.stores.reading import Intact, JudgedPage, walk
from tests.registry.store_backends import entry

A, B = b"value a", b"value b"
LOW, HIGH = ballot(9, "0" * 16), ballot(10, "0" * 16)
SILENT = NoReply("silent")


@pytest.mark.parametrize(("n", "fast", "classic"), [(1, 1, 1), (3, 3, 2), (5, 4, 3)])
def test_inserts_choose_by_a_fast_quorum_and_ballots_by_a_majority(n: int, fast: int, classic: int) -> None:
    assert chosen([Copy(A)] * fast, n) == A
    assert fast == 1 or chosen([Copy(A)] * (fast - 1), n) is None
    assert chosen([Copy(A, LOW, LOW)] * classic, n) == A
    assert classic == 1 or chosen([Copy(A, LOW, LOW)] * (classic - 1), n) is None


def test_copies_at_two_ballots_prove_nothing_together() -> None:
    assert chosen([Copy(A, LOW, LOW), Copy(A, HIGH, HIGH), ABSENT], 3) is None
    assert chosen([Copy(A), Copy(A), Copy(A, LOW, LOW)], 3) is None


def test_a_promise_made_since_does_not_undo_a_choice() -> None:
    assert chosen([Copy(A, "", HIGH), Copy(A), Copy(A, "", LOW)], 3) == A


def test_absent_and_promised_copies_choose_nothing() -> None:
    assert chosen([ABSENT] * 3, 3) is None
    assert chosen([Copy(None, "", HIGH)] * 5, 5) is None


def test_the_highest_ballot_is_carried_on_and_its_order_is_that_of_numbers() -> None:
    assert LOW < HIGH
    assert recover([Copy(A, LOW, LOW), Copy(B, HIGH, HIGH), Copy(A, LOW, LOW)], 3) == B
    assert recover([Copy(A), Copy(A), Copy(B, LOW, LOW)], 5) == B


@pytest.mark.parametrize("n", [1, 3, 5])
def test_whatever_inserts_may_have_chosen_is_carried_on(n: int) -> None:
    """All ways in which two values lie at n stores, and all majorities that may promise."""
    for values in itertools.product([A, B, None], repeat=n):
        for size in range(majority(n), n + 1):
            for some in itertools.combinations(values, size):
                carried_on = recover([Copy(value) for value in some], n)
                for value in (A, B):
                    if values.count(value) >= fast_quorum(n):
                        assert carried_on == value, (values, some)


def test_a_ballot_that_is_free_proposes_anothers_value_before_its_own() -> None:
    """A was decided by three; one of them was put back, and has taken the own value B since."""
    assert value_to_propose(B, [Copy(B), Copy(A)], 3) == A
    assert value_to_propose(B, [Copy(B), ABSENT], 3) == B
    assert value_to_propose(A, [Copy(A), Copy(B, LOW, LOW)], 3) == B


def test_from_too_few_promises_nothing_is_concluded() -> None:
    with pytest.raises(AssertionError):
        recover([Copy(A)], 3)


def test_a_round_goes_on_with_a_majority_or_once_none_can_come() -> None:
    assert is_voted([Done(), Done(), SILENT], 3)
    assert is_voted([Promised(ABSENT), SILENT, Promised(ABSENT)], 3)
    assert is_voted([Refused(ABSENT), Refused(ABSENT), SILENT], 3)
    assert not is_voted([Refused(ABSENT), Done(), SILENT], 3)


def test_the_next_counter_is_above_all_ballots_promised_or_accepted() -> None:
    assert counter_above([Copy(A, LOW, LOW), Copy(None, "", HIGH)]) == 11
    assert counter_above([ABSENT]) == 1


# -- pages


def ledger(length: int) -> list[bytes]:
    values = [entry()]
    while len(values) < length:
        values.append(entry(values[-1]))
    return values


def page(copies: dict[int, Copy], first: int = 0, through: int | None = None, rotten: int = -1) -> JudgedPage:
    intact = {
        position: Intact(copy, checksum(copy.value), predecessor(copy.value)) if copy.value else Intact(copy)
        for position, copy in copies.items()
        if position != rotten
    }
    return JudgedPage(Page(first, through, copies), intact)


def copies_of(values: list[bytes], accepted: str = "") -> dict[int, Copy]:
    return {position: Copy(value, accepted, accepted) for position, value in enumerate(values)}


def test_one_copy_of_each_is_enough_but_for_the_last() -> None:
    values = ledger(5)
    found = walk(0, [page(copies_of(values))], 3)
    assert (found.values, found.ending) == (values[:4], "silent")


def test_one_store_alone_proves_its_last_copy() -> None:
    values = ledger(3)
    assert walk(0, [page(copies_of(values))], 1).values == values


def test_the_last_one_is_proved_by_all_copies_or_by_a_majority_at_one_ballot() -> None:
    values = ledger(2)
    assert walk(0, [page(copies_of(values))] * 3, 3).values == values
    assert walk(0, [page(copies_of(values, LOW))] * 2, 3).values == values
    found = walk(0, [page(copies_of(values))] * 2, 3)
    assert (found.values, found.ending) == (values[:1], "undecided")


def test_the_successor_says_which_of_two_copies_is_right() -> None:
    values, late = ledger(3), entry()
    wrong = {**copies_of(values), 0: Copy(late)}
    assert walk(0, [page(wrong), page(copies_of(values))], 3).values[0] == values[0]
    assert walk(0, [page(wrong)], 3).ending == "lacking"


def test_a_copy_of_a_minority_behind_it_says_that_a_position_is_decided() -> None:
    """The writer of that copy had confirmed the position before (L1)."""
    values = ledger(2)
    first_alone = page(copies_of(values[:1]))
    assert walk(0, [page(copies_of(values)), first_alone], 3).values == values[:1]


def test_nothing_is_there_if_a_majority_says_so() -> None:
    assert walk(0, [page({}), page({0: Copy(None, "", LOW)})], 3).ending == "nothing"
    assert walk(0, [page({})], 3).ending == "silent"


def test_behind_the_end_of_a_page_nothing_is_known_to_be_absent() -> None:
    assert walk(1, [page({}, through=0), page({}, through=0), page({})], 3).ending == "silent"


def test_a_damaged_copy_is_neither_a_value_nor_an_absence() -> None:
    values = ledger(3)
    found = walk(0, [page(copies_of(values), rotten=1)] * 3, 3)
    assert (found.values, found.ending) == (values[:1], "lacking")
    assert walk(2, [page(copies_of(values), rotten=2)] * 2 + [page({})], 3).ending == "silent"
    healthy = page(copies_of(values))
    assert walk(0, [page(copies_of(values), rotten=1), healthy], 3).values == values[:2]
