"""How long a call may take without getting on, and the pauses between its tries."""

from __future__ import annotations

import random
from datetime import timedelta

from photon.pipeline.sections import Registry
from photon.process.clock import MICROSECONDS, Clock

FIRST_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 1.0
MAX_YIELD_SECONDS = 2.0  # to who is in the middle of a round
# A request may take this part of `registry.deadline`. One endpoint that hangs then leaves a call time to use
# the answers of the others, and to ask four times more.
REQUESTS_IN_A_DEADLINE = 5
MACHINE_CHANCE: random.Random = random.SystemRandom()


def request_timeout(settings: Registry) -> timedelta:
    """How long one request may take of a call that has `registry.deadline`."""
    return settings.total_timeout / REQUESTS_IN_A_DEADLINE


class Deadline:
    """The time that a call may take without getting on, and the pauses between its tries (protocol B15)."""

    def __init__(self, clock: Clock, seconds: float, chance: random.Random = MACHINE_CHANCE) -> None:
        self._clock = clock
        self._chance = chance
        self._seconds = seconds
        self._tries_since_us = clock.elapsed_us()
        self.renew()

    def renew(self) -> None:
        """Begin anew: the call gets on, and a large one may take longer than the time for an answer."""
        self._end_us = self._clock.elapsed_us() + round(self._seconds * MICROSECONDS)
        self._backoff_seconds = FIRST_BACKOFF_SECONDS

    def left_seconds(self) -> float:
        """The time until it passes; 0 afterwards."""
        return max(0.0, (self._end_us - self._clock.elapsed_us()) / MICROSECONDS)

    def pause(self, outbid: bool = False) -> bool:
        """Wait, longer each time and with jitter, for the next attempt; False if the time is up by then.

        `outbid`: somebody else is in the middle of a round. He gets about as long as this attempt took, to
        end it. Two who are half a second away outbid each other for twenty seconds otherwise.
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
