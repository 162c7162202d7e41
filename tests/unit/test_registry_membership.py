"""Which endpoints make a registry together, from what each says of itself."""

from __future__ import annotations

import pytest

from photon.registry.address import table_name
from photon.registry.consensus.layout import SHARD_HASH
from photon.registry.consensus.register import Members, Register
from photon.registry.operations.init import (
    Answer,
    Found,
    NoMajority,
    NotMade,
    OneStoreTwice,
    Said,
    Silent,
    TooFewAnswer,
    find,
)

GONE = Silent("connection refused")
NEW = Answer(None, None)


def register(members: Members) -> Register:
    return Register("p", "s", SHARD_HASH, members, ())


def says(incarnation: str, members: Members | None) -> Answer:
    return Answer(table_name("p", incarnation), None if members is None else register(members))


FIRST = Members(1, ("a", "b", "c"))
A, B, C = (says(name, FIRST) for name in "abc")


@pytest.mark.parametrize("said", [[A, B, C], [A, GONE, C], [NEW, B, C], [A, B, says("x", None)]])
def test_a_majority_makes_the_registry_and_the_others_are_named(said: list[Said]) -> None:
    found = find("p", said)
    assert isinstance(found, Found)
    assert found.members == FIRST
    assert found.tables == tuple(table_name("p", name) for name in "abc")
    assert set(found.problems) == {slot for slot, one in enumerate(said) if one not in (A, B, C)}


def test_an_endpoint_with_other_data_is_named_with_the_remedy() -> None:
    found = find("p", [A, B, says("x", Members(1, ("x", "y", "z")))])
    assert isinstance(found, Found)
    assert "another registry; it is not used until it is repaired" in found.problems[2]


def test_without_any_register_there_is_no_registry_yet() -> None:
    assert find("p", [NEW, NEW, NEW]) == NotMade()
    assert find("p", [says("a", None), NEW, NEW]) == NotMade()  # an init that did not end


def test_as_long_as_somebody_is_silent_nobody_knows_that_there_is_no_registry() -> None:
    assert find("p", [NEW, NEW, GONE]) == TooFewAnswer({2: "connection refused"})
    assert find("p", [A, GONE, GONE]) == TooFewAnswer({1: "connection refused", 2: "connection refused"})


def test_when_a_majority_lost_its_data_no_new_registry_is_made_beside_the_old_one() -> None:
    assert isinstance(find("p", [A, NEW, NEW]), NoMajority)


def test_endpoints_in_another_order_are_told_their_old_one() -> None:
    found = find("p", [B, A, C])
    assert isinstance(found, NoMajority)
    assert found.problems == {
        0: "is number 2: put the endpoints in their old order",
        1: "is number 1: put the endpoints in their old order",
    }


def test_more_endpoints_than_the_registry_was_made_over_are_refused() -> None:
    found = find("p", [A, B, C, NEW, NEW])
    assert isinstance(found, NoMajority)
    assert found.problems[3] == "is one too many: the registry was made over 3"


@pytest.mark.parametrize("said", [[A], [A, B]])
def test_fewer_endpoints_than_the_registry_was_made_over_are_told_how_many_there_are(
    said: list[Said],
) -> None:
    found = find("p", said)
    assert isinstance(found, NoMajority)
    assert "is one of 3 that the registry was made over" in found.problems[0]


def test_a_store_that_is_met_twice_is_refused() -> None:
    assert find("p", [A, B, A]) == OneStoreTwice((0, 2))


def test_an_endpoint_whose_repair_has_not_ended_is_named() -> None:
    during = Members(2, ("a", "b", "new"), down=(2,))
    found = find("p", [says("a", during), says("b", during), C])
    assert isinstance(found, Found)
    assert found.members == during
    assert found.problems == {2: "is out of use until a repair of it has ended; run it again"}


def test_the_newest_members_with_a_majority_count() -> None:
    repaired = Members(4, ("a", "b", "new"))
    found = find("p", [A, says("b", repaired), says("new", repaired)])
    assert isinstance(found, Found)
    assert found.members == repaired
    assert found.problems == {}


def test_the_only_endpoint_of_a_registry_may_have_an_older_name_of_its_table() -> None:
    found = find("p", [Answer("photon-p-0123", register(Members(1, ("4567",))))])
    assert found == Found(Members(1, ("4567",)), ("photon-p-0123",), {})
