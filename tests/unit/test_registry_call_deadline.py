"""No call outlives its deadline, whatever hangs: the deadline reaches into the rounds of an attempt (B15)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bench.virtual_network import Send, VirtualClient, VirtualTime
from photon.clock import SystemClock
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import REGISTER_KEY
from photon.registry.interface import Claim, Joined, Unknown, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import TIMED_OUT, FaultyStore
from photon.testing.memory_registry import memory_registry

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
# As many as several requests take, and two claims for one of the ids.
CLAIMS = [*(Claim(EventKey(f"id-{number}"), EAST) for number in range(60)), Claim(EventKey("id-0"), WEST)]
KEYS = [claim.key for claim in CLAIMS]
MOST_SECONDS_LATE = 1.0


class Endpoint(FaultyStore):
    """An endpoint that may hang, or takes one request at a time and some seconds for it."""

    hangs = False
    seconds = 0.01
    busy_until_seconds = 0.0

    def _serve(self, kind: str, batch: Sequence[Any], apply: Callable[[Any], Any]) -> list[Any]:
        return [TIMED_OUT] * len(batch) if self.hangs else super()._serve(kind, batch, apply)


class Client(VirtualClient):
    """A client in virtual time: an endpoint that hangs costs it the whole time-out of a request."""

    def __init__(self, time: VirtualTime, request_seconds: float) -> None:
        super().__init__(time)
        self._request_seconds = request_seconds
        self.sent_at_seconds: list[float] = []

    def _send(
        self, send: Send, endpoint: Any, batch: Sequence[Any], answered: Callable[[list[Any]], None]
    ) -> None:
        replies, now_seconds = send(endpoint, batch), self._time.now_seconds
        self.sent_at_seconds.append(now_seconds)
        if replies[0] is TIMED_OUT:
            seconds = self._request_seconds
        elif isinstance(replies[0], NoReply):
            seconds = 0.0  # it was not sent
        else:
            endpoint.busy_until_seconds = max(endpoint.busy_until_seconds, now_seconds) + endpoint.seconds
            seconds = endpoint.busy_until_seconds - now_seconds
        self._time.after(seconds, lambda: answered(replies))


class Run:
    """A registry in virtual time."""

    def __init__(self, total_seconds: float, request_seconds: float, n: int = 3) -> None:
        self.endpoints = [Endpoint() for _ in range(n)]
        settings = Registry(
            total_timeout=timedelta(seconds=total_seconds), request_timeout=timedelta(seconds=request_seconds)
        )
        memory_registry(*self.endpoints, settings=settings).close()
        self._time = VirtualTime()
        self.client = Client(self._time, request_seconds)
        self.registry = QuorumRegistry(self.endpoints, settings, self.client, channel=self.client)

    def call(self, call: Callable[[QuorumRegistry], object]) -> tuple[object, float]:
        """What a call returns or raises, and how long it takes."""
        ended: list[tuple[object, float]] = []

        def work() -> None:
            began_seconds = self.began_seconds = self._time.now_seconds
            try:
                result = call(self.registry)
            except RegistryUnavailable as error:
                result = error
            ended.append((result, self._time.now_seconds - began_seconds))

        self.client.start(work)
        self._time.run()
        return ended[0]


CALLS: dict[str, Callable[[QuorumRegistry], object]] = {
    "commit": lambda registry: set(map(type, registry.commit(CLAIMS))),
    "lookup": lambda registry: registry.lookup(KEYS),
    "release": lambda registry: set(map(type, registry.release(CLAIMS))),
    "tokens": lambda registry: registry.tokens_anywhere(KEYS),
    "clear": lambda registry: registry.clear(CLAIMS),
    "register_read": lambda registry: registry.register.read(),
    "register_change": lambda registry: registry.register.change(lambda now: now),
}
GIVES_UP = {"commit": {Unknown}, "release": {Unknown}}  # the others raise RegistryUnavailable


@pytest.mark.parametrize("hanging", [3, 2])
@pytest.mark.parametrize(("total", "request_"), [(10, 2), (10, 7), (3, 2), (10, 20), (1, 30)])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("knows_register", [True, False])
def test_no_call_outlives_its_deadline_though_a_majority_hangs(
    call: str, total: float, request_: float, hanging: int, knows_register: bool
) -> None:
    run = Run(total, request_)
    if knows_register:
        run.call(lambda registry: registry.lookup(KEYS[:1]))
    for endpoint in run.endpoints[:hanging]:
        endpoint.hangs = True
    result, seconds = run.call(CALLS[call])
    assert result == GIVES_UP[call] if call in GIVES_UP else isinstance(result, RegistryUnavailable)
    assert seconds <= total + MOST_SECONDS_LATE
    assert max(run.client.sent_at_seconds) < run.began_seconds + total
    for endpoint in run.endpoints:
        endpoint.hangs = False
    assert run.call(lambda registry: registry.commit(CLAIMS[:60]))[0] == [Won()] * 60


def test_a_call_does_not_wait_beyond_its_deadline_for_a_change_of_the_register_to_be_ended() -> None:
    run = Run(total_seconds=3, request_seconds=20)
    half_written = run.endpoints[0].items[REGISTER_KEY]
    run.endpoints[0].items[REGISTER_KEY] = replace(half_written, accepted=f"a9-{'f' * 16}")
    result, seconds = run.call(lambda registry: registry.lookup(KEYS))
    assert isinstance(result, RegistryUnavailable)
    assert seconds == pytest.approx(3.0)


def test_what_a_call_sent_before_its_deadline_takes_effect_and_its_claim_was_unknown() -> None:
    run = Run(total_seconds=1, request_seconds=20)
    run.call(lambda registry: registry.lookup(KEYS[:1]))
    for endpoint in run.endpoints:
        endpoint.seconds = 5.0
    outcomes, seconds = run.call(lambda registry: registry.commit(CLAIMS[:1]))
    assert (outcomes, seconds) == ([Unknown("no answer before the call's deadline")], 1.0)
    for endpoint in run.endpoints:
        endpoint.seconds = 0.01
    (found,) = run.call(lambda registry: registry.lookup(KEYS[:1]))[0]  # type: ignore[misc]
    assert isinstance(found, Joined)


def test_the_reason_of_a_call_that_ends_within_a_request_is_what_an_endpoint_said_before() -> None:
    run = Run(total_seconds=10, request_seconds=7)
    for endpoint in run.endpoints:
        endpoint.hangs = True
    error, _ = run.call(lambda registry: registry.lookup(KEYS))
    remedy = "bring its endpoints back (docs/operations.md: an endpoint of the registry)"
    assert str(error) == f"the registry does not answer: {TIMED_OUT.reason}; {remedy}"


@pytest.mark.parametrize("hanging", [0, 1])
def test_a_call_of_many_requests_takes_longer_than_its_deadline_while_some_are_answered(hanging: int) -> None:
    run = Run(total_seconds=5, request_seconds=2)
    run.call(lambda registry: registry.lookup(KEYS[:1]))
    for endpoint in run.endpoints:
        endpoint.seconds = 1.0
    for endpoint in run.endpoints[:hanging]:
        endpoint.hangs = True
    claims = [Claim(EventKey(f"one-of-many-{number}"), EAST) for number in range(500)]
    outcomes, seconds = run.call(lambda registry: registry.commit(claims))
    assert outcomes == [Won()] * 500
    assert seconds > 20


def test_a_call_over_threads_ends_with_its_deadline_too() -> None:
    goes_on = threading.Event()

    class Held(FaultyStore):
        def read(self, batch: Sequence[Any]) -> list[Any]:
            goes_on.wait(60)
            return super().read(batch)

    settings = Registry(total_timeout=timedelta(seconds=0.2), request_timeout=timedelta(seconds=60))
    goes_on.set()
    registry = memory_registry(Held(), Held(), Held(), settings=settings, clock=SystemClock())
    goes_on.clear()
    began = time.monotonic()
    with pytest.raises(RegistryUnavailable, match="no answer before the call's deadline"):
        registry.lookup(KEYS)
    assert time.monotonic() - began < 0.2 + MOST_SECONDS_LATE
    goes_on.set()
    registry.close()
