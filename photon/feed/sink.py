"""Where steps go: what a follower asks of standard output, a folder or PostgreSQL.

A sink's *cursor* is the release that it has, whole and with all that it says of its parts: so the next step
needs no copy of it, and a release of another registry is not taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from photon.feed.step import FedTable, Step
from photon.process.errors import UserError
from photon.releases.release import Release
from photon.storage.full_disks import why_not


@dataclass(frozen=True, slots=True)
class Fed:
    """The rows that a sink is fed with: a table of the pipeline of this file."""

    pipeline: Path
    name: str  # the pipeline's
    table: FedTable = "joined"

    def __str__(self) -> str:
        return f"{self.table} rows of {self.name}"


class SinkUnavailable(UserError):
    """The sink did not answer: nobody knows whether it has the step. Its cursor will say so."""


@contextmanager
def sink_errors(place: object) -> Iterator[None]:
    """Raise an OSError as SinkUnavailable that names the place."""
    try:
        yield
    except OSError as error:
        why = why_not(error, place) if isinstance(place, Path) else error
        raise SinkUnavailable(f"{place} can't be used: {why}") from None


def in_turn(
    cursor: Release | None, steps: Iterable[Step], take: Callable[[Step], Release | None]
) -> Release | None:
    """Take steps, as long as each follows on the cursor; where the cursor then is, as `take` says."""
    for step in steps:
        if cursor != step.after:
            break
        cursor = take(step)
    return cursor


class Sink(Protocol):
    """Takes whole steps in order. Rows and cursor move together, or a step's rows are the same again.

    `takes_changes`: whether it is given steps that take something back. `is_log`: it is a log of inserts, so
    that rows which leave do not matter to it, whatever became of them. `is_table`: it begins with the newest
    release, for it is the same in the end, and sooner.
    """

    takes_changes: bool
    is_log: bool
    is_table: bool

    def cursor(self) -> Release | None:
        """The release of the last step that is here whole; None: nothing was delivered. SinkUnavailable.

        It may wait for another follower.
        """

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        """Take steps that follow one another, each with its cursor; the cursor that the sink then has.

        Another one than the last step's release: another follower was here first, and the caller goes on from
        there. A step is only taken where the cursor is its `after`. One without rows moves the cursor alone.
        SinkUnavailable, FeedStopped.
        """

    def replace(self, step: Step) -> None:
        """Take all rows of a release in the place of everything before, and its cursor. SinkUnavailable."""
