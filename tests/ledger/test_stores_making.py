"""Which ledgers the answers of stores make together: found, refused, or none yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from photon.ledger.errors import RegistryMismatch, RegistryUnavailable
from photon.ledger.register import Members, Register
from photon.ledger.stores.making import Found, classify
from photon.registry.address import EndpointAddress
from photon.registry.consensus.acceptor import NoReply
from tests.ledger.store_backends import first_register

STORES = [EndpointAddress(f"http://store-{number}") for number in range(3)]
REGISTER = first_register(Members(1, ("a", "b", "c")))
SILENT, EMPTY = NoReply("refused", "unreachable"), Found(None, None)


def has(incarnation: str, register: Register | None = REGISTER) -> Found:
    return Found(f"photon-events-{incarnation}", register)


def test_a_minority_may_be_silent_wiped_or_of_others() -> None:
    for other in (SILENT, EMPTY, has("z"), Found("photon-events-c", None)):
        assert classify("events", STORES, [has("a"), has("b"), other]) == REGISTER


def test_where_all_answer_and_none_has_a_register_there_are_no_ledgers() -> None:
    assert classify("events", STORES, [EMPTY, EMPTY, EMPTY]) is None
    assert classify("events", STORES, [has("a", None), EMPTY, EMPTY]) is None


def test_from_silence_nobody_concludes_that_there_are_none() -> None:
    for replies in ([EMPTY, EMPTY, SILENT], [has("a"), SILENT, SILENT], [SILENT] * 3):
        with pytest.raises(RegistryUnavailable, match="store-"):
            classify("events", STORES, replies)


def test_the_newest_members_count() -> None:
    newer = replace(REGISTER, members=Members(3, ("a", "b", "d")))
    assert classify("events", STORES, [has("a"), has("b", newer), has("d", newer)]) == newer


def test_a_store_that_is_being_filled_does_not_count() -> None:
    filling = replace(REGISTER, members=Members(2, ("a", "b", "d"), down=(2,)))
    assert classify("events", STORES, [has("a", filling), has("b", filling), has("d", None)]) == filling
    with pytest.raises(RegistryUnavailable):
        classify("events", STORES, [has("a", filling), SILENT, has("d", filling)])


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([has("a"), EMPTY, EMPTY], "lost its data"),
        ([has("c"), has("a"), has("b")], "old order"),
        ([has("a"), has("y"), has("z")], "other ledgers"),
        ([has("a"), has("a"), has("c")], "one and the same store"),
    ],
)
def test_stores_that_do_not_belong_together_are_refused_with_what_is_wrong(
    replies: list[Found | NoReply], says: str
) -> None:
    with pytest.raises(RegistryMismatch, match=says):
        classify("events", STORES, replies)


def test_another_number_of_stores_is_refused() -> None:
    with pytest.raises(RegistryMismatch, match="made over 3"):
        classify("events", STORES[:1], [has("a")])
