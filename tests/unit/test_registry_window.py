"""An endpoint is sent as many requests at once as it keeps up with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from botocore.exceptions import BotoCoreError, ConnectionClosedError, ReadTimeoutError

from photon.registry.acceptor import NoReply
from photon.registry.dynamodb import DynamoAcceptor
from photon.registry.layout import ItemKey
from photon.registry.window import Turn, Window

KEY = ItemKey("p", "s")


@contextmanager
def in_flight(window: Window, count: int) -> Iterator[list[Turn]]:
    with ExitStack() as stack:
        turns = [stack.enter_context(window.turn()) for _ in range(count)]
        yield [turn for turn in turns if turn is not None]


def end_overloaded(window: Window, count: int = 1) -> None:
    with in_flight(window, count) as turns:
        for turn in turns:
            turn.overloaded = True


def test_all_that_were_sent_together_and_were_not_answered_narrow_it_once() -> None:
    window = Window(16)
    end_overloaded(window, 16)
    assert window.limit == 8


def test_it_is_what_was_sent_that_was_too_much_and_not_what_might_have_been() -> None:
    window = Window(40)
    end_overloaded(window, 10)
    assert window.limit == 5


def test_one_request_at_a_time_is_always_sent() -> None:
    window = Window(2)
    for _ in range(5):
        end_overloaded(window)
    assert window.limit == 1


def test_answers_while_it_is_full_widen_it_little_by_little_up_to_the_most() -> None:
    window = Window(4)
    end_overloaded(window, 4)
    widths = []
    for _ in range(10):
        with in_flight(window, window.limit - 1), in_flight(window, 1):
            widths.append(window.limit)
    assert widths == [2, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_answers_to_few_requests_say_nothing_about_many() -> None:
    window = Window(8)
    end_overloaded(window, 8)
    for _ in range(50):
        with in_flight(window, 1):
            pass
    assert window.limit == 4


def test_who_waits_behind_an_overload_is_not_sent() -> None:
    window, waiting = Window(1), threading.Event()

    def wait() -> Turn | None:
        waiting.set()
        with window.turn() as turn:
            return turn

    with ThreadPoolExecutor(1) as pool:
        with in_flight(window, 1) as (turn,):
            behind = pool.submit(wait)
            waiting.wait()
            while not window.waiting:
                pass
            turn.overloaded = True
        assert behind.result() is None
    with window.turn() as turn_afterwards:
        assert turn_afterwards is not None


class Failing:
    """A client whose reads end so."""

    def __init__(self, error: BotoCoreError | None, answer: object = None) -> None:
        self._error, self._answer = error, answer

    def batch_get_item(self, **_: object) -> object:
        if self._error is not None:
            raise self._error
        return self._answer


@pytest.mark.parametrize(
    ("client", "limit"),
    [
        (Failing(ReadTimeoutError(endpoint_url="http://slow")), 1),
        (Failing(ConnectionClosedError(endpoint_url="http://gone")), 2),  # it is away, not slow
        (Failing(None, {"Responses": {}}), 2),
        (Failing(None, {"Responses": {}, "UnprocessedKeys": {"t": {"Keys": []}}}), 1),
    ],
    ids=["no answer in time", "no connection", "answered", "left unprocessed"],
)
def test_what_an_endpoint_did_not_keep_up_with_narrows_its_window(client: Failing, limit: int) -> None:
    acceptor = DynamoAcceptor("t", lambda: client, concurrency=2)
    acceptor.read([KEY])
    assert acceptor.window.limit == limit


def test_what_was_not_sent_says_so() -> None:
    acceptor = DynamoAcceptor("t", lambda: Failing(None, {"Responses": {}}), concurrency=1)
    with ThreadPoolExecutor(1) as pool:
        with in_flight(acceptor.window, 1) as (turn,):
            behind = pool.submit(acceptor.read, [KEY])
            while not acceptor.window.waiting:
                pass
            turn.overloaded = True
        (reply,) = behind.result()
    assert isinstance(reply, NoReply)
    assert reply.kind == "not_sent"
