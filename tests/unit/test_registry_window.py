"""An endpoint is sent as many requests at once as it keeps up with."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    ReadTimeoutError,
)

from photon.registry.acceptor import NoReply
from photon.registry.answers import is_throttled
from photon.registry.dynamodb import DynamoAcceptor
from photon.registry.layout import ItemKey
from photon.registry.window import Fate, Turn, Window

KEY = ItemKey("p", "s")


@contextmanager
def in_flight(window: Window, count: int) -> Iterator[list[Turn]]:
    with ExitStack() as stack:
        turns = [stack.enter_context(window.turn()) for _ in range(count)]
        yield [turn for turn in turns if turn is not None]


def end_unanswered(window: Window, count: int = 1) -> None:
    with in_flight(window, count) as turns:
        for turn in turns:
            turn.fate = "timed_out"


def test_all_that_were_sent_together_and_were_not_answered_narrow_it_once() -> None:
    window = Window(16)
    end_unanswered(window, 16)
    assert window.limit == 8


def test_it_is_what_was_sent_that_was_too_much_and_not_what_might_have_been() -> None:
    window = Window(40)
    end_unanswered(window, 10)
    assert window.limit == 5


def test_one_request_at_a_time_is_always_sent() -> None:
    window = Window(2)
    for _ in range(5):
        end_unanswered(window)
    assert window.limit == 1


def test_answers_while_it_is_full_widen_it_little_by_little_up_to_the_most() -> None:
    window = Window(4)
    end_unanswered(window, 4)
    widths = []
    for _ in range(10):
        with in_flight(window, window.limit - 1), in_flight(window, 1):
            widths.append(window.limit)
    assert widths == [2, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_answers_to_few_requests_say_nothing_about_many() -> None:
    window = Window(8)
    end_unanswered(window, 8)
    for _ in range(50):
        with in_flight(window, 1):
            pass
    assert window.limit == 4


@pytest.mark.parametrize(("fate", "is_sent"), [("timed_out", False), ("throttled", True), ("answered", True)])
def test_who_waits_behind_a_time_out_is_not_sent(fate: Fate, is_sent: bool) -> None:
    window = Window(1)

    def wait() -> Turn | None:
        with window.turn() as turn:
            return turn

    with ThreadPoolExecutor(1) as pool:
        with in_flight(window, 1) as (turn,):
            behind = pool.submit(wait)
            while not window.waiting:
                pass
            turn.fate = fate
        assert (behind.result() is not None) == is_sent
    with window.turn() as turn_afterwards:
        assert turn_afterwards is not None


class Failing:
    """A client whose reads end so."""

    def __init__(self, error: BotoCoreError | ClientError | None, answer: object = None) -> None:
        self._error, self._answer = error, answer

    def batch_get_item(self, **_: object) -> object:
        if self._error is not None:
            raise self._error
        return self._answer


def refused(code: str, **more: object) -> ClientError:
    return ClientError({"Error": {"Code": code}, **more}, "BatchGetItem")


@pytest.mark.parametrize(
    ("client", "limit"),
    [
        (Failing(ReadTimeoutError(endpoint_url="http://slow")), 1),
        (Failing(ConnectionClosedError(endpoint_url="http://gone")), 2),  # it is away, not slow
        (Failing(ConnectTimeoutError(endpoint_url="http://slow")), 1),
        (Failing(refused("ThrottlingException")), 1),
        (Failing(refused("ProvisionedThroughputExceededException")), 1),
        (Failing(refused("RequestLimitExceeded")), 1),
        (Failing(refused("InternalServerError")), 2),
        (Failing(refused("InternalServerError", CancellationReasons=None, Responses=["x"])), 2),
        (Failing(None, {"Responses": {}}), 2),
        (Failing(None, {"Responses": {}, "UnprocessedKeys": {"t": {"Keys": []}}}), 1),
    ],
)
def test_what_an_endpoint_did_not_keep_up_with_narrows_its_window(client: Failing, limit: int) -> None:
    acceptor = DynamoAcceptor("t", lambda: client, concurrency=2)
    acceptor.read([KEY])
    assert acceptor.window.limit == limit


@pytest.mark.parametrize(
    ("response", "is_one"),
    [
        (
            {"Error": {"Code": "x"}, "CancellationReasons": [{"Code": "None"}, {"Code": "ThrottlingError"}]},
            True,
        ),
        ({"Error": {"Code": "x"}, "CancellationReasons": [{"Code": "TransactionConflict"}]}, False),
        ({"Responses": [{}, {"Error": {"Code": "ProvisionedThroughputExceeded"}}]}, True),
        ({"Responses": [{}, {"Error": {"Code": "DuplicateItem"}}]}, False),
    ],
)
def test_a_request_that_was_throttled_in_part_was_throttled(
    response: dict[str, object], is_one: bool
) -> None:
    assert is_throttled(response) == is_one


def test_what_was_not_sent_says_so() -> None:
    acceptor = DynamoAcceptor("t", lambda: Failing(None, {"Responses": {}}), concurrency=1)
    with ThreadPoolExecutor(1) as pool:
        with in_flight(acceptor.window, 1) as (turn,):
            behind = pool.submit(acceptor.read, [KEY])
            while not acceptor.window.waiting:
                pass
            turn.fate = "timed_out"
        (reply,) = behind.result()
    assert isinstance(reply, NoReply)
    assert reply.kind == "not_sent"
