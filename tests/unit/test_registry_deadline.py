"""A call ends with its deadline, and pauses between its tries, longer each time."""

from __future__ import annotations

import random

import pytest

from photon.process.clock import MICROSECONDS
from photon.registry.stores.deadline import FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, Deadline
from tests.support.manual_clock import ManualClock


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
