"""How many requests at once an endpoint bears: fewer after one that it did not keep up with, then more again.

Additive increase and multiplicative decrease after a slow start, as of TCP's congestion window
(docs/adr/0017). Without it a number that is right for AWS starves a small server: all requests time out
together, are sent again together, and nothing is ever committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from photon.registry.stores.copies import NoReply

FIRST_LIMIT = 4  # what any server bears; one that bears more is sent more after a few answers
# Once it was too much, grow at most 2 % a reply. Some servers bear one request at a time: trying two after
# each reply would cost such a one every other reply.
MOST_GROWTH = 0.02


class ConcurrencyLimit:
    """Limits the requests in flight to one endpoint: at most `most`, at least one. Not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(FIRST_LIMIT, most))
        self._in_flight = 0
        self._reductions = 0

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many requests have begun and not ended."""
        return self._in_flight

    def take(self) -> int | None:
        """Begin a request: how often the limit was reduced so far. None if there is no room for it now."""
        if self._in_flight >= self.limit:
            return None
        self._in_flight += 1
        return self._reductions

    def give_back(self, reductions: int, kept_up: bool) -> None:
        """End a request, with what `take` returned for it; `kept_up`: whether the endpoint did."""
        if kept_up and self._in_flight >= self.limit:  # more would have been sent
            growth = min(1 / self._limit, MOST_GROWTH * self._limit) if self._reductions else 1.0
            self._limit = min(float(self._most), self._limit + growth)
        # Reduce once for all requests that were in flight together: they say the same thing.
        if not kept_up and reductions == self._reductions:
            self._limit = max(1.0, min(self._limit, self._in_flight) / 2)
            self._reductions += 1
        self._in_flight -= 1


def is_overloaded(replies: Sequence[object]) -> bool:
    """Whether an endpoint did not keep up: it was silent, or throttled a request wholly or in part."""
    kinds = {reply.kind for reply in replies if isinstance(reply, NoReply)}
    return bool(kinds & {"unreachable", "throttled"})
