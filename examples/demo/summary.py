"""What a demo says at its end: what the verification found, numbers made of what was seen, their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.latency import Latency, SeenRow, TimeSpan, summarize
from examples.demo.scenario import WARM_UP_SECONDS, Kill
from photon.clock import MICROSECONDS
from photon.verification.report_table import StoredReport


@dataclass(frozen=True)
class Verdict:
    """Whether the join is right."""

    holds: bool
    equations: Mapping[str, Mapping[str, int]]  # by datacenter; `missing` last
    duplicate_rows: int  # events with more than one row over all tables
    remedies: tuple[str, ...] = ()  # what is wrong and what to do

    @property
    def terms(self) -> list[str]:
        """The terms of an equation, in their order."""
        return list(next(iter(self.equations.values())))

    def of_term(self, term: str) -> dict[str, int]:
        """One term by datacenter."""
        return {name: equation[term] for name, equation in self.equations.items()}

    @property
    def joined(self) -> int:
        """Foreign events with a row, over all datacenters."""
        return sum(self.of_term("joined").values())

    @property
    def missing(self) -> int:
        """Records that should be joined and are in no table."""
        return sum(self.of_term("missing").values())


def verdict_of(reports: Mapping[str, StoredReport]) -> Verdict:
    """The verdict of one verification, from its report of each datacenter."""
    findings = [(name, found) for name, stored in reports.items() for found in stored.report["violations"]]
    return Verdict(
        # Everything had become idle before: what still waits then was not joined, whatever the reason.
        holds=all(s.ok and s.adds_up and not s.equation["pending"] for s in reports.values()),
        equations={name: stored.equation for name, stored in reports.items()},
        # Each such event is reported once, in one of the datacenters.
        duplicate_rows=sum(found["count"] for _, found in findings if found["kind"] == "duplicate_rows"),
        remedies=tuple(
            f"{name}: {found['count']:,} {found['says']}. What to do: {found['what_to_do']}"
            for name, found in findings
        ),
    )


@dataclass(frozen=True)
class Course:
    """How a demo went: its phases, the kill, and every row when it was first seen."""

    rows: tuple[SeenRow, ...]
    spans: Mapping[str, TimeSpan]  # by phase
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
        """Of the rows whose later line was written in the window."""
        return summarize(self.rows, {row.click_id: row.written_us for row in self.rows}, window)

    def shares(self) -> dict[str, dict[str, int]]:
        """Rows by datacenter, before the kill, while one datacenter was gone, and afterwards."""
        windows = {
            "before": TimeSpan(0, self.without.start_us),
            "without": self.without,
            "after": TimeSpan(self.without.end_us, 2**63),
        }
        return {
            name: dict(Counter(row.row[0] for row in self.rows if row.readable_us in window))
            for name, window in windows.items()
        }


@dataclass(frozen=True)
class Summary:
    """Everything that a demo tells at its end."""

    verdict: Verdict
    course: Course
    url: str
    plot: str
    folder: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        verdict, course = self.verdict, self.course
        return {
            "holds": verdict.holds,
            "datacenters": {name: dict(equation) for name, equation in verdict.equations.items()},
            "joined": verdict.joined,
            "duplicate_rows": verdict.duplicate_rows,
            "missing": verdict.missing,
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
        """For people."""
        course, verdict, gone = self.course, self.verdict, self.course.without
        names, victim = list(verdict.equations), course.kill.datacenter
        seconds = ", ".join(f"{name} {span.seconds:.0f} s" for name, span in course.spans.items())
        return "\n".join(
            [
                *_table("", {term: verdict.of_term(term) for term in verdict.terms}, names, _SIGNS),
                "",
                f"{verdict.joined:,} clicks joined by {' and '.join(names)}; "
                f"joined twice: {verdict.duplicate_rows:,}; missing: {verdict.missing:,}",
                "",
                f"{'from the later line written to the row readable, s':50}    p50    p90    p99    rows",
                _latency("undisturbed", course.latency(course.undisturbed)),
                _latency(f"while {victim} was gone", course.latency(gone)),
                "",
                f"{victim}: killed with -9; joined again after {gone.seconds:.1f} s",
                *_table("rows by datacenter", course.shares(), names, _WHEN),
                "",
                f"time: {seconds}; {total_seconds(course.spans.values()):.0f} s in all",
                f"latency plot: {self.plot}",
                f"Dagster's UI: {self.url} while it runs; `make dev` shows it again, with this history",
                *verdict.remedies,
                "VERIFIED: nothing is missing, nothing is joined twice, every value is right"
                if verdict.holds
                else "PROMISES ARE BROKEN, see above",
            ]
        )


def total_seconds(spans: Iterable[TimeSpan]) -> float:
    """From the beginning of the first to the end of the last."""
    listed = list(spans)
    return (max(span.end_us for span in listed) - min(span.start_us for span in listed)) / MICROSECONDS


_SIGNS = {"foreign": "  foreign", "joined": "= joined"}  # all other terms are added
_WHEN = {"before": "  before the kill", "without": "  while it was gone", "after": "  afterwards"}


def _table(
    title: str, rows: Mapping[str, Mapping[str, int]], names: list[str], labels: Mapping[str, str]
) -> list[str]:
    lines = [f"{title:20}" + "".join(f"{name:>12}" for name in names)]
    for key, row in rows.items():
        label = labels.get(key, f"+ {key}")
        lines.append(f"{label:20}" + "".join(f"{row.get(name, 0):>12,}" for name in names))
    return lines


def _latency(when: str, latency: Latency) -> str:
    percentiles = (latency.p50_seconds, latency.p90_seconds, latency.p99_seconds)
    return f"    {when:46}{''.join(f'{value:7.2f}' for value in percentiles)}{latency.rows:>8,}"
