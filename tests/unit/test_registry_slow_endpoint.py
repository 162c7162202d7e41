"""Which endpoints are slow, so that nobody waits for them (protocol B13)."""

from __future__ import annotations

import pytest

from photon.registry.stores.tempo import LOOKED_AT, TOO_MANY_LATE, Tempo, is_late

USUAL = [0.01, 0.01]


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
