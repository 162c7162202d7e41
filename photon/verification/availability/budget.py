"""Availability: how many events were readable in time, minute by minute, and the error budget. Pure.

As Google's paper on highly available systems has it: so large a share of the events readable within so short
a time, in so large a share of the minutes. Where the counts come from is in `minutes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from photon.pipeline.sections import Availability
from photon.process.clock import MICROSECONDS, in_utc, microseconds
from photon.process.readable import counted

MINUTE_US = 60 * MICROSECONDS
HOUR_US = 60 * MINUTE_US
BUDGET_DAYS = 28  # whole weeks, so that each weekday counts as often as the others
BUDGET_US = BUDGET_DAYS * 24 * HOUR_US
# The budget burns too fast if more than such a share of it goes within so many hours. Google's workbook on
# reliability has these.
BURN_RULES = ((1, 0.02), (6, 0.05), (72, 0.10))

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Minute:
    """The events that became joinable in one minute, and how many of them were readable in time."""

    at_us: int  # when it begins
    joinable: int = 0
    readable: int = 0  # in time
    without_row: int = 0  # late events that have no row yet
    # How it was measured: the others by the event's own time, and by the time that is in the row.
    by_arrival: int = 0  # one of the two lines came later than the event's own time
    by_commit: int = 0  # the moment when the row's batch was readable is known
    slowest_us: int = 0  # from joinable to readable, of those with a row

    def __add__(self, other: Minute) -> Minute:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        return Minute(self.at_us, **sums, slowest_us=max(self.slowest_us, other.slowest_us))

    @property
    def late(self) -> int:
        """Events that were not readable in time."""
        return self.joinable - self.readable

    def is_good(self, of_events: float) -> bool:
        """Whether enough of its events were readable in time; without events none was late."""
        # The number that may be late is rounded: 0.999 is no binary fraction.
        return self.late <= self.joinable * (1 - of_events) + 1e-9

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


_SUMMED = [each.name for each in fields(Minute) if each.name not in ("at_us", "slowest_us")]


@dataclass(frozen=True)
class Moments:
    """Events with the moments that count, one element each."""

    joinable_us: Ints
    readable_us: Ints  # `NEVER_US`: there is no row
    by_arrival: npt.NDArray[np.bool_]
    by_commit: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.joinable_us)

    def take(self, rows: npt.NDArray[Any]) -> Moments:
        return Moments(*(getattr(self, each.name)[rows] for each in fields(self)))


NEVER_US = 2**62


def measured(
    event_us: Ints,
    came_after_us: Sequence[Ints],
    joined_us: Ints | None = None,
    committed_us: Ints | None = None,
) -> Moments:
    """When each event was joinable, and when it was readable.

    Joinable: the later of its own time and of the times before which its line, and that of its primary, were
    not in the log. So it is the earliest moment that logs and timeline allow: nothing looks better than it
    was. `joined_us` is in the row and `committed_us` in the timeline, 0 where it does not know; None: no row.
    """
    joinable = event_us
    for after_us in came_after_us:
        joinable = np.maximum(joinable, after_us)
    nobody = np.zeros(len(event_us), bool)
    readable, by_commit = np.full(len(event_us), NEVER_US, np.int64), nobody
    if joined_us is not None and committed_us is not None:
        readable = np.maximum(joined_us, committed_us)
        by_commit = committed_us > 0
    return Moments(joinable, readable, joinable > event_us, by_commit)


@dataclass
class MinuteCounts:
    """Counts of the minutes from `first_us` until `until_us`, both whole minutes; others are left out."""

    first_us: int
    until_us: int
    within_us: int
    _minutes: dict[int, Minute] = field(default_factory=dict)

    def inside(self, joinable_us: Ints) -> npt.NDArray[np.bool_]:
        """Which events became joinable in these minutes."""
        return (joinable_us >= self.first_us) & (joinable_us < self.until_us)

    def add(self, events: Moments) -> None:
        """Count those of these events that belong here."""
        events = events.take(self.inside(events.joinable_us))
        starts, minute_of = np.unique(events.joinable_us // MINUTE_US * MINUTE_US, return_inverse=True)
        took_us = events.readable_us - events.joinable_us
        has_row = events.readable_us < NEVER_US
        for number, at_us in enumerate(starts.tolist()):
            of_minute = minute_of == number
            rows_took_us = took_us[of_minute & has_row]
            found = Minute(
                at_us,
                joinable=int(of_minute.sum()),
                readable=int((took_us[of_minute] <= self.within_us).sum()),
                without_row=int((~has_row[of_minute]).sum()),
                by_arrival=int(events.by_arrival[of_minute].sum()),
                by_commit=int(events.by_commit[of_minute].sum()),
                slowest_us=max(0, int(rows_took_us.max(initial=0))),
            )
            self._minutes[at_us] = self._minutes.get(at_us, Minute(at_us)) + found

    def minutes(self) -> list[Minute]:
        """All of the minutes, in order; also those without an event."""
        starts = range(self.first_us, self.until_us, MINUTE_US)
        return [self._minutes.get(at_us, Minute(at_us)) for at_us in starts]


def minutes_to_judge(
    last_us: int | None, known_since_us: int, read_until_us: int, now_us: int, within_us: int
) -> range:
    """Where the minutes begin that are over and not judged yet.

    `last_us`: the last one that was judged. `known_since_us`: the timeline begins then. `read_until_us`: all
    that came before it was read. A minute is over when its last event had its time, too.
    """
    first_us = -(-known_since_us // MINUTE_US) * MINUTE_US if last_us is None else last_us + MINUTE_US
    until_us = min(read_until_us, now_us - within_us) // MINUTE_US * MINUTE_US
    return range(max(first_us, until_us - BUDGET_US), max(first_us, until_us), MINUTE_US)


def together(by_datacenter: Iterable[Mapping[int, Minute]]) -> dict[int, Minute]:
    """The minutes of the union of datacenters, by their beginning."""
    union: dict[int, Minute] = {}
    for minutes in by_datacenter:
        for at_us, minute in minutes.items():
            union[at_us] = union[at_us] + minute if at_us in union else minute
    return dict(sorted(union.items()))


@dataclass(frozen=True)
class Budget:
    """How many bad minutes are allowed in 28 days, and how many were used, up to a moment."""

    until_us: int  # the end of the last minute that was judged
    judged: int
    bad: int
    allowed: int
    events: int
    late_events: int
    burning: tuple[tuple[int, float], ...] = ()  # within so many hours so large a share went: too fast
    last_bad_us: int | None = None

    @property
    def left(self) -> int:
        """Negative: more than were allowed."""
        return self.allowed - self.bad

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "left": self.left}


def budget_of(minutes: Mapping[int, Minute], settings: Availability) -> Budget | None:
    """The error budget over the 28 days before the last minute that was judged; None if none was.

    Minutes that were not judged count as good: Photon did not run yet.
    """
    if not minutes:
        return None
    until_us = max(minutes) + MINUTE_US
    counted = [minute for at_us, minute in minutes.items() if at_us >= until_us - BUDGET_US]
    bad = [minute.at_us for minute in counted if not minute.is_good(settings.of_events)]
    bearable = BUDGET_US / MINUTE_US * (1 - settings.of_minutes)
    burning = []
    for hours, share in BURN_RULES:
        recent = sum(at_us >= until_us - hours * HOUR_US for at_us in bad)
        if recent and recent > share * bearable:
            burning.append((hours, recent / bearable if bearable else float("inf")))
    return Budget(
        until_us=until_us,
        judged=len(counted),
        bad=len(bad),
        allowed=int(bearable + 1e-6),
        events=sum(minute.joinable for minute in counted),
        late_events=sum(minute.late for minute in counted),
        burning=tuple(burning),
        last_bad_us=max(bad, default=None),
    )


def promise(settings: Availability) -> str:
    """The promise, for people."""
    events, minutes = f"{settings.of_events * 100:.10g} %", f"{settings.of_minutes * 100:.10g} %"
    seconds = microseconds(settings.within) / MICROSECONDS
    return f"{events} of events readable within {seconds:g} s, in {minutes} of minutes"


def sentence(name: str, budget: Budget | None, settings: Availability) -> str:
    """The budget of a datacenter, or of all together, in a sentence."""
    if budget is None:
        return f"{name}: no minute was judged yet; a verification that is recorded judges those that are over"
    says = (
        f"{name}: {counted(budget.bad, 'bad minute')} in {BUDGET_DAYS} days, of {budget.allowed:,} allowed "
        f"({promise(settings)}); {counted(budget.judged, 'minute')} judged, until "
        f"{in_utc(budget.until_us, 'minutes')}"
    )
    if budget.left < 0:
        says += f"; the error budget is USED UP, by {counted(-budget.left, 'minute')} more"
    if budget.burning:
        hours, share = budget.burning[0]
        says += f"; it BURNS TOO FAST: {share * 100:,.0f} % of it went in the last {hours} h"
    return says
