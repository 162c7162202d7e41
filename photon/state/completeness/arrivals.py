"""How many foreign records came, by the minute of their event time, and how many of them came late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.process.clock import MICROSECONDS

MINUTE_US = 60 * MICROSECONDS

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrivals:
    """Records by the minute of their event time. `late`: they came when the logs were read beyond it."""

    records: Mapping[int, int] = field(default_factory=dict)
    late: Mapping[int, int] = field(default_factory=dict)

    def plus(self, came: Mapping[int, int], read_up_to_us: int | None, minutes: int) -> Arrivals:
        """With records that came while the logs were read up to a time; the latest `minutes` are kept."""
        passed = {minute: n for minute, n in came.items() if _is_passed(minute, read_up_to_us)}
        records = _sum(self.records, came)
        first = max(records, default=0) - minutes
        return Arrivals(_from(first, records), _from(first, _sum(self.late, passed)))

    def before(self, times_us: Ints) -> Ints:
        """How many records lie before each time, as far as whole minutes tell."""
        minutes = np.array(sorted(self.records), np.int64)
        sums = np.cumsum([0, *(self.records[minute] for minute in minutes.tolist())])
        return sums[np.searchsorted(minutes, times_us // MINUTE_US)]


def _is_passed(minute: int, read_up_to_us: int | None) -> bool:
    return read_up_to_us is not None and (minute + 1) * MINUTE_US <= read_up_to_us


def _sum(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {minute: one.get(minute, 0) + other.get(minute, 0) for minute in one.keys() | other.keys()}


def _from(first: int, counts: Mapping[int, int]) -> dict[int, int]:
    return {minute: n for minute, n in counts.items() if minute > first}
