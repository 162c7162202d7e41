"""Say now and then, while batches are completed, how complete the rows are."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from photon.logs.unread_files import MOST_NAMED, UnreadFile
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.state.completeness.arrivals import Arrivals, Ints
from photon.state.completeness.estimate import Completeness, complete_up_to_us, mostly_up_to_us
from photon.state.completeness.published import publish, published

# While batches are joined it is said anew so often: readers ask every few seconds, and each time is a write.
EVERY_US, S3_EVERY_US = 10 * MICROSECONDS, 20 * MICROSECONDS
# Records of so much event time are counted for the share: older ones are decided, or not of use.
KEPT_MINUTES = 24 * 60
RETRY_US = 60 * MICROSECONDS  # after the lake took nothing

log = logging.getLogger(__name__)


class Publisher:
    """Publishes the completeness of one epoch. What it counted since it last published dies with the process.

    That makes the shares a little worse or better, and neither time too late: they go by what is stored.
    """

    def __init__(self, lake: Location, epoch: str, of_events: float) -> None:
        """Goes on from what an earlier process of the epoch has published."""
        self._lake, self._epoch, self._of_events = lake, epoch, of_events
        self._arrivals, self.said = self._earlier()
        self.read_up_to_us = None if self.said is None else self.said.read_up_to_us
        self.said_final = self.said is not None and self.said.is_final
        self.has_news = False
        self._next_us: int | None = None  # None: at once
        self._unread: Sequence[UnreadFile] = ()
        self._is_failing = False

    def _earlier(self) -> tuple[Arrivals, Completeness | None]:
        try:
            before = published(self._lake)
        except (OSError, ValueError, KeyError, FormatTooNew):
            before = None  # the statement is written anew
        if before is None or before[0].epoch != self._epoch:
            return Arrivals(), None
        return before[1], before[0]

    def came(self, records: Mapping[int, int]) -> None:
        """Take in what a completed batch has read, by the minute of its event time."""
        self._arrivals = self._arrivals.plus(records, self.read_up_to_us, KEPT_MINUTES)
        self.has_news = True

    def note_unread(self, unread: Sequence[UnreadFile]) -> None:
        """Take in which files are not read now. When others are, it is said at once: readers rely on it."""
        self._unread = unread
        before = () if self.said is None else self.said.unread_named
        if (self.said is not None or unread) and _named(unread) != before:
            self.has_news = True
            self._next_us = self._next_us if self._is_failing else None

    @property
    def _every_us(self) -> int:
        return EVERY_US if isinstance(self._lake, Path) else S3_EVERY_US  # a write there has a price

    def is_due(self, now_us: int) -> bool:
        """Whether there is something new to say, and time to say it."""
        if self._next_us is not None and self._next_us - now_us > RETRY_US + self._every_us:
            self._next_us = None  # the clock was set back
        return self.has_news and (self._next_us is None or now_us >= self._next_us)

    def say(
        self,
        read_up_to_us: int | None,
        waiting_us: Ints,
        batch: int,
        now_us: int,
        seen: Mapping[str, tuple[int, int]],
        is_final: bool = False,
    ) -> Completeness:
        """Publish what follows from how far the logs are read and from the event times of what waits.

        A lake that takes nothing stops no join: it is tried again later.
        """
        waiting_us = np.sort(waiting_us)
        if self._unread:
            read_up_to_us = self.read_up_to_us
        self.read_up_to_us, of_events = read_up_to_us, self._of_events
        said = Completeness(
            epoch=self._epoch,
            batch=batch,
            said_us=now_us,
            read_up_to_us=read_up_to_us,
            complete_up_to_us=complete_up_to_us(read_up_to_us, waiting_us),
            mostly_up_to_us=mostly_up_to_us(read_up_to_us, waiting_us, self._arrivals, of_events),
            of_events=of_events,
            waiting=len(waiting_us),
            came=sum(self._arrivals.records.values()),
            came_late=sum(self._arrivals.late.values()),
            seen=seen,
            is_final=is_final and not self._unread,
            unread=len(self._unread),
            unread_bytes=sum(one.size_bytes for one in self._unread),
            unread_named=_named(self._unread),
        )
        if self._unread:
            said = _held_back(said, self.said)
        self.said = said
        try:
            publish(self._lake, said, self._arrivals)
        except OSError as error:
            if not self._is_failing:
                log.warning("how complete the rows are could not be told, it is tried again: %s", error)
            self._is_failing, self._next_us = True, now_us + RETRY_US
            return said
        self._is_failing, self.has_news, self.said_final = False, False, said.is_final
        self._next_us = now_us + self._every_us
        return said


def _named(unread: Sequence[UnreadFile]) -> tuple[str, ...]:
    return tuple(f"{one.side} log: {one.shown}: {one.reason}" for one in unread[:MOST_NAMED])


def _held_back(said: Completeness, before: Completeness | None) -> Completeness:
    """The statement while files are not read: none of its times is later than the one before."""
    if before is None:
        return replace(said, complete_up_to_us=None, mostly_up_to_us=None)
    return replace(
        said,
        complete_up_to_us=_earlier_of(said.complete_up_to_us, before.complete_up_to_us),
        mostly_up_to_us=_earlier_of(said.mostly_up_to_us, before.mostly_up_to_us),
    )


def _earlier_of(one_us: int | None, other_us: int | None) -> int | None:
    return None if one_us is None or other_us is None else min(one_us, other_us)
