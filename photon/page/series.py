"""Points of different lengths on a grid that all datacenters share, of so many steps whatever the range.

Sums become rates, of delays the worst counts, of other numbers the last one. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.process.clock import MICROSECONDS

MOST_STEPS = 400
STEPS_SECONDS = (10, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400)
LONGEST_SECONDS = MOST_STEPS * STEPS_SECONDS[-1]
_PER_SECOND = {"joined_per_second": "joined", "registry_requests_per_second": "registry_requests"}
_WORST = ("p50_seconds", "p90_seconds", "p99_seconds")
_LAST = ("lag_seconds", "complete_lag_seconds", "unread_bytes", "pending")
_DIGITS = 6

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Steps of equal length; each is told at its end."""

    from_us: int
    step_seconds: int
    steps: int

    @classmethod
    def over(cls, from_us: int, to_us: int) -> Grid:
        """The finest grid over a range."""
        seconds = (to_us - from_us) / MICROSECONDS
        # One more: both ends of the range may lie within a step.
        step = next((one for one in STEPS_SECONDS if seconds <= one * (MOST_STEPS - 1)), STEPS_SECONDS[-1])
        step_us = step * MICROSECONDS
        first = from_us // step_us
        return cls(first * step_us, step, min(MOST_STEPS, -(-to_us // step_us) - first))

    @property
    def step_us(self) -> int:
        return self.step_seconds * MICROSECONDS

    @property
    def to_us(self) -> int:
        return self.from_us + self.steps * self.step_us

    @property
    def at_us(self) -> list[int]:
        return [self.from_us + (number + 1) * self.step_us for number in range(self.steps)]


def series(points: pa.Table, grid: Grid) -> dict[str, list[Any]]:
    """The points of one datacenter, earliest first, as a list of each number; null where there is none."""
    at_us, span_us = times_of(points)
    rows, steps, overlap_us = _spread(at_us, span_us, grid)
    covered_us = np.zeros(grid.steps)
    np.add.at(covered_us, steps, overlap_us)
    found: dict[str, list[Any]] = {"at_us": grid.at_us, "activity": _last_text(points, rows, steps, grid)}

    def summed(name: str) -> Floats:
        sums = np.zeros(grid.steps)
        values = np.nan_to_num(floats(points, name))
        np.add.at(sums, steps, values[rows] * overlap_us / np.maximum(1, span_us[rows]))
        return np.where(covered_us > 0, sums, np.nan)

    for name, column in _PER_SECOND.items():
        found[name] = told(summed(column) * MICROSECONDS / np.maximum(1, covered_us))
    for name in _WORST:
        worst = np.full(grid.steps, np.nan)
        np.fmax.at(worst, steps, floats(points, name)[rows])
        found[name] = told(worst)
    for name in _LAST:
        last = np.full(grid.steps, np.nan)
        last[steps] = gauge(points, name)[rows]  # of several points the last one stays
        found[name] = told(last)
    requests = summed("registry_requests")
    each = np.divide(
        summed("registry_seconds"), requests, out=np.full(grid.steps, np.nan), where=requests > 0
    )
    return {**found, "registry_seconds_each": told(each)}


def newest(points: pa.Table, now_us: int, fresh_seconds: float) -> dict[str, Any]:
    """The numbers of the newest point; null where it is not fresh."""
    fresh = points.slice(max(0, points.num_rows - 1))
    at_us, span_us = times_of(fresh)
    if not len(at_us) or now_us - at_us[0] > fresh_seconds * MICROSECONDS:
        names = (*_PER_SECOND, *_WORST, "lag_seconds", "registry_seconds_each", "complete_up_to_us")
        return dict.fromkeys(names)
    seconds = max(span_us[0] / MICROSECONDS, 1e-6)
    found = {name: told(floats(fresh, column) / seconds)[0] for name, column in _PER_SECOND.items()}
    found |= {name: told(floats(fresh, name))[0] for name in (*_WORST, "lag_seconds")}
    requests, spent = floats(fresh, "registry_requests")[0], floats(fresh, "registry_seconds")[0]
    return {
        **found,
        "registry_seconds_each": told(np.array([spent / requests if requests else np.nan]))[0],
        "complete_up_to_us": fresh["complete_up_to"].cast(pa.int64())[0].as_py(),
    }


def times_of(points: pa.Table) -> tuple[Ints, Ints]:
    """When each point ends, and how long it is."""
    at_us: Ints = points["at"].cast(pa.int64()).to_numpy()
    span_us: Ints = np.rint(np.nan_to_num(floats(points, "seconds")) * MICROSECONDS).astype(np.int64)
    return at_us, span_us


def floats(points: pa.Table, name: str) -> Floats:
    """A column of numbers; NaN for null."""
    values: Floats = pc.fill_null(points[name].cast(pa.float64()), np.nan).to_numpy()
    return values


def gauge(points: pa.Table, name: str) -> Floats:
    """A number at the end of each point."""
    if name != "complete_lag_seconds":
        return floats(points, name)
    behind = pc.subtract(points["at"].cast(pa.int64()), points["complete_up_to"].cast(pa.int64()))
    values: Floats = pc.fill_null(behind.cast(pa.float64()), np.nan).to_numpy() / MICROSECONDS
    return values


def told(values: Floats) -> list[float | int | None]:
    """The numbers as JSON has them: null where nobody knows, and no digits that say nothing."""
    rounded = [None if value != value else round(value, _DIGITS) for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]


def _spread(at_us: Ints, span_us: Ints, grid: Grid) -> tuple[Ints, Ints, Ints]:
    """Each step that a point covers some of: the point's row, the step, and how much of it."""
    starts_us = at_us - span_us
    first = np.clip((starts_us - grid.from_us) // grid.step_us, 0, grid.steps)
    end = np.clip(-(-(at_us - grid.from_us) // grid.step_us), first, grid.steps)
    counts = end - first
    rows = np.repeat(np.arange(len(at_us)), counts)
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
    begins_us = grid.from_us + steps * grid.step_us
    overlap_us = np.minimum(at_us[rows], begins_us + grid.step_us) - np.maximum(starts_us[rows], begins_us)
    return rows, steps, overlap_us


def _last_text(points: pa.Table, rows: Ints, steps: Ints, grid: Grid) -> list[str | None]:
    found = np.full(grid.steps, None, object)
    found[steps] = points["activity"].to_numpy()[rows]
    return list(found.tolist())
