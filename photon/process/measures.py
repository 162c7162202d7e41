"""Counts and times of a process's own work, in numbers that add up over tasks, batches and shifts.

`photon.health.metrics.shift_families` has the names of all numbers and what they mean; work counts itself.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from photon.process.quantiles import Sample, up_to

Key = tuple[str, ...]  # the name of a number, then the values of its labels

# Upper bounds of all histograms, in seconds: from a request to a store nearby to an event that is a day late.
# Fixed for ever: sums over datacenters and time need equal ones.
BOUNDS_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0),
)


@dataclass
class Histogram:
    """Counts of times up to each bound and above the one before; the last is of those above all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_SECONDS) + 1))
    sum_seconds: float = 0.0

    def add(self, counts: Sequence[int], sum_seconds: float) -> None:
        self.counts = [count + added for count, added in zip(self.counts, counts, strict=True)]
        self.sum_seconds += sum_seconds


@dataclass
class Measures:
    """Sums and histograms by key. Picklable."""

    sums: Counter[Key] = field(default_factory=Counter)
    histograms: dict[Key, Histogram] = field(default_factory=dict)

    def count(self, *key: str, by: int = 1) -> None:
        """Add to a sum. Adding 0 makes it known: a rate needs the number before the first event."""
        self.sums[key] += by

    def time(self, *key: str, seconds: float) -> None:
        """Add one time to a histogram."""
        histogram = self.histograms.setdefault(key, Histogram())
        histogram.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        histogram.sum_seconds += seconds

    def times(self, *key: str, seconds: Sample) -> None:
        """Add all times of a sample to a histogram."""
        below = [*up_to(seconds, BOUNDS_SECONDS), seconds.count]
        counts = [after - before for before, after in zip([0, *below], below, strict=False)]
        mean = float(seconds.values.mean()) if seconds.count else 0.0
        self.histograms.setdefault(key, Histogram()).add(counts, mean * seconds.count)

    def add(self, other: Measures) -> None:
        """Add all sums and histograms of another process or task."""
        self.sums.update(other.sums)
        for key, histogram in other.histograms.items():
            self.histograms.setdefault(key, Histogram()).add(histogram.counts, histogram.sum_seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "sums": [[*key, number] for key, number in self.sums.items()],
            "histograms": [[*key, each.counts, each.sum_seconds] for key, each in self.histograms.items()],
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Measures:
        """Read what `as_json` wrote; ValueError if its histograms have other bounds."""
        measures = cls(Counter({tuple(key): number for *key, number in stored["sums"]}))
        for *key, counts, sum_seconds in stored["histograms"]:
            measures.histograms.setdefault(tuple(key), Histogram()).add(counts, sum_seconds)
        return measures


class Meter:
    """Measures that several threads add to, and that one thread takes from time to time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measures = Measures()

    def count(self, *key: str, by: int = 1) -> None:
        with self._lock:
            self._measures.count(*key, by=by)

    def time(self, *key: str, seconds: float) -> None:
        with self._lock:
            self._measures.time(*key, seconds=seconds)

    def times(self, *key: str, seconds: Sample) -> None:
        with self._lock:
            self._measures.times(*key, seconds=seconds)

    def add(self, measures: Iterable[Measures]) -> None:
        with self._lock:
            for each in measures:
                self._measures.add(each)

    def take(self) -> Measures:
        """Take all that was added since the last call."""
        with self._lock:
            taken, self._measures = self._measures, Measures()
            return taken
