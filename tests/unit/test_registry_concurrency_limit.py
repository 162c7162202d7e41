"""An endpoint is sent as many requests at once as it keeps up with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from photon.registry.consensus.acceptor import Done, NoReply
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.endpoints.concurrency_limit import ConcurrencyLimit, is_overloaded

GONE, BUSY = NoReply("timed out", "unreachable"), NoReply("slow down", "throttled")


def send_together(limit: ConcurrencyLimit, count: int, kept_up: bool) -> None:
    """So many requests that are all on their way before the first of them ends."""
    acquired = [limit.acquire() for _ in range(count)]
    for reductions in acquired:
        limit.release(reductions, kept_up)


def test_all_that_were_sent_together_in_vain_reduce_it_once() -> None:
    limit = ConcurrencyLimit(16)
    send_together(limit, 16, kept_up=False)
    assert limit.limit == 8


def test_it_is_what_was_sent_that_was_too_much_and_not_what_might_have_been() -> None:
    limit = ConcurrencyLimit(40)
    send_together(limit, 10, kept_up=False)
    assert limit.limit == 5


def test_one_request_at_a_time_is_always_sent() -> None:
    limit = ConcurrencyLimit(2)
    for _ in range(5):
        send_together(limit, 1, kept_up=False)
    assert limit.limit == 1


def test_answers_while_it_is_full_raise_it_little_by_little_up_to_the_most() -> None:
    limit = ConcurrencyLimit(40)
    send_together(limit, 40, kept_up=False)
    answers = {}
    for sent in range(1_000):
        answers.setdefault(limit.limit, sent)
        send_together(limit, limit.limit, kept_up=True)
    assert sorted(answers) == list(range(20, 41))
    assert answers[21] == 21  # by one after about as many answers as were on their way


def test_a_server_that_bears_one_request_at_a_time_is_seldom_tried_with_two() -> None:
    limit = ConcurrencyLimit(40)
    for _ in range(6):
        send_together(limit, limit.limit, kept_up=False)
    answers = 0
    while limit.limit == 1:
        send_together(limit, 1, kept_up=True)
        answers += 1
    assert 30 < answers < 60


def test_answers_to_few_requests_say_nothing_about_many() -> None:
    limit = ConcurrencyLimit(8)
    send_together(limit, 8, kept_up=False)
    for _ in range(50):
        send_together(limit, 1, kept_up=True)
    assert limit.limit == 4


def test_a_request_waits_until_there_is_room_for_it() -> None:
    limit, sent = ConcurrencyLimit(1), Event()

    def request() -> list[Done]:
        sent.set()
        return [Done()]

    with ThreadPoolExecutor(1) as pool:
        first = limit.acquire()
        second = pool.submit(limit.send, request)
        assert not sent.wait(0.05)
        limit.release(first, kept_up=True)
        assert second.result() == [Done()]


def test_a_request_that_fails_leaves_its_room_to_the_next() -> None:
    limit = ConcurrencyLimit(1)

    def failing() -> list[Done]:
        raise RuntimeError("a defect")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="a defect"):
            limit.send(failing)


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


class Failing:
    """A client whose requests end so."""

    def __init__(self, error: BotoCoreError | ClientError) -> None:
        self._error = error

    def batch_get_item(self, **_: object) -> object:
        raise self._error


def refused(code: str, **more: object) -> ClientError:
    return ClientError({"Error": {"Code": code}, **more}, "BatchGetItem")


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (ReadTimeoutError(endpoint_url="http://slow"), True),
        (ConnectTimeoutError(endpoint_url="http://slow"), True),
        (refused("ThrottlingException"), True),
        (refused("ProvisionedThroughputExceededException"), True),
        (refused("RequestLimitExceeded"), True),
        (refused("InternalServerError"), False),
        (refused("InternalServerError", CancellationReasons=None, Responses=["x"]), False),
    ],
)
def test_time_outs_and_throttled_requests_are_an_overload(
    error: BotoCoreError | ClientError, is_so: bool
) -> None:
    assert is_overloaded(DynamoAcceptor("t", lambda: Failing(error)).read([ItemKey("p", "s")])) == is_so
