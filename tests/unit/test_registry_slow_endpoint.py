"""An endpoint that is slow is not waited for, and inserts with a promise make up for it (protocol B13)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from photon.ledger.stores.channel import ASIDE_AT_ONCE
from photon.ledger.stores.decisions import fast_quorum, majority
from photon.ledger.stores.tempo import LOOKED_AT, TOO_MANY_LATE, Tempo, is_late
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.decisions import recover
from photon.registry.consensus.layout import fast_value
from photon.registry.interface import Claim, Free, Joined, Lost, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
SETTINGS = Registry(total_timeout=timedelta(seconds=5))
USUAL = [0.01, 0.01]


def claims(count: int, token: str = EAST, prefix: str = "id") -> list[Claim]:
    return [Claim(EventKey(f"{prefix}-{number}"), token) for number in range(count)]


# -- who is slow: pure


@pytest.mark.parametrize(
    ("seconds", "others", "is_so"),
    [
        (0.9, [0.01, 0.02], True),
        (0.9, [0.01], False),  # it is one of the first two
        (0.9, [0.4, 0.01], False),  # a majority is busy too
        (0.3, [0.02, 0.02], False),  # it is far away
        (0.9, [], False),
    ],
)
def test_late_is_who_takes_much_longer_than_a_majority(
    seconds: float, others: list[float], is_so: bool
) -> None:
    assert is_late(seconds, others, quorum=2) == is_so


def test_an_endpoint_that_is_late_again_and_again_is_slow_until_it_is_in_time_again() -> None:
    tempo = Tempo(3)
    changes = [tempo.saw(2, seconds, USUAL) for seconds in (0.9, 0.01, 0.9, 0.01, 0.9)]
    assert (changes, tempo.slow) == ([False] * 4 + [True], {2})
    assert [tempo.saw(2, 0.01, USUAL) for _ in range(LOOKED_AT)] == [False] * 4 + [True]
    assert tempo.slow == frozenset()


def test_a_store_that_takes_the_place_of_a_slow_one_is_not_slow() -> None:
    tempo = Tempo(3)
    for _ in range(TOO_MANY_LATE):
        tempo.saw(2, 0.9, USUAL)
    tempo.forget(2)
    assert tempo.slow == frozenset()


# -- what follows


class Held(FaultyStore):
    """An endpoint that does not answer while it is held back."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.came = Counter[str]()

    def _serve(self, kind: str, batch: Sequence[Any], apply: Callable[[Any], Any]) -> list[Any]:
        self.came[kind] += 1
        assert self.goes_on.wait(60)
        return super()._serve(kind, batch, apply)


def registry_over(*acceptors: FaultyStore, slow: Sequence[int] = ()) -> QuorumRegistry:
    registry = memory_registry(*acceptors, clock=ManualClock(), settings=SETTINGS)
    for slot in slow:
        make_slow(registry, slot)
    return registry


def make_slow(registry: QuorumRegistry, slot: int) -> None:
    for _ in range(LOOKED_AT):
        registry.health.took(slot, 0.9, USUAL)
    assert slot in registry.health.tempo.slow


def asked_of(acceptors: Sequence[FaultyStore]) -> Counter[str]:
    """The requests about ids from now on, by kind."""
    kinds = Counter[str]()

    def count(kind: str, batch: Sequence[Any]) -> None:
        kinds[kind] += sum(getattr(one, "key", one).s.startswith("iid") for one in batch)

    for acceptor in acceptors:
        acceptor.on_request = count
    return kinds


def test_a_slow_endpoint_holds_up_neither_commits_nor_lookups() -> None:
    slow = Held()
    registry = registry_over(FaultyStore(), FaultyStore(), slow, slow=[2])
    slow.goes_on.clear()
    slow.came.clear()
    assert registry.commit(claims(500)) == [Won()] * 500
    assert isinstance(registry.commit(claims(1, WEST))[0], Lost)
    assert isinstance(registry.lookup([claims(1)[0].key])[0], Joined)
    slow.goes_on.set()
    registry.close()
    assert slow.came.total() == ASIDE_AT_ONCE


def test_a_lookup_waits_for_a_slow_endpoint_where_the_others_prove_nothing() -> None:
    acceptors = [FaultyStore(), FaultyStore(), Held()]
    registry = registry_over(*acceptors)
    registry.commit(claims(250))  # without a ballot: two copies of three are no proof
    make_slow(registry, 2)
    new = [claim.key for claim in claims(250, prefix="new")]
    found = registry.lookup([*(claim.key for claim in claims(250)), *new])
    assert found.are(Joined).tolist() == [True] * 250 + [False] * 250
    registry.close()


def test_a_lookup_of_new_ids_waits_for_no_slow_endpoint() -> None:
    slow = Held()
    registry = registry_over(FaultyStore(), FaultyStore(), slow, slow=[2])
    slow.goes_on.clear()
    assert registry.lookup([claim.key for claim in claims(250)]) == [Free()] * 250
    slow.goes_on.set()
    registry.close()


def test_a_slow_endpoint_that_a_majority_needs_is_waited_for() -> None:
    acceptors = [FaultyStore() for _ in range(3)]
    registry = registry_over(*acceptors, slow=[2])
    acceptors[0].fail("down")
    assert registry.commit(claims(30)) == [Won()] * 30
    registry.close()


@pytest.mark.parametrize(("n", "down"), [(3, 1), (5, 2)])
def test_without_a_fast_quorum_a_commit_writes_twice_to_each_endpoint_and_prepares_nothing(
    n: int, down: int
) -> None:
    acceptors = [FaultyStore() for _ in range(n)]
    registry = registry_over(*acceptors)
    for acceptor in acceptors[:down]:
        acceptor.fail("down")
    registry.commit(claims(1, prefix="noticed"))
    asked = asked_of(acceptors[down:])
    assert registry.commit(claims(50)) == [Won()] * 50
    registry.close()
    assert +asked == {"insert": 50 * (n - down), "accept": 50 * (n - down)}


def test_while_all_is_well_no_item_keeps_a_promise() -> None:
    acceptors = [FaultyStore() for _ in range(3)]
    registry = registry_over(*acceptors)
    registry.commit(claims(30))
    registry.close()
    stored = [item for a in acceptors for key, item in a.items.items() if key.s.startswith("iid")]
    assert set(stored) == {Stored(fast_value(EAST))}


def test_an_id_that_somebody_else_has_is_lost_though_inserts_promise() -> None:
    acceptors = [FaultyStore() for _ in range(3)]
    registry = registry_over(*acceptors)
    registry.commit(claims(10, WEST))
    acceptors[1].fail("down")
    registry.commit(claims(1, prefix="noticed"))
    outcomes = registry.commit(claims(20))
    assert [type(outcome) for outcome in outcomes] == [Lost] * 10 + [Won] * 10
    registry.close()


@pytest.mark.parametrize("n", [1, 3, 5])
def test_of_promises_that_came_with_an_insert_a_recovery_goes_on_with_what_was_inserted(n: int) -> None:
    for promised in range(majority(n), n + 1):
        assert recover([Stored("T:x")] * promised, n) == "T:x"
    assert fast_quorum(n) >= majority(n)
