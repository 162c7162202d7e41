"""How many requests at once an endpoint bears: fewer after one that it did not keep up with, then more again.

Additive increase and multiplicative decrease, as of TCP's congestion window. Without it a number that is
right for AWS starves a small server: all requests time out together, are sent again together, and nothing is
ever committed. What counts as an overload is decided by who sends (`photon.registry.dynamodb`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Fate = Literal["answered", "throttled", "timed_out"]


class Turn:
    """A request that may be sent now. `fate`: to be set where the endpoint did not keep up with it."""

    __slots__ = ("fate", "sent_after")

    def __init__(self, sent_after: int) -> None:
        self.sent_after = sent_after  # so many narrowings
        self.fate: Fate = "answered"


class Window:
    """The requests on their way to one endpoint: at most `most`, at least one. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._in_flight = 0
        self._waiting = 0
        self._narrowings = 0
        self._stalls = 0  # narrowings by a time-out
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many may be on their way at once, as far as is known by now."""
        return int(self._limit)

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return self._waiting

    @contextmanager
    def turn(self) -> Iterator[Turn | None]:
        """Wait until a request may be sent; None if another one timed out meanwhile.

        Or a call of many requests would wait for one time-out after the other while the window narrows. To be
        throttled costs no time: the others go on.
        """
        turn = self._enter()
        try:
            yield turn
        finally:
            if turn is not None:
                self._leave(turn)

    def _enter(self) -> Turn | None:
        with self._changed:
            stalls = self._stalls
            self._waiting += 1
            self._changed.wait_for(lambda: self._in_flight < self.limit or self._stalls != stalls)
            self._waiting -= 1
            if self._stalls != stalls:
                return None
            self._in_flight += 1
            return Turn(self._narrowings)

    def _leave(self, turn: Turn) -> None:
        with self._changed:
            if turn.fate != "answered":
                # One step for all that were on their way together: they say the same thing.
                if turn.sent_after == self._narrowings:
                    self._limit = max(1.0, min(self._limit, self._in_flight) / 2)
                    self._narrowings += 1
                    self._stalls += turn.fate == "timed_out"
            elif self._in_flight >= self.limit:  # more would have been sent
                self._limit = min(float(self._most), self._limit + 1 / self._limit)
            self._in_flight -= 1
            self._changed.notify_all()
