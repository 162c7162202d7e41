"""Objects that a store lists and does not give: some of them hold up no others, of many the store is away."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from photon.logs.discovery import FileProblem
from photon.logs.source import LogsUnavailable, problem_of
from photon.process.clock import MICROSECONDS

# A few objects of a log that are listed and can't be read hold up no others. If more fail, the store is away:
# all of them wait, so that no event is given up whose primary may be in one of them.
MOST_OBJECTS = 16
FIRST_PAUSE_US, MOST_PAUSE_US = 1 * MICROSECONDS, 60 * MICROSECONDS  # before it is asked for again
AWAITED_US = 60 * MICROSECONDS  # so long a run that ends when it is idle waits for one


@dataclass(frozen=True, slots=True)
class _Entry:
    problem: FileProblem
    since_us: int
    pause_us: int
    again_us: int


class UnreadableObjects:
    """The objects of one log that can't be read now, by their numbers, at most so many."""

    def __init__(self, most: int = MOST_OBJECTS) -> None:
        self._most = most
        self._entries: dict[int, _Entry] = {}
        self._now_us = 0  # time of the last look

    def begin_look(self, now_us: int) -> None:
        """Note the time of a new look."""
        self._now_us = now_us

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_awaited(self) -> bool:
        """Whether one of them has not been unreadable for long."""
        return any(self._now_us - each.since_us < AWAITED_US for each in self._entries.values())

    def held(self, number: int) -> FileProblem | None:
        """The problem with an object that is not to be asked for yet; None: it may be asked for."""
        entry = self._entries.get(number)
        return entry.problem if entry is not None and self._now_us < entry.again_us else None

    def put(self, number: int, path: str, error: LogsUnavailable) -> FileProblem:
        """Set an object aside for a while. Raises the error again if there are too many."""
        before = self._entries.get(number)
        if before is None and len(self._entries) >= self._most:
            raise error
        since_us = self._now_us if before is None else before.since_us
        pause_us = FIRST_PAUSE_US if before is None else min(2 * before.pause_us, MOST_PAUSE_US)
        problem = problem_of(path, error)
        self._entries[number] = _Entry(problem, since_us, pause_us, self._now_us + pause_us)
        return problem

    def was_read(self, number: int) -> None:
        """An object can be read, for the first time or again."""
        self._entries.pop(number, None)

    def keep(self, numbers: Collection[int]) -> None:
        """Forget those that are not listed any more."""
        self._entries = {number: entry for number, entry in self._entries.items() if number in numbers}
