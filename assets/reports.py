"""Reports, which are assets: the verification of a pipeline's rows, and the state of its registry.

The verification compares the copies of the logs too, and judges which events were readable in time.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetsDefinition,
    MaterializeResult,
    MetadataValue,
    asset,
)

from photon.assets.attributes import freshness
from photon.assets.pictures import availability_plot
from photon.assets.registry_state import checks_of, state_metadata
from photon.assets.runbook import with_section
from photon.assets.runs import Metadata, canceled_with_a_sentence, markdown_table, pipeline_of_run
from photon.assets.verification import CHECKS, check_result, report_metadata
from photon.assets.work import REGISTRY, VERIFICATION_POOL, AssetWork, WorkRun, technology_of
from photon.health.registry import ENDPOINTS, REGISTRY_PROMISES, judge_registry
from photon.health.verdict import PATIENCE_SECONDS, late_after
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations
from photon.process.clock import SystemClock
from photon.process.readable import typed
from photon.resources.environment import ServedPipeline
from photon.verification.availability.report import AvailabilityReport
from photon.verification.log_copies.lacks import KIND
from photon.verification.report import MOST_EXAMPLES, VerificationReport

MOST_FED_BYTES = 2**30  # of a fed log, which is read from its beginning each time: some 20 s
COPIES_CHECK = "copies_agree"
COPIES_AGREE = "Every datacenter's copy of the logs has the events that the others have."


def copies_check(
    report: VerificationReport, problems: Sequence[str], pipeline_file: Path | str
) -> AssetCheckResult:
    """Warns where a copy is short, with the datacenter that has to act, and from where on."""
    found = [
        (name, finding)
        for name, one in report.datacenters.items()
        for finding in one.findings
        if finding.kind == KIND
    ]
    rows = [
        [name, example.where, example.detail, f"`{example.event_id}`"]
        for name, finding in found
        for example in finding.examples
    ]
    says = [f"{name}: {finding.number()} {finding.meaning.says}" for name, finding in found]
    metadata: Metadata = {"count": sum(finding.count for _, finding in found)}
    if rows:
        columns = ["datacenter that has to act", "another one has", "what is lacking", "first event"]
        metadata["examples"] = MetadataValue.md(markdown_table([columns, *rows], "-"))
        remedy = "; ".join(
            dict.fromkeys(typed(finding.remedy, pipeline_file, name) for name, finding in found)
        )
        says.append(f"What to do: {remedy}")
        metadata["what_to_do"] = remedy
    return AssetCheckResult(
        check_name=COPIES_CHECK,
        passed=not found,
        severity=AssetCheckSeverity.WARN,
        description=". ".join([*(says or ["No copy lacks anything that another one has."]), *problems]),
        metadata=metadata,
    )


AVAILABILITY_CHECK = "readable_in_time"
AVAILABILITY_PROMISE = "Events are readable in time in so many minutes as the pipeline file promises."


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


@dataclass(frozen=True, kw_only=True)
class Report(AssetWork):
    """One report. `work` imports what it needs when it runs, so that the location loads fast."""

    work: Callable[[WorkRun], MaterializeResult[None]]
    checks: Mapping[str, str]  # promises by name
    stale: Callable[[Pipeline], Durations]  # how old it may be
    group: str = ""  # in Dagster's graph; empty: that of the data itself
    technologies: Sequence[str] = (REGISTRY,)
    resources: Sequence[str] = field(default_factory=tuple)


def report_asset(report: Report, served: ServedPipeline) -> AssetsDefinition:
    """The asset of a report of a pipeline."""
    key, clock = served.asset_key(report.asset), SystemClock()

    @asset(
        key=key,
        group_name=served.group_name(report.group),
        deps=[served.asset_key(name) for name in report.goes_by],
        kinds={technology_of(one, served.pipeline) for one in report.technologies},
        required_resource_keys=set(report.resources),
        pool=report.pool,
        freshness_policy=freshness(report.stale(served.pipeline)),
        check_specs=[
            AssetCheckSpec(name, asset=key, description=promise) for name, promise in report.checks.items()
        ],
        description=report.description,
    )
    def materialize(context: AssetExecutionContext) -> MaterializeResult:  # type: ignore[type-arg]  # Dagster refuses MaterializeResult[None] with checks
        began_us = clock.now_us()
        with canceled_with_a_sentence(context), pipeline_of_run(served, report.asks_registry) as pipeline:
            return report.work(WorkRun(context, served, pipeline, None, clock, began_us))

    return materialize


def _verify(run: WorkRun) -> MaterializeResult[None]:
    from photon.jobs.log_copies import compare
    from photon.jobs.verification import verify
    from photon.verification.availability.report import judge_all
    from photon.verification.example_places import with_places
    from photon.verification.fed_rows import with_fed_rows
    from photon.verification.stored_reports import append

    context = run.context
    spark = partial(context.resources.spark.for_checks, run.pipeline)
    report = verify(run.pipeline, run.served.datacenters, context.log.info, spark, keep=True, pages=True)
    copies = compare(
        run.pipeline, list(report.datacenters), run.clock.now_us(), True, context.log.info, spark
    )
    report = with_places(run.pipeline, copies.added_to(report, MOST_EXAMPLES))
    report = with_fed_rows(run.pipeline, report, MOST_EXAMPLES, MOST_FED_BYTES)
    seconds = run.seconds()
    append(run.pipeline, report, run.clock.now_us(), context.run.run_id, seconds)
    availability = judge_all(run.pipeline, report.datacenters, run.clock.now_us(), context.run.run_id)
    checks = [
        *(check_result(check, report, run.pipeline.file) for check in CHECKS),
        copies_check(report, copies.problems, run.pipeline.file),
        availability_check(availability, run.pipeline),
    ]
    return MaterializeResult(
        metadata={
            **report_metadata(report, seconds, run.pipeline.file),
            **availability_metadata(availability),
        },
        check_results=[with_section(run.pipeline, one) for one in checks],
    )


def _report_state(run: WorkRun) -> MaterializeResult[None]:
    from photon.upkeep.registry_state import registry_state

    state = registry_state(run.pipeline)
    verdicts = judge_registry(state, run.pipeline)
    if verdicts[ENDPOINTS].level != "ok":  # one look is no alarm
        run.clock.sleep(PATIENCE_SECONDS)
        again = registry_state(run.pipeline, endpoints_only=True)
        verdicts[ENDPOINTS] = judge_registry(again, run.pipeline)[ENDPOINTS]
    checks = checks_of(verdicts, run.pipeline)
    return MaterializeResult(metadata=state_metadata(state), check_results=checks)


VERIFICATION = Report(
    name="verification",
    asset="verification_report",
    work=_verify,
    job_description="Classifies every foreign record anew; checks that none is missing or joined twice.",
    description=(
        "Every foreign record classified anew from the raw logs and the tables of all datacenters, never "
        "from what the joins have counted. Stored in each datacenter's table verification_reports."
    ),
    checks={
        **{check.name: check.promise for check in CHECKS},
        COPIES_CHECK: COPIES_AGREE,
        AVAILABILITY_CHECK: AVAILABILITY_PROMISE,
    },
    goes_by=["joined_events"],
    technologies=["pyspark", "deltalake"],
    resources=["spark"],
    pool=VERIFICATION_POOL,
    cron=lambda pipeline: pipeline.verification.cron,
    stale=lambda pipeline: late_after(pipeline.verification.cron),
)
REGISTRY_STATE = Report(
    name="registry_report",  # an asset is called `registry_state` already
    asset="registry_state",
    work=_report_state,
    job_description="Reports on the registry's ledgers and endpoints.",
    description=(
        "The registry of joined ids: ids and bytes by ledger, the boundary of gc; how endpoints answer and"
        " how far they are behind; epochs of datacenters. Jobs that repair the registry or retire a"
        " datacenter leave an observation here."
    ),
    checks=REGISTRY_PROMISES,
    goes_by=["joined_events"],
    group="upkeep",
    cron=lambda pipeline: pipeline.registry.state.cron,
    stale=lambda pipeline: late_after(pipeline.registry.state.cron),
)
REPORTS: Sequence[Report] = (VERIFICATION, REGISTRY_STATE)
