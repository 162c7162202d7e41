"""A call goes on once enough have answered. Others are heard aside; no slow one collects a queue (B13)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from photon.process.clock import SystemClock
from photon.registry.register import Members
from photon.registry.stores.asking import ASIDE_AT_ONCE, Stores
from photon.registry.stores.channel import Threads
from photon.registry.stores.copies import Key, NoReply
from photon.registry.stores.deadline import MACHINE_CHANCE
from photon.registry.stores.decisions import count_answers
from photon.registry.stores.health import LEAST_LOOKED_AT

KEYS = [Key("1.0-0", position) for position in range(2)]
GONE = NoReply("timed out", "unreachable")


class Kept:
    """A store that answers each request with its own number, once it is let go on."""

    def __init__(self, answer: object = "an answer", is_held: bool = False) -> None:
        self.answer = answer
        self.goes_on = threading.Event()
        self.served = threading.Semaphore(0)
        self.requests = 0
        if not is_held:
            self.goes_on.set()

    def get(self, key: Key) -> Any:
        assert self.goes_on.wait(60)
        self.requests += 1
        self.served.release()
        return self.answer


def over(*kept: Kept, concurrency: int = 40) -> Stores:
    names = tuple(str(number) for number in range(len(kept)))
    chosen: Callable[[int, str], Any] = lambda slot, name: kept[slot]  # noqa: E731
    return Stores(Members(1, names), chosen, Threads(concurrency), SystemClock(), MACHINE_CHANCE)


def ask(stores: Stores, enough: int, keys: Sequence[Key] = KEYS, is_write: bool = False) -> list[list[Any]]:
    return stores.ask(
        stores.active,
        lambda store, key: store.get(key),
        keys,
        lambda _, replies: count_answers(replies) >= enough,
        stores.deadline(60),
        is_write=is_write,
    )


def test_a_call_returns_while_the_last_endpoint_has_not_answered() -> None:
    held = Kept(is_held=True)
    stores = over(Kept(), Kept(), held)
    for replies in ask(stores, 2):
        assert [isinstance(reply, NoReply) for reply in replies] == [False, False, True]
    held.goes_on.set()
    stores.close()


def test_who_wants_every_endpoint_waits_for_each() -> None:
    held = Kept(is_held=True)
    stores = over(Kept(), Kept(), held)
    threading.Timer(0.05, held.goes_on.set).start()
    assert ask(stores, 3) == [["an answer"] * 3] * 2
    stores.close()


def test_writes_that_are_under_way_are_ended_aside() -> None:
    held = Kept(is_held=True)
    stores = over(Kept(), Kept(), held)
    ask(stores, 2, KEYS[:1], is_write=True)
    held.goes_on.set()
    stores.close()
    assert held.requests == 1


def test_an_endpoint_that_fell_silent_is_spared_by_the_next_call() -> None:
    silent = Kept(GONE)
    stores = over(Kept(), Kept(), silent)
    ask(stores, 3, KEYS[:1])
    assert ask(stores, 3, KEYS[:1])[0][2] == NoReply(
        "endpoint 3 did not answer lately; it is being probed", "not_asked"
    )
    stores.close()


# One request is under way, as many as may be at once; of the writes one more may wait in line.
@pytest.mark.parametrize(("is_write", "requests"), [(False, 1), (True, 2)])
def test_what_waits_in_line_for_a_slow_endpoint_is_dropped_but_for_a_few_writes(
    is_write: bool, requests: int
) -> None:
    held = Kept(is_held=True)
    stores = over(Kept(), Kept(), held, concurrency=1)
    for _ in range(3):  # however many calls go on without it
        ask(stores, 2, is_write=is_write)
    held.goes_on.set()
    for _ in range(requests):  # closing drops what still stands in line
        assert held.served.acquire(timeout=60)
    stores.close()
    assert held.requests == requests


def test_a_slow_endpoint_is_asked_aside_while_it_bears_it() -> None:
    slow = Kept(is_held=True)
    stores = over(Kept(), Kept(), slow)
    for slot, seconds in [*enumerate((0.01, 0.01, 0.9))] * LEAST_LOOKED_AT:
        stores.health.took(slot, seconds)
    for _ in range(ASIDE_AT_ONCE + 3):
        assert count_answers(ask(stores, 2, KEYS[:1], is_write=True)[0]) == 2
    slow.goes_on.set()
    stores.close()
    assert slow.requests == ASIDE_AT_ONCE


def test_a_request_that_can_not_be_made_fails_the_call() -> None:
    class Broken(Kept):
        def get(self, key: Key) -> Any:
            raise RuntimeError("a defect")

    stores = over(Broken(), concurrency=4)
    for _ in range(2):  # the first call gives its slot back
        with pytest.raises(RuntimeError, match="a defect"):
            ask(stores, 1)
    stores.close()
