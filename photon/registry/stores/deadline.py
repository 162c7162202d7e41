"""Limits how long a call may go without progress, and paces its attempts."""

from __future__ import annotations

import random
from datetime import timedelta

from photon.pipeline.sections import Registry
from photon.process.clock import MICROSECONDS, Clock

FIRST_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 1.0
MAX_YIELD_SECONDS = 2.0  # the longest time left to another client to end its round
# One request may take a fifth of `registry.deadline`. If one endpoint hangs, its call still has time to use
# the answers of the others, and to ask four times more.
REQUESTS_IN_A_DEADLINE = 5
MACHINE_CHANCE: random.Random = random.SystemRandom()


def request_timeout(settings: Registry) -> timedelta:
    """The time-out of one request; its call has all of `registry.deadline`."""
    return settings.total_timeout / REQUESTS_IN_A_DEADLINE


class Deadline:
    """Ends a call that makes no progress, and paces its attempts, by a monotonic clock (protocol B15)."""

    def __init__(self, clock: Clock, seconds: float, chance: random.Random = MACHINE_CHANCE) -> None:
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self._tries_since_us = clock.elapsed_us()
        self.renew()

    def renew(self) -> None:
        """Start the time anew, since the call made progress: a large call may take longer in all."""
        self._end_us = self._clock.elapsed_us() + round(self._seconds * MICROSECONDS)
        self._backoff_seconds = FIRST_BACKOFF_SECONDS

    def left_seconds(self) -> float:
        """The time until the deadline; 0 once it has passed."""
        return max(0.0, (self._end_us - self._clock.elapsed_us()) / MICROSECONDS)

    def pause(self, outbid: bool = False) -> bool:
        """Wait before the next attempt, longer each time and with jitter; False if the time is up then.

        `outbid`: another client is in the middle of a round, and gets about as long to end it as this attempt
        took. Otherwise two clients half a second away outbid each other for twenty seconds.
        """
        left_seconds = self.left_seconds()
        if left_seconds:
            took_seconds = (self._clock.elapsed_us() - self._tries_since_us) / MICROSECONDS
            yield_seconds = min(took_seconds, MAX_YIELD_SECONDS) if outbid else 0.0
            wait_seconds = max(self._backoff_seconds, yield_seconds)
            # Jitter: proposers that collided once must not do so again and again.
            self._clock.sleep(min(wait_seconds * self._chance.uniform(0.5, 1.0), left_seconds))
            self._backoff_seconds = min(2 * self._backoff_seconds, MAX_BACKOFF_SECONDS)
            self._tries_since_us = self._clock.elapsed_us()
        return self.left_seconds() > 0
