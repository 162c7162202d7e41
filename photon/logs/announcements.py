"""New files are announced before a look finds them.

An announcement makes the next look come sooner, and cheaper, and no more: it may be lost, doubled or
late. Only looks say which files are there.
"""

from __future__ import annotations

import threading
from collections import deque

from photon.process.clock import Clock

MOST_TOLD = 10_000  # kept for the next look; a look finds older ones by itself
GATHERING_SECONDS = 0.02  # news right behind is for the same look


class Announcements:
    """Paths below the logs folder that were told of and not yet taken. Thread-safe."""

    def __init__(self, may_come: bool = False) -> None:
        """`may_come`: somebody will `tell`."""
        self._may_come = may_come
        self._told: deque[str] = deque(maxlen=MOST_TOLD)
        self._bell = threading.Event()
        self._is_live = False

    def begin(self) -> None:
        """From now on somebody tells of each new file; of those before a look finds out."""
        if not self._is_live:
            self._is_live = True
            self._bell.set()

    def end(self) -> None:
        """Nobody tells of new files any more."""
        self._is_live = False
        self._told.clear()

    def tell(self, path: str) -> None:
        """Have the next look ask for a file, and come at once."""
        self._told.append(path)
        self._bell.set()

    def take(self) -> list[str] | None:
        """The paths that are new since the last call; None: nobody tells."""
        self._bell.clear()
        if not self._is_live:
            return None
        return [self._told.popleft() for _ in range(len(self._told))]

    def rest(self, clock: Clock, seconds: float) -> None:
        """Sleep until something is told, or for so long."""
        if not self._may_come:
            clock.sleep(seconds)
        elif self._bell.wait(seconds):
            clock.sleep(min(seconds, GATHERING_SECONDS))
