"""A datacenter's points, marks and broken verifications, read from its state and its lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from photon.health.facts import verifications_between
from photon.page.asking import InTurn, Shared
from photon.page.strips import StripMark
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError
from photon.state.points import POINTS, recent_points

# Between two readings: a state gets a point each ten seconds, a lake each minute, and marks at any time.
RECENT_SECONDS, LAKE_SECONDS = 2.0, 10.0
ANSWER_SECONDS = 5.0
MOST_KEPT = 4  # ranges of a lake that were read
# Columns that are read: a month has some 43,000 rows.
COLUMNS = (
    *("at", "seconds", "activity", "waits_for", "joined", "p50_seconds", "p90_seconds", "p99_seconds"),
    *("lag_seconds", "unread_bytes", "pending", "complete_up_to", "registry_requests", "registry_seconds"),
    *("mark", "says"),
)


@dataclass(frozen=True)
class Stored:
    """A lake's rows of a range, earliest first."""

    points: pa.Table
    marks: Sequence[StripMark]


def stored_between(pipeline: Pipeline, datacenter: str, from_us: int, to_us: int) -> Stored:
    """Read points, marks, and verifications that found something broken. LakeUnavailable, FormatTooNew."""
    rows = POINTS.between(pipeline, datacenter, from_us, to_us, COLUMNS)
    is_mark = pc.is_valid(rows["mark"])
    told = rows.filter(is_mark)
    columns = (told["at"].cast(pa.int64()).to_pylist(), told["mark"].to_pylist(), told["says"].to_pylist())
    marks = [StripMark(at_us, kind, says or "") for at_us, kind, says in zip(*columns, strict=True)]
    for one in verifications_between(pipeline, datacenter, from_us, to_us):
        if one.kinds:
            marks.append(StripMark(one.at_us, "verification", f"a verification found {one.kinds}"))
    return Stored(rows.filter(pc.invert(is_mark)), sorted(marks, key=lambda mark: mark.at_us))


class Points:
    """One datacenter's points: those of its state, and ranges of its lake that are kept for a while."""

    def __init__(self, pipeline: Pipeline, name: str, clock: Clock) -> None:
        self._pipeline, self._name, self._clock = pipeline, name, clock
        state = pipeline.datacenters[name].state
        self._recent = Shared(f"the state of {name}", partial(recent_points, state), RECENT_SECONDS, clock)
        self._turn = InTurn(f"the lake of {name}")
        self._kept: dict[tuple[int, int], tuple[int, Stored | UserError]] = {}

    async def recent(self) -> pa.Table:
        """The points of each ten seconds, of an hour or so. NotInTime, OSError."""
        return await self._recent.answer(ANSWER_SECONDS)

    async def stored(self, from_us: int, to_us: int) -> Stored:
        """The lake's rows of a range, as they were some seconds ago. UserError, which is kept as well."""
        due_us, found = self._kept.get((from_us, to_us), (0, None))
        if found is None or self._clock.elapsed_us() >= due_us:
            found = await self._read(from_us, to_us)
            due_us = self._clock.elapsed_us() + round(LAKE_SECONDS * MICROSECONDS)
            self._kept[from_us, to_us] = due_us, found
            while len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
        if isinstance(found, UserError):
            raise found
        return found

    async def _read(self, from_us: int, to_us: int) -> Stored | UserError:
        read = partial(stored_between, self._pipeline, self._name, from_us, to_us)
        try:
            return await self._turn.answer(read, ANSWER_SECONDS)
        except UserError as error:
            return error

    async def rows(self, from_us: int, to_us: int, is_fine: bool) -> tuple[Stored, str]:
        """All of a range, and why some are missing. `is_fine`: those of the state count before the lake's."""
        problems, empty = [], POINTS.columns.empty_table().select(COLUMNS)
        recent, stored = empty, Stored(empty, ())
        try:
            recent = (await self.recent()).select(COLUMNS)
        except (UserError, OSError) as error:
            problems.append(str(error))
        try:
            stored = await self.stored(from_us, to_us)
        except UserError as error:
            problems.append(str(error))
        points = united(stored.points, recent, is_fine)
        return Stored(within(points, from_us, to_us), stored.marks), "; ".join(problems)


def united(stored: pa.Table, recent: pa.Table, is_fine: bool) -> pa.Table:
    """The points of the lake and of the state, each time from one of them."""
    if not recent.num_rows or not stored.num_rows:
        return recent if recent.num_rows else stored
    if is_fine:
        before = stored.filter(pc.less(stored["at"], recent["at"][0]))
        recent = pa.concat_tables([before, recent])
        return pa.concat_tables([recent, stored.filter(pc.greater(stored["at"], recent["at"][-1]))])
    return pa.concat_tables([stored, recent.filter(pc.greater(recent["at"], stored["at"][-1]))])


def within(rows: pa.Table, from_us: int, to_us: int) -> pa.Table:
    """The rows of `from_us <= at < to_us`."""
    at_us = rows["at"].cast(pa.int64())
    return rows.filter(pc.and_(pc.greater_equal(at_us, from_us), pc.less(at_us, to_us)))
