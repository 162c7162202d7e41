"""A shift's reports: sums and latencies since the last one, and when the next one is due."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from photon.dispatcher.retrying import BatchReport
from photon.process.clock import MICROSECONDS
from photon.process.quantiles import Sample, merge, percentiles
from photon.state.outcomes import OUTCOME_CLASSES

PERCENTS = (50, 90, 99)
# Reports that a shift remembers, to show how its shares went: at one a minute, twice its usual length.
MOST_REMEMBERED = 60
# Batches whose samples are kept one by one until the report (2 KB each): merging is not exact, so it is rare.
MOST_SAMPLES = 500


@dataclass(frozen=True)
class Latency:
    """Seconds from the later of two events' own times to their row being readable."""

    p50_seconds: float
    p90_seconds: float
    p99_seconds: float

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Latency | None:
        """Over all samples; None where nothing was measured."""
        found = percentiles(samples, PERCENTS)
        return None if any(math.isnan(value) for value in found) else cls(*found)


@dataclass(frozen=True)
class ShiftReport:
    """The work of a shift since its last report."""

    at_us: int
    seconds: float
    batches: int
    joined: int
    latency: Latency | None
    classes: Mapping[str, int] = field(default_factory=dict)  # foreign records by class
    foreign: int = 0  # records that were read

    @property
    def joined_per_second(self) -> float:
        return self.joined / self.seconds if self.seconds > 0 else 0.0


class ShiftLog:
    """Takes in batches; gives a report when one is due."""

    def __init__(self, every_seconds: float, since_us: int | None = None) -> None:
        """`since_us`: when the first report's time began; without it, with the first batch or wait."""
        self._since_us = since_us
        self._every_us = round(every_seconds * MICROSECONDS)
        self._batches = self._joined = self._foreign = 0
        self._waits = False
        self._classes: Counter[str] = Counter()
        self._latencies: list[Sample] = []
        self._reports: list[ShiftReport] = []

    @property
    def reports(self) -> tuple[ShiftReport, ...]:
        return tuple(self._reports)

    def add(self, batch: BatchReport, now_us: int) -> None:
        """Take in what a batch did that is over now; with the first one the shift begins."""
        if self._since_us is None:
            self._since_us = now_us - round(batch.seconds * MICROSECONDS)
        self._waits = False
        self._batches += 1
        self._joined += batch.counts["joined"]
        self._foreign += batch.counts["foreign"]
        self._classes.update({name: batch.counts[name] for name in OUTCOME_CLASSES if name != "pending"})
        self._latencies.append(batch.latencies_seconds)
        if len(self._latencies) > MOST_SAMPLES:
            self._latencies = [merge(self._latencies)]

    def waits(self, now_us: int) -> None:
        """Something is unavailable: until the next batch, the backlog is worth a report."""
        self._waits = True
        if self._since_us is None:
            self._since_us = now_us

    def is_due(self, now_us: int) -> bool:
        """Whether there is something to report, and the last report is long enough ago."""
        if self._since_us is None or not (self._batches or self._waits):
            return False
        return now_us - self._since_us >= self._every_us

    def report(self, now_us: int) -> ShiftReport:
        """Report the work since the last report; the next begins now."""
        made = ShiftReport(
            now_us,
            0.0 if self._since_us is None else (now_us - self._since_us) / MICROSECONDS,
            self._batches,
            self._joined,
            Latency.of(self._latencies),
            {name: count for name, count in self._classes.items() if count > 0},
            self._foreign,
        )
        self._reports = [*self._reports, made][-MOST_REMEMBERED:]
        self._since_us, self._latencies = now_us, []
        self._batches = self._joined = self._foreign = 0
        self._classes = Counter()
        return made
