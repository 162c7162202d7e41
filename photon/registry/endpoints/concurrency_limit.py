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

# An answer widens a window by this part of it at the most. One at a time is all that some servers bear, and
# trying two after each answer would cost such a one every other answer.
MOST_GROWTH = 0.02


class ConcurrencyLimit:
    """The requests on their way to one endpoint: at most `most`, at least one. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._in_flight = 0
        self._narrowings = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many may be on their way at once, as far as is known by now."""
        return int(self._limit)

    def send(self, request: Callable[[], list[R]]) -> list[R]:
        """What a request brings, once there is room for it."""
        sent_after = self.enter()
        kept_up = True
        try:
            replies = request()
            kept_up = not is_overloaded(replies)
            return replies
        finally:
            self.leave(sent_after, kept_up)

    def enter(self) -> int:
        """Wait until there is room for a request; how often the window had narrowed when there was."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1
            return self._narrowings

    def leave(self, sent_after: int, kept_up: bool) -> None:
        """A request has ended that entered then. `kept_up`: whether the endpoint kept up with it."""
        with self._changed:
            if kept_up and self._in_flight >= self.limit:  # more would have been sent
                step = min(1 / self._limit, MOST_GROWTH * self._limit)
                self._limit = min(float(self._most), self._limit + step)
            # One step for all that were on their way together: they say the same thing.
            if not kept_up and sent_after == self._narrowings:
                self._limit = max(1.0, min(self._limit, self._in_flight) / 2)
                self._narrowings += 1
            self._in_flight -= 1
            self._changed.notify_all()


def is_overloaded(replies: Sequence[object]) -> bool:
    """Whether an endpoint did not keep up: it was silent, or throttled a request wholly or in part."""
    kinds = {reply.kind for reply in replies if isinstance(reply, NoReply)}
    return bool(kinds & {"unreachable", "throttled"})
