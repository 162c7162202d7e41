"""Which endpoints are slow: alive, but much later with their answers than a majority, again and again.

Without this, an endpoint that takes 0.9 s makes every fast round take 0.9 s. Only time depends on it: an
endpoint that is not waited for counts as one that did not answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from photon.registry.stores.decisions import majority

# Three times as long as a majority: with it a commit takes its time and one of theirs, else four of theirs.
LATE_TIMES = 3.0
# And this much longer: endpoints may be 300 ms apart, and to go on without one costs a write more at each.
LATE_SECONDS = 0.4

LOOKED_AT = 5  # requests to an endpoint: the latest ones. If none of them was late, it is quick again
TOO_MANY_LATE = 3  # of these; one slow request is chance


class Tempo:
    """How n endpoints keep up with each other. Thread-safe."""

    def __init__(self, n: int) -> None:
        self._quorum = majority(n)
        self._lock = threading.Lock()
        self._were_late = [deque[bool](maxlen=LOOKED_AT) for _ in range(n)]
        self._slow: frozenset[int] = frozenset()

    @property
    def slow(self) -> frozenset[int]:
        """The slots of those that are slow now."""
        return self._slow

    def saw(self, slot: int, seconds: float, others: Sequence[float]) -> bool:
        """Take note of a request that took so long; `others`: of other endpoints, those answered before it.

        Whether it changed whether the endpoint is slow.
        """
        with self._lock:
            self._were_late[slot].append(is_late(seconds, others, self._quorum))
            was_slow = slot in self._slow
            is_slow = sum(self._were_late[slot]) >= (1 if was_slow else TOO_MANY_LATE)
            if is_slow != was_slow:
                self._slow ^= {slot}
            return is_slow != was_slow

    def forget(self, slot: int) -> None:
        """Treat the endpoint as a quick one: another store has taken its place."""
        with self._lock:
            self._were_late[slot].clear()
            self._slow -= {slot}


def is_late(seconds: float, others: Sequence[float], quorum: int) -> bool:
    """Whether a request took much longer than the same one at a majority of the endpoints."""
    if len(others) < quorum:
        return False
    usual = sorted(others)[quorum - 1]
    return seconds > LATE_TIMES * usual and seconds > usual + LATE_SECONDS
