"""Availability as Dagster shows it: budgets in numbers and words, a picture, and a check of the promise."""

from __future__ import annotations

from dagster import AssetCheckResult, AssetCheckSeverity, MetadataValue

from assets.pictures import availability_plot
from assets.runs import Metadata
from photon.pipeline.file import Pipeline
from photon.verification.availability.report import AvailabilityReport

AVAILABILITY_CHECK = "readable_in_time"
PROMISE = "Events are readable in time in so many minutes as the pipeline file promises."


def availability_metadata(report: AvailabilityReport) -> Metadata:
    """Numbers that Dagster plots over time, of all datacenters together; budgets in words, and a picture."""
    words = "\n".join(f"- {line}" for line in (*report.sentences(), *report.bad_minutes()))
    metadata: Metadata = {"availability": MetadataValue.md(words), "minutes_judged": report.newly_judged}
    budget, picture = report.budget, availability_plot(report.union, report.settings)
    if budget is not None:
        metadata |= {
            "bad_minutes": budget.bad,
            "bad_minutes_left": budget.left,
            "late_events": budget.late_events,
        }
    if picture is not None:
        metadata["availability_picture"] = MetadataValue.md(picture)
    return metadata


def availability_check(report: AvailabilityReport, pipeline: Pipeline) -> AssetCheckResult:
    """Fails where the budget is used up; warns where it burns too fast."""
    budget = report.budget
    is_used_up = budget is not None and budget.left < 0
    remedy = f"photon availability {pipeline.typed} names the latest bad minutes"
    if report.bad_minutes():
        remedy += f", and {report.slowest_of(pipeline)} the slowest events of the last of them"
    passed = budget is None or not (is_used_up or budget.burning)
    metadata: Metadata = {"bad_minutes": budget.bad, "bad_minutes_left": budget.left} if budget else {}
    return AssetCheckResult(
        check_name=AVAILABILITY_CHECK,
        passed=passed,
        severity=AssetCheckSeverity.ERROR if is_used_up else AssetCheckSeverity.WARN,
        description=f"{'; '.join(report.sentences())}. {remedy}.",
        metadata=metadata if passed else {**metadata, "what_to_do": remedy},
    )
