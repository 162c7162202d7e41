"""Verification by both engines: what one says of a story, the other says too (docs/adr/0068)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from photon.jobs.local.session import LocalSession
from photon.jobs.verification import verify as verify_with
from photon.pipeline.file import Pipeline
from photon.verification.report import VerificationReport
from photon.verification.tasks import BATCH_ROWS


def verify(
    pipeline: Pipeline,
    datacenters: Sequence[str],
    *,
    session: Any,
    keep: bool = False,
    pages: bool = False,
    **options: Any,
) -> VerificationReport:
    """The report of Spark, which is that of the engine without Spark, before anything is kept.

    `session`: None for the engine without Spark alone, which keeps nothing.
    """
    alone = verify_alone(pipeline, datacenters, pages=pages, **options)
    if session is None:
        return alone
    by_spark = verify_with(pipeline, datacenters, session=session, keep=keep, pages=pages, **options)
    assert _told(alone) == _told(by_spark)
    return by_spark


def verify_alone(pipeline: Pipeline, datacenters: Sequence[str], **options: Any) -> VerificationReport:
    """The report of the engine without Spark."""
    lakes = {name: place.lake for name, place in pipeline.datacenters.items()}
    with LocalSession(lakes, BATCH_ROWS) as local:
        return verify_with(pipeline, datacenters, session=local, **options)


def _told(report: VerificationReport) -> dict[str, Any]:
    """All that a report says but the names of its pages, which are made up."""
    told = report.as_dict()
    for name in report.datacenters:
        for finding in (*told[name]["violations"], *told[name]["findings"]):
            finding.pop("pages", None)
    return told
