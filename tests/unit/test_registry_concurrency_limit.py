"""An endpoint is sent as many requests at once as it keeps up with."""

from __future__ import annotations

import pytest

from photon.registry.stores.concurrency_limit import ConcurrencyLimit, is_overloaded
from photon.registry.stores.copies import Done, NoReply

GONE, BUSY = NoReply("timed out", "unreachable"), NoReply("slow down", "throttled")


def send_together(limit: ConcurrencyLimit, count: int, kept_up: bool) -> None:
    """So many requests that are all on their way before the first of them ends."""
    taken = [limit.take() for _ in range(count)]
    for reductions in taken:
        assert reductions is not None
        limit.give_back(reductions, kept_up)


def fill(limit: ConcurrencyLimit) -> list[int]:
    """As many requests as there is room for."""
    taken = []
    while (reductions := limit.take()) is not None:
        taken.append(reductions)
    return taken


def limit_of(count: int) -> ConcurrencyLimit:
    """One that has grown to so many, with nothing on its way."""
    limit = ConcurrencyLimit(count)
    under_way = fill(limit)
    while limit.limit < count:
        limit.give_back(under_way.pop(), kept_up=True)
        under_way += fill(limit)
    while under_way:
        limit.give_back(under_way.pop(), kept_up=True)
    return limit


def test_it_starts_small_and_doubles_with_each_round_trip_of_answers() -> None:
    limit, limits = ConcurrencyLimit(40), []
    under_way = fill(limit)
    for _ in range(5):
        limits.append(limit.limit)
        for reductions in [*under_way]:
            under_way.remove(reductions)
            limit.give_back(reductions, kept_up=True)
            under_way += fill(limit)
    assert limits == [4, 8, 16, 32, 40]


def test_once_it_was_too_much_it_doubles_no_more() -> None:
    limit = ConcurrencyLimit(40)
    send_together(limit, 4, kept_up=False)
    under_way = fill(limit)
    for _ in range(4):
        limit.give_back(under_way.pop(), kept_up=True)
        under_way += fill(limit)
    assert limit.limit == 2


def test_all_that_were_sent_together_in_vain_reduce_it_once() -> None:
    limit = limit_of(16)
    send_together(limit, 16, kept_up=False)
    assert limit.limit == 8


def test_it_is_what_was_sent_that_was_too_much_and_not_what_might_have_been() -> None:
    limit = limit_of(40)
    send_together(limit, 10, kept_up=False)
    assert limit.limit == 5


def test_one_request_at_a_time_is_always_sent() -> None:
    limit = ConcurrencyLimit(2)
    for _ in range(5):
        send_together(limit, 1, kept_up=False)
    assert limit.limit == 1


def test_answers_while_it_is_full_raise_it_little_by_little_up_to_the_most() -> None:
    limit = limit_of(40)
    send_together(limit, 40, kept_up=False)
    answers = {}
    for sent in range(1_000):
        answers.setdefault(limit.limit, sent)
        send_together(limit, limit.limit, kept_up=True)
    assert sorted(answers) == list(range(20, 41))
    assert answers[21] == 21  # by one after about as many answers as were on their way


def test_a_server_that_bears_one_request_at_a_time_is_seldom_tried_with_two() -> None:
    limit = limit_of(40)
    for _ in range(6):
        send_together(limit, limit.limit, kept_up=False)
    answers = 0
    while limit.limit == 1:
        send_together(limit, 1, kept_up=True)
        answers += 1
    assert 30 < answers < 60


def test_answers_to_few_requests_say_nothing_about_many() -> None:
    limit = limit_of(8)
    send_together(limit, 8, kept_up=False)
    for _ in range(50):
        send_together(limit, 1, kept_up=True)
    assert limit.limit == 4


def test_there_is_room_for_a_request_once_another_one_has_ended() -> None:
    limit = ConcurrencyLimit(1)
    assert [limit.take(), limit.take()] == [0, None]
    limit.give_back(0, kept_up=True)
    assert limit.take() == 0


@pytest.mark.parametrize(
    ("replies", "is_so"),
    [
        ([Done(), Done()], False),
        ([GONE, GONE], True),
        ([Done(), BUSY], True),
        ([Done(), NoReply("InternalServerError")], False),
        ([NoReply("spared", "not_asked")], False),
    ],
    ids=["answered", "silent", "throttled in part", "failed", "not asked"],
)
def test_an_endpoint_that_is_silent_or_throttles_is_overloaded(replies: list[object], is_so: bool) -> None:
    assert is_overloaded(replies) == is_so
