"""When the replies so far are enough, and which requests go together: pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from photon.ledger.stores.copies import Done, NoReply
from photon.registry.consensus.acceptor import ABSENT, Promised, Refused, Stored, Unchanged
from photon.registry.consensus.quorums import Enough, all_of_them, answered, found, known, voted
from photon.registry.endpoints.parts import Replies, cut
from photon.testing.faulty_store import FaultyStore

NONE, YES, NO = NoReply("not yet", "not_asked"), Promised(ABSENT), Refused(ABSENT)
FAST, BY_BALLOT, PROMISED = Stored("T:x"), Stored("T:x", "a1-1", "a1-1"), Stored(promised="a1-1")


@pytest.mark.parametrize(
    ("enough", "replies", "is_so"),
    [
        (answered(3), [Done(), Unchanged(), NONE], False),
        (answered(3), [Done(), Unchanged(), Done()], True),
        (voted(3), [YES, NO, NONE], False),  # the third decides whether a majority promises
        (voted(3), [YES, NONE, YES], True),
        (voted(3), [NO, NONE, NO], True),  # none can any more
        (voted(5), [NO, NO, NONE, NONE, NONE], False),
        (voted(5), [Done(), Done(), NONE, NONE, Done()], True),
        (known(3), [ABSENT, PROMISED, NONE], True),
        (known(3), [FAST, FAST, NONE], False),  # the third may have another one, or the same
        (known(3), [FAST, FAST, FAST], True),
        (known(3), [BY_BALLOT, NONE, BY_BALLOT], True),
        (known(3), [BY_BALLOT, NONE, ABSENT], False),
        (known(5), [FAST, ABSENT, FAST, FAST, NONE], False),
        (known(5), [FAST, FAST, FAST, FAST, NONE], True),
        (found(3), [ABSENT, ABSENT, NONE], False),
        (found(3), [BY_BALLOT, BY_BALLOT, NONE], True),
        (all_of_them, [FAST, FAST, FAST], False),
    ],
)
def test_what_is_enough(enough: Enough, replies: Sequence[object], is_so: bool) -> None:
    assert enough(replies) == is_so


def replies_to(count: int, per_request: int, asked: Any = None) -> tuple[Replies[Any], list[Any]]:
    acceptors = [FaultyStore(), FaultyStore(), None]
    parts = cut(count, per_request, acceptors, asked)
    return Replies(count, 3, parts, answered(1)), parts


def test_requests_are_cut_for_the_endpoints_that_are_in_use() -> None:
    _, parts = replies_to(5, 2)
    assert [(part.slot, list(part.indices)) for part in parts] == [
        (0, [0, 1]),
        (1, [0, 1]),
        (0, [2, 3]),
        (1, [2, 3]),
        (0, [4]),
        (1, [4]),
    ]


def test_replies_are_enough_once_they_are_so_for_each_request() -> None:
    replies, parts = replies_to(4, 2)
    replies.take(parts[0], ["a", "b"])
    assert not replies.are_enough()
    replies.take(parts[2], ["c", NONE])
    assert not replies.are_enough()
    replies.take(parts[3], [NONE, "d"])
    assert replies.are_enough()
    assert [[r for r in some if not isinstance(r, NoReply)] for some in replies] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
    ]


def test_nobody_waits_for_more_than_all() -> None:
    replies, parts = replies_to(1, 1)
    for part in parts:
        assert not replies.are_enough()
        replies.take(part, [NONE])
    assert replies.are_enough()


def test_endpoints_that_are_asked_for_different_requests_settle_together() -> None:
    replies, parts = replies_to(3, 10, asked={0: [0, 2], 1: [1, 2]})
    replies.take(parts[0], ["a", "c"])
    assert not replies.are_enough()
    replies.take(parts[1], ["b", NONE])
    assert replies.are_enough()
