"""Where steps go: what a follower asks of standard output, a folder or PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from photon.errors import UserError
from photon.feed.step import Cursor, Step


class SinkUnavailable(UserError):
    """The sink did not answer: nobody knows whether it has the step. Its cursor will say so."""


class Sink(Protocol):
    """Takes whole steps in order. Rows and cursor move together, or a step's rows are the same again."""

    def cursor(self) -> Cursor | None:
        """The cursor behind the last step that is here whole; None: nothing was delivered. SinkUnavailable.

        It may wait for another follower.
        """

    def deliver(self, steps: Sequence[Step]) -> Cursor | None:
        """Take steps that follow one another, each with its cursor; the cursor that the sink then has.

        Another cursor than the last step's: another follower was here first, and the caller goes on from
        it. A step is only taken where the cursor is its `after`. One without rows moves the cursor alone.
        SinkUnavailable, FeedStopped.
        """

    def replace(self, step: Step) -> None:
        """Take all rows of a release in the place of everything before, and its cursor. SinkUnavailable."""
