"""The report on availability: the budget of each datacenter and of all together, from stored minutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Availability
from photon.process.clock import in_iso, in_utc
from photon.process.errors import UserError
from photon.process.readable import counted
from photon.verification.availability.budget import Budget, Minute, budget_of, sentence, together
from photon.verification.availability.stored import stored_minutes

if TYPE_CHECKING:
    from photon.verification.report import DatacenterReport

ALL = "all datacenters"
MOST_BAD_MINUTES = 10  # that are named


@dataclass(frozen=True)
class AvailabilityReport:
    """The minutes of each datacenter over the budget's days, and what could not be judged or read."""

    settings: Availability
    minutes: Mapping[str, Mapping[int, Minute]]
    newly_judged: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)  # problems by datacenter

    @property
    def union(self) -> dict[int, Minute]:
        """The minutes of all datacenters together."""
        return together(self.minutes.values())

    def budgets(self) -> dict[str, Budget | None]:
        """The budget of each datacenter, and of all together where there are several."""
        found = {name: budget_of(minutes, self.settings) for name, minutes in self.minutes.items()}
        return {**found, **({ALL: budget_of(self.union, self.settings)} if len(found) > 1 else {})}

    @property
    def budget(self) -> Budget | None:
        """The budget of all together."""
        return budget_of(self.union, self.settings)

    def sentences(self) -> list[str]:
        """For people: the budgets, and what could not be done."""
        says = [f"availability of {sentence(n, one, self.settings)}" for n, one in self.budgets().items()]
        return says + [f"availability of {name}: NOT KNOWN: {why}" for name, why in self.problems.items()]

    def _bad(self) -> list[Minute]:
        """The latest bad minutes of all together."""
        bad = [minute for minute in self.union.values() if not minute.is_good(self.settings.of_events)]
        return bad[-MOST_BAD_MINUTES:]

    def slowest_of(self, pipeline: Pipeline) -> str:
        """The command that names the slowest events of the latest bad minute; there is one."""
        minute = in_iso(self._bad()[-1].at_us, "minutes")
        return f"photon availability {pipeline.typed} --minute {minute}"

    def bad_minutes(self) -> list[str]:
        """The latest bad minutes of all together, for people."""
        return [
            f"{in_utc(minute.at_us, 'minutes')}: {minute.late:,} of {counted(minute.joinable, 'event')} not "
            f"readable in time, {minute.without_row:,} of them without a row"
            for minute in self._bad()
        ]

    def as_dict(self) -> dict[str, Any]:
        budgets = {name: one and one.as_dict() for name, one in self.budgets().items()}
        return {"budgets": budgets, "problems": dict(self.problems), "bad_minutes": self.bad_minutes()}


def judge_all(
    pipeline: Pipeline, reports: Mapping[str, DatacenterReport | None], now_us: int, run: str
) -> AvailabilityReport:
    """Judge the minutes that are over in these datacenters, and store them; then report on all.

    `reports`: of a verification just made. What keeps one datacenter from being judged is a problem in the
    report, and the next time judges its minutes.
    """
    from photon.verification.availability.minutes import judge  # who only reports needs none of it

    newly, problems = 0, {}
    for name, report in reports.items():
        try:
            newly += len(judge(pipeline, name, report, now_us, run))
        except UserError as error:
            problems[name] = str(error)
    return report_of(pipeline, newly, problems)


def report_of(
    pipeline: Pipeline, newly_judged: int = 0, problems: Mapping[str, str] | None = None
) -> AvailabilityReport:
    """The stored minutes of all datacenters, as a report."""
    minutes, found = _stored(pipeline, pipeline.datacenters)
    return AvailabilityReport(pipeline.availability, minutes, newly_judged, {**found, **(problems or {})})


def _stored(
    pipeline: Pipeline, datacenters: Iterable[str]
) -> tuple[dict[str, dict[int, Minute]], dict[str, str]]:
    minutes, problems = {}, {}
    for name in datacenters:
        try:
            minutes[name] = stored_minutes(pipeline, name)
        except UserError as error:
            problems[name] = str(error)
    return minutes, problems
