"""From what is read and what waits to the times up to which rows are complete. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from photon.logs.files import TrackedFile
from photon.process.clock import in_utc
from photon.process.readable import counted
from photon.state.completeness.arrivals import Arrivals, Ints


@dataclass(frozen=True)
class Completeness:
    """Up to which event time the rows of a datacenter's logs are complete, at one moment.

    Every record before `complete_up_to_us` that had come is decided: joined, here or elsewhere, or counted in
    another class, and none waits. Of those before `mostly_up_to_us` at least the share `of_events` is.
    """

    epoch: str
    batch: int  # the last one that was completed
    said_us: int
    read_up_to_us: int | None  # foreign logs are; None: nothing with a time is read
    complete_up_to_us: int | None
    mostly_up_to_us: int | None
    of_events: float
    waiting: int  # records
    came: int  # records of the time that is kept, a day by default
    came_late: int  # records that came when the logs were read beyond their minute
    # Each datacenter's last closed epoch and batch: the rows of records joined elsewhere are up to there.
    seen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_final: bool = False  # somebody has called the logs complete: no more comes
    unread: int = 0  # files of the logs that are there and not read: until they are, no time goes on
    unread_bytes: int = 0
    unread_named: tuple[str, ...] = ()  # some of them, with the reasons

    @property
    def late_share(self) -> float:
        """How wrong it has been: the share of the records that came with logs read beyond them."""
        return self.came_late / self.came if self.came else 0.0

    def sentence(self) -> str:
        """Up to when rows are complete, when that was said, and how much came late; for people."""
        if self.complete_up_to_us is None or self.mostly_up_to_us is None:
            return "complete up to no event time yet"
        up_to, mostly = in_utc(self.complete_up_to_us, "seconds"), in_utc(self.mostly_up_to_us, "seconds")
        return (
            f"complete up to {up_to}, {100 * self.of_events:g} % up to {mostly}, as of "
            f"{in_utc(self.said_us, 'seconds')}; {self.came_late:,} of the latest "
            f"{counted(self.came, 'record')} ({self.late_share:.2%}) came late, with logs read beyond them"
        )


def read_up_to_us(
    files: Collection[TrackedFile], now_us: int, idle_after_us: int, previous_us: int | None
) -> int | None:
    """The event time up to which logs are read: the least over files that grow or have unread bytes.

    Where there is none, all that came is read: the latest time in any file. It never goes back.
    """
    here = [tracked for tracked in files if tracked.state == "open"]
    growing = [one for one in here if one.unread_bytes or now_us - one.grown_us < idle_after_us]
    times_us = [one.max_time_us for one in growing or here]
    known = [time_us for time_us in times_us if time_us is not None]
    if not known or (growing and len(known) < len(growing)):
        return previous_us
    found_us = min(known) if growing else max(known)
    return found_us if previous_us is None else max(found_us, previous_us)


def complete_up_to_us(read_us: int | None, waiting_us: Ints) -> int | None:
    """The time before which nothing waits and all is read."""
    if read_us is None:
        return None
    return min(read_us, int(waiting_us[0])) if len(waiting_us) else read_us


def mostly_up_to_us(
    read_us: int | None, waiting_us: Ints, arrivals: Arrivals, of_events: float
) -> int | None:
    """The latest time up to which the logs are read and at least this share of the records does not wait.

    `waiting_us`: the event times of what waits, ascending.
    """
    if read_us is None:
        return None
    waiting_us = waiting_us[waiting_us < read_us]
    times_us = np.append(waiting_us, read_us)  # before the k-th one k records wait
    may_wait = (1 - of_events) * arrivals.before(times_us)
    return int(times_us[np.flatnonzero(np.arange(len(times_us)) <= may_wait)[-1]])
