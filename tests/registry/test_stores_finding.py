"""Answers of stores together find ledgers, refuse them, or say that there are none yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.pipeline.sections import Registry
from photon.registry.address import EndpointAddress
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.register import Members, Register
from photon.registry.stores.copies import NoReply
from photon.registry.stores.finding import Answer, classify
from tests.registry.store_backends import first_register, pipeline_over

PIPELINE = pipeline_over([], Registry())
STORES = [EndpointAddress(f"http://store-{number}") for number in range(3)]
REGISTER = first_register(Members(1, ("a", "b", "c")))
SILENT, EMPTY = NoReply("refused", "unreachable"), Answer(None, None)


def found(stores: list[EndpointAddress], replies: list[Answer | NoReply]) -> Register | None:
    there = classify(PIPELINE, stores, replies)
    return None if there is None else there.register


def has(incarnation: str, register: Register | None = REGISTER) -> Answer:
    return Answer(f"photon-events-{incarnation}", register)


def test_a_minority_may_be_silent_wiped_or_of_others() -> None:
    for other in (SILENT, EMPTY, has("z"), Answer("photon-events-c", None)):
        assert found(STORES, [has("a"), has("b"), other]) == REGISTER


def test_where_all_answer_and_none_has_a_register_there_are_no_ledgers() -> None:
    assert found(STORES, [EMPTY, EMPTY, EMPTY]) is None
    assert found(STORES, [has("a", None), EMPTY, EMPTY]) is None


def test_from_silence_nobody_concludes_that_there_are_none() -> None:
    for replies in ([EMPTY, EMPTY, SILENT], [has("a"), SILENT, SILENT], [SILENT] * 3):
        with pytest.raises(RegistryUnavailable, match="store-"):
            found(STORES, replies)


def test_the_newest_members_count() -> None:
    newer = replace(REGISTER, members=Members(3, ("a", "b", "d")))
    assert found(STORES, [has("a"), has("b", newer), has("d", newer)]) == newer


def test_a_store_that_is_being_filled_does_not_count() -> None:
    filling = replace(REGISTER, members=Members(2, ("a", "b", "d"), down=(2,)))
    assert found(STORES, [has("a", filling), has("b", filling), has("d", None)]) == filling
    with pytest.raises(RegistryUnavailable):
        found(STORES, [has("a", filling), SILENT, has("d", filling)])


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([has("a"), EMPTY, EMPTY], "lost its data"),
        ([has("c"), has("a"), has("b")], "old order"),
        ([has("a"), has("y"), has("z")], "another registry"),
        ([has("a"), has("a"), has("c")], "one and the same store"),
    ],
)
def test_stores_that_do_not_belong_together_are_refused_with_what_is_wrong(
    replies: list[Answer | NoReply], says: str
) -> None:
    with pytest.raises(RegistryMismatch, match=says):
        found(STORES, replies)


def test_another_number_of_stores_is_refused() -> None:
    with pytest.raises(RegistryMismatch, match="one of 3 that the registry was made over"):
        found(STORES[:1], [has("a")])
