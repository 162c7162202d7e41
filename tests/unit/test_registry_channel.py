"""A call goes on once enough have answered. Others are heard aside; no slow one collects a queue (B13)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from photon.ledger.stores.channel import Threads
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.health import Health
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Accept, Insert
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.quorums import Enough, all_of_them, answered
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import Claim, Joined, Won
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

KEYS = [ItemKey("p", str(number)) for number in range(500)]
BALLOT = "a1-0000000000000000"


class Held(FaultyStore):
    """An endpoint that does not answer while it is held back."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.goes_on = threading.Event()
        self.served = threading.Semaphore(0)

    def _serve(self, kind: str, batch: Sequence[Any], apply: Callable[[Any], Any]) -> list[Any]:
        assert self.goes_on.wait(60)
        replies = super()._serve(kind, batch, apply)
        self.served.release()
        return replies


def two_and_one_held(concurrency: int = 40) -> tuple[Endpoints, Held]:
    held = Held()
    acceptors = [FaultyStore(ManualClock()), FaultyStore(ManualClock()), held]
    health = Health(3, ManualClock())
    return Endpoints(acceptors, Threads(concurrency), ManualClock(), health=health), held


def read(endpoints: Endpoints, enough: Enough) -> list[list[Any]]:
    return endpoints.read(KEYS, enough)  # type: ignore[return-value]


def accept(endpoints: Endpoints, enough: Enough) -> list[list[Any]]:
    return endpoints.accept([Accept(key, BALLOT, "T:x") for key in KEYS], enough)  # type: ignore[return-value]


def insert(endpoints: Endpoints, enough: Enough) -> list[list[Any]]:
    return endpoints.insert([Insert(key, "T:x") for key in KEYS], enough)  # type: ignore[return-value]


@pytest.mark.parametrize("ask", [read, accept, insert])
def test_a_call_returns_while_the_last_endpoint_has_not_answered(ask: Any) -> None:
    endpoints, held = two_and_one_held()
    for replies in ask(endpoints, answered(2)):
        assert [isinstance(reply, NoReply) for reply in replies] == [False, False, True]
    held.goes_on.set()
    endpoints.close()


def test_who_wants_every_endpoint_waits_for_each() -> None:
    endpoints, held = two_and_one_held()
    accepts = [Accept(KEYS[0], BALLOT, "T:x")]
    (replies,) = endpoints.accept(accepts, all_of_them, after_each=held.goes_on.set)
    assert not any(isinstance(reply, NoReply) for reply in replies)
    endpoints.close()


def test_writes_that_are_under_way_are_ended_aside() -> None:
    endpoints, held = two_and_one_held()
    endpoints.accept([Accept(KEYS[0], BALLOT, "T:x")], answered(2))
    held.goes_on.set()
    endpoints.close()
    assert held.items[KEYS[0]].value == "T:x"


def test_an_endpoint_that_falls_silent_aside_is_spared_by_the_next_call() -> None:
    endpoints, held = two_and_one_held(concurrency=1)
    held.fail("down")
    endpoints.read(KEYS[:1], answered(2))
    held.goes_on.set()
    endpoints.read(KEYS[:1], all_of_them)
    held.mend()
    assert endpoints.read(KEYS[:1], all_of_them)[0][2] == NoReply(
        "endpoint 3 did not answer lately; it is being probed", "not_asked"
    )
    endpoints.close()


# One is under way; of the writes one more may wait in line, as one may be under way at once.
@pytest.mark.parametrize(("ask", "requests"), [(read, 1), (accept, 2), (insert, 2)])
def test_what_waits_in_line_for_a_slow_endpoint_is_dropped_but_for_a_few_writes(
    ask: Any, requests: int
) -> None:
    endpoints, held = two_and_one_held(concurrency=1)
    for _ in range(3):  # however many calls go on without it
        ask(endpoints, answered(2))
    held.goes_on.set()
    for _ in range(requests):  # closing drops what still stands in line
        assert held.served.acquire(timeout=60)
    endpoints.close()
    assert held.requests == requests


def test_a_request_that_can_not_be_made_fails_the_call() -> None:
    class Broken(FaultyStore):
        def _serve(self, *_: Any) -> list[Any]:
            raise RuntimeError("a defect")

    endpoints = Endpoints([Broken()], Threads(4), ManualClock())
    for _ in range(2):  # its room is given back
        with pytest.raises(RuntimeError, match="a defect"):
            endpoints.read(KEYS, all_of_them)
    endpoints.close()


def test_two_of_three_copies_of_a_fast_round_are_no_proof_so_that_a_lookup_asks_the_third() -> None:
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(3)]
    registry = memory_registry(*acceptors, clock=clock)
    key = EventKey("a")
    assert registry.commit([Claim(key, "east:e:1#p:1:0")]) == [Won()]
    for _ in range(20):
        assert isinstance(registry.lookup([key])[0], Joined)
    registry.close()
