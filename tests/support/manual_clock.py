"""A clock for tests and measurements of long times: it moves without waiting."""

from __future__ import annotations

from photon.process.clock import MICROSECONDS


class ManualClock:
    """Moves only by `advance`, and by the `sleep` of somebody who waits."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us
        self._elapsed_us = 0

    def now_us(self) -> int:
        return self._now_us

    def elapsed_us(self) -> int:
        return self._elapsed_us

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._now_us += round(seconds * MICROSECONDS)
        self._elapsed_us += round(seconds * MICROSECONDS)

    def set_back(self, seconds: float) -> None:
        """Set the time of day back, as a person or a time server does; what has elapsed stays."""
        self._now_us -= round(seconds * MICROSECONDS)
