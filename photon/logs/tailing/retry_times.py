"""When files that can't be read are tried again: seldom, so that thousands of them cost no scan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from photon.logs.discovery import FileProblem, FoundFile
from photon.process.clock import MICROSECONDS

FIRST_PAUSE_US, MOST_PAUSE_US = 1 * MICROSECONDS, 60 * MICROSECONDS  # before an unchanged file is tried again
MOST_RETRIES = 64  # at a look, those that have waited longest
# At a look: then the others wait for the next one. A store may take a minute to fail, and refuses at once.
MOST_FAILURES, MOST_REFUSALS = 16, 512


@dataclass(frozen=True, slots=True)
class _Failure:
    problem: FileProblem
    pause_us: int
    again_us: int


class RetryTimes:
    """The files of one log that could not be read, as they were then: a changed one is tried at once."""

    def __init__(self) -> None:
        self._failures: dict[FoundFile, _Failure] = {}
        self._due: set[FoundFile] = set()
        self._now_us = 0  # time of the last look
        self._failed = self._refused = 0  # at this look

    def begin_look(self, now_us: int) -> None:
        """Choose those that this look tries again."""
        self._now_us, self._failed, self._refused = now_us, 0, 0
        due = [(one.again_us, file.path) for file, one in self._failures.items() if one.again_us <= now_us]
        first = set(nsmallest(MOST_RETRIES, due))
        self._due = {file for file, one in self._failures.items() if (one.again_us, file.path) in first}

    def held(self, file: FoundFile) -> FileProblem | None:
        """The problem with a file that is not to be tried yet; None: it may be."""
        failure = self._failures.get(file)
        return None if failure is None or file in self._due else failure.problem

    @property
    def is_enough(self) -> bool:
        """Whether so many failed at this look that no others are tried."""
        return self._failed >= MOST_FAILURES or self._refused >= MOST_REFUSALS

    def put(self, file: FoundFile, problem: FileProblem, of_store: bool = False) -> FileProblem:
        """Note that a file could not be read, and why. `of_store`: each try may take long."""
        before = self._failures.get(file)
        pause_us = FIRST_PAUSE_US if before is None else min(2 * before.pause_us, MOST_PAUSE_US)
        self._failures[file] = _Failure(problem, pause_us, self._now_us + pause_us)
        self._due.discard(file)
        if of_store:
            self._failed += problem.may_pass
            self._refused += not problem.may_pass
        return problem

    def was_read(self, file: FoundFile) -> None:
        """A file can be read, for the first time or again."""
        self._failures.pop(file, None)

    def keep(self, there: Iterable[FoundFile]) -> None:
        """Forget those that are gone, or have changed."""
        if self._failures:
            self._failures = {file: self._failures[file] for file in there if file in self._failures}
