"""Which endpoints are slow: alive, but much later with their answers than a majority, again and again.

Without this, an endpoint that takes 0.9 s makes every fast round take 0.9 s. Only time depends on it: an
endpoint that is not waited for counts as one that did not answer.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Mapping

from photon.registry.stores.decisions import majority

# Three times as long as a majority: with it an offer takes its time and one of theirs, else four of theirs.
LATE_TIMES = 3.0
# And this much longer: endpoints may be 300 ms apart, and to go on without one costs a write more at each.
LATE_SECONDS = 0.4

LOOKED_AT = 5  # requests that all were sent: the latest ones. Their median tells: one slow request is chance
LEAST_LOOKED_AT = 3  # before that a new connection looks slow


class Tempo:
    """How quickly n endpoints answer what all of them are asked. Thread-safe."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._lock = threading.Lock()
        self._took = [deque[float](maxlen=LOOKED_AT) for _ in range(n)]
        self._usual: dict[int, float] = {}  # seconds by slot
        self.slow: frozenset[int] = frozenset()

    def usual_seconds(self, slot: int) -> float:
        """What its requests take lately; 0 while nobody knows."""
        return self._usual.get(slot, 0.0)

    def took(self, slot: int, seconds: float) -> None:
        """Take note of one request."""
        with self._lock:
            self._took[slot].append(seconds)
            self._usual[slot] = statistics.median_low(self._took[slot])
            known = {
                at: self._usual[at] for at, some in enumerate(self._took) if len(some) >= LEAST_LOOKED_AT
            }
            self.slow = slow_of(known, majority(self._n))

    def forget(self, slot: int) -> None:
        """Treat the endpoint as a quick one: another store has taken its place."""
        with self._lock:
            self._took[slot].clear()
            self._usual.pop(slot, None)
            self.slow -= {slot}


def slow_of(usual: Mapping[int, float], quorum: int) -> frozenset[int]:
    """Those that take much longer than a majority of the endpoints."""
    if len(usual) < quorum:
        return frozenset()
    theirs = sorted(usual.values())[quorum - 1]
    late = max(LATE_TIMES * theirs, theirs + LATE_SECONDS)
    return frozenset(slot for slot, seconds in usual.items() if seconds > late)
