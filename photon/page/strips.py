"""Makes spans of points and marks: the states of a datacenter over a day, and its waits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from photon.health.facts import Activity
from photon.process.clock import MICROSECONDS

State = Literal["live", "behind", "waiting", "on hold", "dead", "at rest", "unknown"]
# A shift that follows another one in time, as under Dagster, leaves no gap; nor does a point that is late.
BRIDGED_US = 20 * MICROSECONDS
# The last sign of life of a killed process may be a little older than its last point.
MARK_US = 5 * MICROSECONDS
_DIGITS = re.compile(r"\d+")
HOLDS = ("hold", "retired")
NOW: dict[Activity | Literal["unknown"], State] = {
    "retired": "on hold",
    "on hold": "on hold",
    "new": "unknown",
    "at half a line": "at rest",
    "at rest": "at rest",
    "not running": "dead",
    "fenced": "dead",
    "silent": "dead",
    "waiting": "waiting",
    "failing": "waiting",
    "catching up": "behind",
    "live": "live",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A span of a shift. `unread_bytes`: at its end; None: not known."""

    from_us: int
    until_us: int
    activity: str
    unread_bytes: int | None = None
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class StripMark:
    """Something that happened."""

    at_us: int
    kind: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A state from one moment to another one."""

    from_us: int
    until_us: int
    state: State


def strip(
    points: Sequence[Point], marks: Sequence[StripMark], now: State, from_us: int, until_us: int
) -> list[Span]:
    """The states one after the other from `from_us` to `until_us`; points and marks are earliest first.

    `now`: the state at the end, as somebody has just seen it, for what no point tells yet.
    """
    spans: list[Span] = []
    last: Point | None = None
    end_us = from_us
    for point in points:
        if point.from_us > end_us:
            spans += _gap(end_us, point.from_us, marks, _without_points(last, point.from_us - end_us))
        spans.append(Span(max(point.from_us, end_us), point.until_us, _state_of(point)))
        last, end_us = point, max(end_us, point.until_us)
    if now == "on hold" and any(mark.kind in HOLDS for mark in marks):
        now = _without_points(last)  # but for the hold, whose mark says since when it lasts
    elif last is None and now in ("live", "behind", "waiting"):
        now = "unknown"  # nobody knows since when
    spans += _gap(end_us, until_us, marks, now)
    return _merged(spans, from_us, until_us)


def waits(points: Sequence[Point]) -> list[Point]:
    """Each wait for what was unavailable, as one point with its cause; points are earliest first.

    A wait ends with the first batch that joins, and where it is for something else.
    """
    found: list[Point] = []
    last: Point | None = None
    for one in points:
        if last is not None and _goes_on(last, one):
            found[-1] = replace(found[-1], until_us=one.until_us)
        elif one.activity == "waiting":
            found.append(one)
        last = one
    return found


def _goes_on(last: Point, one: Point) -> bool:
    """Whether both are of one wait. Causes may differ in numbers, such as that of a try."""
    is_same = _DIGITS.sub("", one.waits_for) == _DIGITS.sub("", last.waits_for)
    is_near = one.from_us - last.until_us <= BRIDGED_US
    return last.activity == one.activity == "waiting" and is_same and is_near


def _state_of(point: Point) -> State:
    known: dict[str, State] = {"live": "live", "behind": "behind", "waiting": "waiting"}
    return known.get(point.activity, "unknown")


def _without_points(last: Point | None, length_us: int = BRIDGED_US + 1) -> State:
    """The state after a point that no other one follows in time."""
    if last is None:
        return "unknown"
    if length_us <= BRIDGED_US:
        return _state_of(last)
    return "dead" if last.unread_bytes else "at rest"


def _gap(from_us: int, until_us: int, marks: Sequence[StripMark], state: State) -> Iterator[Span]:
    """A time without points, which has this state unless a mark says another one."""
    is_held = False
    for mark in marks:
        before: State = "on hold" if is_held else state
        if mark.at_us >= until_us:
            break
        if mark.kind in HOLDS or mark.kind == "resume":
            is_held = mark.kind in HOLDS
        elif mark.kind == "killed" and mark.at_us >= from_us - MARK_US:
            state = "dead"
        if mark.at_us > from_us:
            yield Span(from_us, mark.at_us, before)
            from_us = mark.at_us
    yield Span(from_us, until_us, "on hold" if is_held else state)


def _merged(spans: Sequence[Span], from_us: int, until_us: int) -> list[Span]:
    """Neighbours of one state as one span, within the bounds."""
    found: list[Span] = []
    for one in spans:
        begins_us, ends_us = max(one.from_us, from_us), min(one.until_us, until_us)
        if begins_us >= ends_us:
            continue
        if found and found[-1].state == one.state and found[-1].until_us >= begins_us:
            begins_us = found.pop().from_us
        found.append(Span(begins_us, ends_us, one.state))
    return found
