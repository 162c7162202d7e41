"""How many requests at once an endpoint bears: fewer after one that it did not keep up with, then more again.

Additive increase and multiplicative decrease, as of TCP's congestion window (docs/adr/0022). Without it a
number that is right for AWS starves a small server: all requests time out together, are sent again together,
and nothing is ever committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from photon.registry.consensus.acceptor import NoReply

R = TypeVar("R")

# Grow at most 2 % a reply. Some servers bear one request at a time: trying two after each reply would cost
# such a one every other reply.
MOST_GROWTH = 0.02


class ConcurrencyLimit:
    """Limits the requests in flight to one endpoint: at most `most`, at least one. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._in_flight = 0
        self._reductions = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    def send(self, request: Callable[[], list[R]]) -> list[R]:
        """Wait until there is room, then send the request."""
        reductions = self.acquire()
        kept_up = True
        try:
            replies = request()
            kept_up = not is_overloaded(replies)
            return replies
        finally:
            self.release(reductions, kept_up)

    def acquire(self) -> int:
        """Wait until there is room for a request; how often the limit had been reduced by then."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1
            return self._reductions

    def release(self, reductions: int, kept_up: bool) -> None:
        """End a request, with what `acquire` returned for it; `kept_up`: whether the endpoint did."""
        with self._changed:
            if kept_up and self._in_flight >= self.limit:  # more would have been sent
                growth = min(1 / self._limit, MOST_GROWTH * self._limit)
                self._limit = min(float(self._most), self._limit + growth)
            # Reduce once for all requests that were in flight together: they say the same thing.
            if not kept_up and reductions == self._reductions:
                self._limit = max(1.0, min(self._limit, self._in_flight) / 2)
                self._reductions += 1
            self._in_flight -= 1
            self._changed.notify_all()


def is_overloaded(replies: Sequence[object]) -> bool:
    """Whether an endpoint did not keep up: it was silent, or throttled a request wholly or in part."""
    kinds = {reply.kind for reply in replies if isinstance(reply, NoReply)}
    return bool(kinds & {"unreachable", "throttled"})
