"""How it went: series of all datacenters on one grid, what happened, a strip of a day, the error budget."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.page.asking import Shared
from photon.page.now import Now
from photon.page.points import Points, Stored, within
from photon.page.refusals import BadRequest
from photon.page.series import LONGEST_SECONDS, Grid, series, times_of
from photon.page.strips import NOW, Point, strip, waits
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError
from photon.releases import copies
from photon.releases.finding import asked_of_lakes
from photon.verification.availability.budget import BUDGET_DAYS, BUDGET_US, budget_of, sentence
from photon.verification.availability.stored import stored_minutes

HOUR_US = 3_600 * MICROSECONDS
DAY_US = 24 * HOUR_US
MINUTE_US = 60 * MICROSECONDS
BUDGET_SECONDS, RELEASES_SECONDS = 30.0, 10.0  # between two readings
BUDGET_STEPS = 4 * BUDGET_DAYS
ANSWER_SECONDS = 5.0
MOST_MARKS = 300
MOST_RELEASES = 60
Told = dict[str, Any]  # as JSON has it


class History:
    """Tells how it went, of ranges that viewers choose."""

    def __init__(self, pipeline: Pipeline, now: Now, points: Mapping[str, Points], clock: Clock) -> None:
        self._pipeline, self._now, self._points, self._clock = pipeline, now, points, clock
        self._budgets = {
            name: Shared(f"the lake of {name}", partial(budget_told, pipeline, name), BUDGET_SECONDS, clock)
            for name in pipeline.datacenters
        }
        self._releases = Shared(
            "the releases", partial(releases_of, pipeline, clock), RELEASES_SECONDS, clock
        )

    async def answer(self, from_us: int | None, to_us: int | None) -> dict[str, Any]:
        """The answer of `/api/history`: of the last hour, where nothing is said. BadRequest."""
        now_us = self._clock.now_us()
        to_us = now_us if to_us is None else to_us
        from_us = to_us - HOUR_US if from_us is None else from_us
        if not 0 <= from_us < to_us <= from_us + LONGEST_SECONDS * MICROSECONDS or to_us > now_us + DAY_US:
            raise BadRequest(
                f"from_us={from_us}, to_us={to_us}: expected microseconds since 1970, the first one earlier, "
                f"at most {LONGEST_SECONDS // 86_400} days apart and not in the future"
            )
        grid = Grid.over(from_us, to_us)
        told, budgets = await asyncio.gather(
            asyncio.gather(*(self._datacenter(name, grid, now_us) for name in self._points)),
            asyncio.gather(*map(self._budget, self._budgets)),
        )
        marks = [mark for _, some, _ in told for mark in some]
        with suppress(UserError):
            if grid.to_us - grid.from_us <= HOUR_US + 2 * grid.step_us:
                marks += [
                    one for one in await self._releases.answer(ANSWER_SECONDS) if one["at_us"] >= from_us
                ]
        return {
            "from_us": grid.from_us,
            "to_us": grid.to_us,
            "step_seconds": grid.step_seconds,
            "datacenters": {name: of_one for name, (of_one, _, _) in zip(self._points, told, strict=True)},
            "marks": sorted(marks, key=lambda mark: mark["at_us"])[-MOST_MARKS:],
            "strips": {name: spans for name, (_, _, spans) in zip(self._points, told, strict=True)},
            "budget": dict(zip(self._budgets, budgets, strict=True)),
        }

    async def _datacenter(
        self, name: str, grid: Grid, now_us: int
    ) -> tuple[dict[str, Any], list[Told], list[Told]]:
        """Its series, what happened to it, and its strip."""
        day_until_us = -(-now_us // MINUTE_US) * MINUTE_US
        day_from_us = day_until_us - DAY_US
        day, day_problem = await self._points[name].rows(day_from_us, day_until_us, is_fine=True)
        rows, problem = Stored(within(day.points, grid.from_us, grid.to_us), day.marks), day_problem
        if grid.from_us < day_from_us:
            is_fine = grid.step_us < MINUTE_US
            rows, problem = await self._points[name].rows(grid.from_us, grid.to_us, is_fine)
        marks = [
            _mark(name, one.at_us, one.kind, one.says) for one in rows.marks if one.at_us >= grid.from_us
        ]
        for wait in waits(as_points(_around_waits(rows.points))):
            marks.append(_mark(name, wait.from_us, "waits", wait.waits_for, wait.until_us))
        seen, since_us = await self._now.at_work(name)
        ran = as_points(day.points)
        if since_us is not None:
            ran.append(Point(since_us, now_us, NOW[seen]))  # a shift has no point yet of its last seconds
        if not ran and day_problem:
            seen = "unknown"
        spans = strip(ran, day.marks, NOW[seen], day_from_us, now_us)
        return {**series(rows.points, grid), "problem": problem}, marks, [asdict(span) for span in spans]

    async def _budget(self, name: str) -> Told:
        try:
            return await self._budgets[name].answer(ANSWER_SECONDS)
        except UserError as error:
            return {"share_left": None, "shares": [], "says": f"{name}: NOT KNOWN: {error}"}


def _around_waits(rows: pa.Table) -> pa.Table:
    """The rows of waits, each with the next one: of a month these are few."""
    is_waiting = pc.fill_null(pc.equal(rows["activity"], "waiting"), False).to_numpy()
    wanted = is_waiting.copy()
    wanted[1:] |= is_waiting[:-1]
    return rows.filter(pa.array(wanted))


def as_points(rows: pa.Table) -> list[Point]:
    """The rows as spans."""
    at_us, span_us = times_of(rows)
    names = ("activity", "unread_bytes", "waits_for")
    columns = ((at_us - span_us).tolist(), at_us.tolist(), *(rows[name].to_pylist() for name in names))
    return [
        Point(begun_us, ended_us, activity or "", unread, waits_for or "")
        for begun_us, ended_us, activity, unread, waits_for in zip(*columns, strict=True)
    ]


def _mark(datacenter: str, at_us: int, kind: str, says: str, until_us: int | None = None) -> Told:
    return {"datacenter": datacenter, "at_us": at_us, "until_us": until_us, "kind": kind, "says": says}


def budget_told(pipeline: Pipeline, datacenter: str) -> Told:
    """A datacenter's error budget, and the share of it that was left at each step of its 28 days.

    LakeUnavailable, FormatTooNew.
    """
    minutes, settings = stored_minutes(pipeline, datacenter), pipeline.availability
    budget = budget_of(minutes, settings)
    shares: list[float] = []
    if budget is not None and budget.allowed:
        steps_us = range(budget.until_us - BUDGET_US, budget.until_us + 1, BUDGET_US // BUDGET_STEPS)
        bad_us = [
            at_us
            for at_us, minute in minutes.items()
            if at_us >= steps_us.start and not minute.is_good(settings.of_events)
        ]
        shares = [max(0.0, 1 - bisect_left(bad_us, at_us) / budget.allowed) for at_us in steps_us]
    return {
        "share_left": shares[-1] if shares else None,
        "shares": shares,
        "says": sentence(datacenter, budget, settings),
    }


def releases_of(pipeline: Pipeline, clock: Clock) -> list[Told]:
    """The newest releases of the last hour, as marks. A lake may lack some that others keep."""
    since_us = clock.now_us() - HOUR_US
    newest, _ = asked_of_lakes(pipeline, copies.latest)
    last = max(newest.values(), key=lambda one: one.number, default=None)
    found: list[Told] = []
    while last is not None and last.made_us >= since_us and len(found) < MOST_RELEASES:
        found.append(_mark(last.by, last.made_us, "release", last.sentence()))
        before, _ = asked_of_lakes(pipeline, partial(copies.release, number=last.number - 1))
        last = next(iter(before.values()), None)
    return found
