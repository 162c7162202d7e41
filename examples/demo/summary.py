"""The last words of a demo: findings of the verification, numbers made of what was seen, and their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from examples.demo.latency import Latency, SeenRow, TimeSpan, summarize
from examples.demo.scenario import WARM_UP_SECONDS, Kill
from photon.process.clock import MICROSECONDS
from photon.process.readable import table_lines
from photon.verification.report import equation_table
from photon.verification.stored_reports import StoredReport


@dataclass(frozen=True)
class Course:
    """How a demo went: its phases, the kill, and every row when it was first seen."""

    rows: tuple[SeenRow, ...]
    spans: Mapping[str, TimeSpan]  # each phase's
    kill: Kill

    @property
    def undisturbed(self) -> TimeSpan:
        """Both datacenters join, what had piled up before is worked off, and nobody was killed yet."""
        both = self.spans["join"]
        warm_us = both.start_us + round(min(WARM_UP_SECONDS, both.seconds / 2) * MICROSECONDS)
        return TimeSpan(warm_us, self.kill.at_us)

    @property
    def without(self) -> TimeSpan:
        """From the kill until the datacenter's next row could be read."""
        kill = self.kill
        back_us = min(
            row.readable_us
            for row in self.rows
            if row.row[0] == kill.datacenter and row.readable_us > kill.gone_us
        )
        return TimeSpan(kill.at_us, back_us)

    @property
    def shown(self) -> TimeSpan:
        """From the moment at which both datacenters keep up to the last clicks."""
        return TimeSpan(self.undisturbed.start_us, self.spans["return"].end_us)

    def latency(self, window: TimeSpan) -> Latency:
        """The delay of rows whose later line was written in the window."""
        return summarize(self.rows, {row.click_id: row.written_us for row in self.rows}, window)

    def shares(self) -> dict[str, dict[str, int]]:
        """Rows by datacenter, before the kill, while one datacenter was gone, and afterwards."""
        # All that a shift committed while it was being killed is its own.
        gone_us, back_us = self.kill.gone_us, self.without.end_us
        windows = {
            "before": TimeSpan(0, gone_us),
            "without": TimeSpan(gone_us, back_us),
            "after": TimeSpan(back_us, 2**63),
        }
        return {
            name: dict(Counter(row.row[0] for row in self.rows if row.readable_us in window))
            for name, window in windows.items()
        }


@dataclass(frozen=True)
class Summary:
    """Everything that a demo tells at its end."""

    reports: Mapping[str, StoredReport]  # findings of each datacenter's verification
    course: Course
    url: str
    plot: str
    folder: str

    @property
    def holds(self) -> bool:
        """Whether the join is right. Everything had become idle before: what still waits was not joined."""
        return all(r.ok and r.adds_up and not r.equation["pending"] for r in self.reports.values())

    @property
    def duplicate_rows(self) -> int:
        """Events with more than one row over all tables; each is reported once, in one datacenter."""
        return sum(found["count"] for _, found in self._violations if found["kind"] == "duplicate_rows")

    @property
    def _violations(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(name, found) for name, one in self.reports.items() for found in one.report["violations"]]

    def total(self, term: str) -> int:
        return sum(report.equation[term] for report in self.reports.values())

    def as_dict(self) -> dict[str, Any]:
        course = self.course
        return {
            "holds": self.holds,
            "datacenters": {name: report.equation for name, report in self.reports.items()},
            "joined": self.total("joined"),
            "duplicate_rows": self.duplicate_rows,
            "missing": self.total("missing"),
            "latency_undisturbed": course.latency(course.undisturbed).as_dict(),
            "latency_around_kill": course.latency(course.without).as_dict(),
            "recovery_seconds": course.without.seconds,
            "rows": course.shares(),
            "seconds": {name: round(span.seconds, 1) for name, span in course.spans.items()},
            "total_seconds": round(total_seconds(course.spans.values()), 1),
            "url": self.url,
            "plot": self.plot,
            "folder": self.folder,
        }

    def text(self) -> str:
        course, names, victim = self.course, list(self.reports), self.course.kill.datacenter
        shares = [
            [_WHEN[when], *(f"{rows.get(name, 0):,}" for name in names)]
            for when, rows in course.shares().items()
        ]
        seconds = ", ".join(f"{name} {span.seconds:.0f} s" for name, span in course.spans.items())
        return "\n".join(
            [
                *table_lines(equation_table({name: one.equation for name, one in self.reports.items()})),
                "",
                f"{self.total('joined'):,} clicks joined by {' and '.join(names)}; "
                f"joined twice: {self.duplicate_rows:,}; missing: {self.total('missing'):,}",
                "",
                f"{'from the later line written to the row readable, s':50}    p50    p90    p99    rows",
                _latency("undisturbed", course.latency(course.undisturbed)),
                _latency(f"while {victim} was gone", course.latency(course.without)),
                "",
                f"{victim}: killed with -9; joined again after {course.without.seconds:.1f} s",
                *table_lines([["rows by datacenter", *names], *shares]),
                "",
                f"time: {seconds}; {total_seconds(course.spans.values()):.0f} s in all",
                f"latency plot: {self.plot}",
                f"Dagster's UI: {self.url} while it runs; `make dev` shows it again, with this history",
                *(
                    f"{name}: {found['count']:,} {found['says']}. What to do: {found['what_to_do']}"
                    for name, found in self._violations
                ),
                "VERIFIED: nothing is missing, nothing is joined twice, every value is right"
                if self.holds
                else "PROMISES ARE BROKEN, see above",
            ]
        )


_WHEN = {"before": "  before the kill", "without": "  while it was gone", "after": "  afterwards"}


def total_seconds(spans: Iterable[TimeSpan]) -> float:
    """From the beginning of the first to the end of the last."""
    listed = list(spans)
    return (max(span.end_us for span in listed) - min(span.start_us for span in listed)) / MICROSECONDS


def _latency(when: str, latency: Latency) -> str:
    percentiles = (latency.p50_seconds, latency.p90_seconds, latency.p99_seconds)
    return f"    {when:46}{''.join(f'{value:7.2f}' for value in percentiles)}{latency.rows:>8,}"
