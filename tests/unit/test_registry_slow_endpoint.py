"""Nobody waits for an endpoint that is slow; a majority's pace says which are (protocol B13)."""

from __future__ import annotations

import pytest

from photon.registry.stores.health import LEAST_LOOKED_AT, LOOKED_AT, EndpointsHealth, slow_of
from tests.support.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("usual", "slow"),
    [
        ({0: 0.01, 1: 0.02, 2: 0.9}, {2}),
        ({0: 0.01, 2: 0.9}, set()),  # endpoint 1 is unknown, and may be as slow
        ({2: 0.9}, set()),  # two endpoints are unknown
        ({0: 0.01, 1: 0.4, 2: 0.9}, set()),  # a majority is busy too
        ({0: 0.02, 1: 0.02, 2: 0.3}, set()),  # endpoint 2 is only far away
        ({0: 0.9, 1: 0.01, 2: 0.9}, set()),  # every majority needs one of the slow two
        ({}, set()),
    ],
)
def test_slow_is_who_takes_much_longer_than_a_majority(usual: dict[int, float], slow: set[int]) -> None:
    assert slow_of(usual, quorum=2) == slow


def test_an_endpoint_that_is_late_again_and_again_is_slow_until_it_is_in_time_again() -> None:
    health = EndpointsHealth(3, ManualClock())
    slow = []
    for seconds in (0.01, 0.9, 0.01, 0.9, 0.9, *[0.01] * LOOKED_AT):
        for slot in range(3):
            health.took(slot, seconds if slot == 2 else 0.01)
        slow.append(health.slow)
    assert next(number for number, some in enumerate(slow) if some) == 4
    assert slow[-3:] == [frozenset()] * 3


def test_one_late_answer_is_chance() -> None:
    health = EndpointsHealth(3, ManualClock())
    for seconds in (0.01, 0.01, 5.0, 0.01):
        for slot in range(3):
            health.took(slot, seconds if slot == 2 else 0.01)
        assert health.slow == frozenset()


def test_a_store_that_takes_the_place_of_a_slow_one_is_not_slow() -> None:
    health = EndpointsHealth(3, ManualClock())
    for _ in range(LEAST_LOOKED_AT):
        assert health.slow == frozenset()  # a new connection takes longer
        for slot in range(3):
            health.took(slot, 0.9 if slot == 2 else 0.01)
    assert health.slow == {2}
    health.forget(2)
    assert health.slow == frozenset()
