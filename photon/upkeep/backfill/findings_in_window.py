"""Findings of a verification that lie in a window of event times.

A report names records by their places. The time of each is in its line, which is read again here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from photon.dispatcher.reading_again import SecondReading
from photon.pipeline.file import Pipeline
from photon.state.view import open_view
from photon.tokens import Occurrence
from photon.upkeep.backfill.days import day_of
from photon.verification.days import Window
from photon.verification.report import Case, DatacenterReport, Finding

Times = Mapping[Occurrence, int]


@dataclass(frozen=True)
class FindingsInWindow:
    """A report whose findings have the cases of a window alone, and how many records were left out."""

    report: DatacenterReport
    outside: int = 0  # cases of other times
    untimed: int = 0  # cases whose lines can't be read again, so that nobody knows their times
    by_day: Mapping[str, int] = field(default_factory=dict)  # the cases of the window, by UTC day


def findings_in_window(
    pipeline: Pipeline, datacenter: str, report: DatacenterReport, window: Window
) -> FindingsInWindow:
    """The report of a datacenter with what is in the window. Reads a line for each case.

    StateUnavailable, FormatTooNew, LakeUnavailable.
    """
    cases = [case for finding in report.findings for case in finding.cases]
    return restricted(report, window, _times_of(pipeline, datacenter, report.epoch or "", cases))


def restricted(report: DatacenterReport, window: Window, times: Times) -> FindingsInWindow:
    """The report with the cases whose times are in the window; those that it does not name stay counted.

    Findings that break no promise and have no cases, such as records that conflict, are of all times: none is
    in it.
    """
    findings, outside, untimed = [], 0, 0
    by_day: Counter[str] = Counter()
    for finding in report.findings:
        if not (finding.cases or finding.meaning.violation):
            continue
        timed = [(case, times.get(Occurrence.parse(case.occurrence))) for case in finding.cases]
        in_window = [(case, us) for case, us in timed if us is not None and us in window]
        inside, unknown = tuple(case for case, _ in in_window), sum(us is None for _, us in timed)
        by_day.update(str(day_of(us)) for _, us in in_window)
        outside += len(timed) - len(inside) - unknown
        untimed += unknown
        findings.append(_with_cases(finding, inside))
    left = [finding for finding in findings if finding.count]
    return FindingsInWindow(replace(report, findings=tuple(left)), outside, untimed, by_day)


def _with_cases(finding: Finding, cases: tuple[Case, ...]) -> Finding:
    if not finding.cases:  # recovery mends no finding of this kind
        return finding
    named = {(case.occurrence, case.event_id) for case in cases}
    examples = tuple(one for one in finding.examples if (one.where, one.event_id) in named)
    return replace(
        finding, count=finding.count - len(finding.cases) + len(cases), examples=examples, cases=cases
    )


def _times_of(pipeline: Pipeline, datacenter: str, epoch: str, cases: Sequence[Case]) -> Times:
    """The event times of records, as their lines say; not of those that can't be read again."""
    if not cases:
        return {}
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None or state.epoch != epoch:  # another epoch numbers files otherwise
            return {}
        files = state.files()
    reading = SecondReading(pipeline, datacenter, epoch)
    wanted = [(Occurrence.parse(case.occurrence), case.event_id) for case in cases]
    lines = reading.read(wanted, files, reading.mended())
    columns = (lines[name].to_pylist() for name in ("_file", "_offset", "_time_us"))
    return {Occurrence(file, offset): time_us for file, offset, time_us in zip(*columns, strict=True)}
