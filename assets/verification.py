"""Verification as an asset: a report of all datacenters served, and checks that fail if a promise is broken.

What is verified is `jobs.verification`; how a report is shown, `verification_metadata`; when one is made, is
for `orchestration`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Sequence

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    MaterializeResult,
    asset,
)

from assets.engine import pipeline_of_run
from assets.joined_events import joined_events_key
from assets.verification_metadata import CHECKS, Check, check_metadata, check_summary, report_metadata
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.verification.report import VerificationReport
from resources.environment import Served
from resources.pipelines import PipelineFiles
from resources.spark import SparkResource


def verification_key(served: Served) -> AssetKey:
    """The asset that a pipeline's verifications materialize."""
    return AssetKey([served.name, "verification_report"])


def verification_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `verification_report` of a pipeline: of all its datacenters that are served here."""
    key = verification_key(served)
    clock = clock or SystemClock()

    @asset(
        key=key,
        group_name=served.name,
        deps=[joined_events_key(served)],
        kinds={"pyspark", "deltalake"},
        check_specs=[AssetCheckSpec(check.name, asset=key, description=check.promise) for check in CHECKS],
        description=(
            "Every foreign record classified anew from the raw logs and the tables of all datacenters, never "
            "from what the joins have counted. Stored in each datacenter's table verification_reports."
        ),
    )
    def verification_report(
        context: AssetExecutionContext, pipelines: PipelineFiles, spark: SparkResource
    ) -> MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster knows it only like this
        # Late: what a code location need not load to be served.
        from jobs.verification import verify
        from photon.verification.report_table import append

        began_us = clock.now_us()
        with pipeline_of_run(served, pipelines) as pipeline:
            report = verify(pipeline, served.datacenters, context.log.info, spark.spark_session)
            at_us = clock.now_us()
            seconds = (at_us - began_us) / MICROSECONDS
            append(pipeline, report, at_us, context.run.run_id, seconds)
        return MaterializeResult(
            metadata=report_metadata(report, seconds), check_results=_results(key, CHECKS, report)
        )

    return verification_report


def _results(key: AssetKey, checks: Sequence[Check], report: VerificationReport) -> list[AssetCheckResult]:
    return [
        AssetCheckResult(
            asset_key=key,
            check_name=check.name,
            passed=not check.violations(report),
            severity=AssetCheckSeverity.ERROR,
            description=check_summary(check, report),
            metadata=check_metadata(check, report),
        )
        for check in checks
    ]
