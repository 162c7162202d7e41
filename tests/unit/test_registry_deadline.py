"""A call that gets on may take longer than its deadline, and one that does not ends with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from photon.registry.endpoints.deadline import FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS

from photon.clock import MICROSECONDS
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.deadline import Deadline
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.interface import Claim, Holder, Joined, Released, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

EAST = "east:e:1#p:1:0"
CLAIMS = [Claim(EventKey(f"id-{number}"), EAST) for number in range(10)]
KEYS = [claim.key for claim in CLAIMS]
DEADLINE_SECONDS = 2.0
REQUEST_SECONDS = 0.4
THROTTLED = NoReply("too many requests", "throttled")


class Throttling(FaultyStore):
    """A slow store that does only so many items of a request."""

    items_per_request: int | None = None  # None: all

    def _serve(self, kind: str, batch: Sequence[Any], apply: Any) -> list[Any]:
        bound = len(batch) if self.items_per_request is None else self.items_per_request
        done = super()._serve(kind, batch[:bound], apply)
        return [*done, *[THROTTLED] * (len(batch) - len(done))]

    def slow_down(self, items_per_request: int) -> None:
        self.items_per_request = items_per_request
        self.slow_seconds = REQUEST_SECONDS


class SetBackAtEachSleep(ManualClock):
    """A time server sets the time of day back, again and again, by ten minutes."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.set_back(600.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Throttling:
    return Throttling(clock)


@pytest.fixture
def registry(store: Throttling, clock: ManualClock) -> QuorumRegistry:
    return memory_registry(
        store, clock=clock, settings=Registry(total_timeout=timedelta(seconds=DEADLINE_SECONDS))
    )


CALLS: dict[str, tuple[Callable[[QuorumRegistry], object], object]] = {
    "lookup": (lambda registry: registry.lookup(KEYS), [Joined(Holder("east", EAST))] * len(KEYS)),
    "tokens": (lambda registry: registry.tokens_anywhere(KEYS), [frozenset({EAST})] * len(KEYS)),
    "release": (lambda registry: registry.release(CLAIMS), [Released()] * len(KEYS)),
    "clear": (lambda registry: registry.clear(CLAIMS), len(KEYS)),
}


def test_a_commit_goes_on_for_as_long_as_some_ids_get_through(
    registry: QuorumRegistry, store: Throttling, clock: ManualClock
) -> None:
    store.slow_down(items_per_request=1)
    assert registry.commit(CLAIMS) == [Won()] * len(CLAIMS)
    assert clock.now_us() > 3 * DEADLINE_SECONDS * 1_000_000


@pytest.mark.parametrize("call", CALLS)
def test_a_call_goes_on_for_as_long_as_some_ids_get_through(
    call: str, registry: QuorumRegistry, store: Throttling, clock: ManualClock
) -> None:
    ask, expected = CALLS[call]
    registry.commit(CLAIMS)
    store.slow_down(items_per_request=1)
    assert ask(registry) == expected
    assert clock.now_us() > 3 * DEADLINE_SECONDS * 1_000_000


def test_a_lookup_that_does_not_get_on_ends_with_its_deadline(
    registry: QuorumRegistry, store: Throttling, clock: ManualClock
) -> None:
    registry.commit(CLAIMS)
    store.slow_down(items_per_request=0)
    with pytest.raises(RegistryUnavailable, match="too many requests"):
        registry.lookup(KEYS)
    assert clock.now_us() < 3 * DEADLINE_SECONDS * 1_000_000


def test_a_call_ends_with_its_deadline_though_the_time_of_day_is_set_back() -> None:
    clock = SetBackAtEachSleep()
    store = Throttling(clock)
    registry = memory_registry(
        store, clock=clock, settings=Registry(total_timeout=timedelta(seconds=DEADLINE_SECONDS))
    )
    registry.commit(CLAIMS)
    store.slow_down(items_per_request=0)
    began_us = clock.elapsed_us()
    with pytest.raises(RegistryUnavailable, match="too many requests"):
        registry.lookup(KEYS)
    assert clock.elapsed_us() - began_us < 3 * DEADLINE_SECONDS * 1_000_000


def test_a_deadline_of_days_has_pauses_of_a_second_at_most() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, seconds=3_600.0)
    longest_us = 0
    while True:
        before_us = clock.elapsed_us()
        if not deadline.pause():
            break
        longest_us = max(longest_us, clock.elapsed_us() - before_us)
    assert longest_us <= MAX_BACKOFF_SECONDS * 1_000_000
    assert clock.elapsed_us() == 3_600 * 1_000_000


def test_no_attempt_follows_the_pause_with_which_the_time_is_up() -> None:
    deadline = Deadline(ManualClock(), seconds=1.0)
    while deadline.pause():
        assert deadline.left_seconds() > 0


@pytest.mark.parametrize(("took_seconds", "least", "most"), [(1.6, 0.8, 1.6), (60.0, 1.0, 2.0)])
def test_who_is_outbid_gives_the_other_about_as_long_as_a_round_takes(
    took_seconds: float, least: float, most: float
) -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 3_600, random.Random(1))
    for _ in range(5):
        clock.sleep(took_seconds)
        began_us = clock.elapsed_us()
        deadline.pause(outbid=True)
        assert least <= (clock.elapsed_us() - began_us) / MICROSECONDS <= most


def test_who_is_not_outbid_goes_on_soon_after_a_long_attempt() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 3_600, random.Random(1))
    clock.sleep(60)
    began_us = clock.elapsed_us()
    deadline.pause()
    assert clock.elapsed_us() - began_us <= FIRST_BACKOFF_SECONDS * MICROSECONDS
