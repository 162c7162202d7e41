"""The asset `health` and its checks, a set for each datacenter: whether it is well, and what to do.

A watcher evaluates them, and people may. The shift never does: one that hangs could not say so. Nothing ever
materializes the asset: Dagster's UI shows no result that is older than a materialization (docs/adr/0060).
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Iterator

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    AssetSpec,
    multi_asset_check,
)

from photon.assets.runbook import section
from photon.assets.runs import Metadata, canceled_with_a_sentence, cursor_of, failures_with_a_message
from photon.health.facts import look
from photon.health.judge import PROMISES, in_checks, judge
from photon.health.memory import WatcherNotes, from_text, memory_beside
from photon.health.verdict import Level, Verdict
from photon.pipeline.file import dagster_name
from photon.process.clock import SystemClock
from photon.resources.environment import ServedPipeline

SEVERITY = {
    "ok": AssetCheckSeverity.WARN,
    "warn": AssetCheckSeverity.WARN,
    "error": AssetCheckSeverity.ERROR,
}


def health_key(served: ServedPipeline) -> AssetKey:
    """The asset whose checks tell of the datacenters."""
    return served.asset_key("health")


def health_asset(served: ServedPipeline) -> AssetSpec:
    """The asset `health` of a pipeline: it holds checks, and nothing else."""
    return AssetSpec(
        health_key(served),
        group_name=served.name,
        deps=[served.asset_key("joined_events")],
        kinds={"python"},
        description="Whether each datacenter is well: its checks are a watcher's, whoever else is at work.",
    )


def check_name(datacenter: str, promise: str) -> str:
    """One check a datacenter: what is told of one must not hide what is told of another."""
    return dagster_name(datacenter, promise)


def watcher_name(served: ServedPipeline) -> str:
    """The sensor that evaluates the checks (`photon.orchestration.watcher`)."""
    return dagster_name(served.pipeline.name, "watcher")


def level_of(passed: bool, severity: AssetCheckSeverity) -> Level:
    """The level of an evaluation that Dagster has stored."""
    if passed:
        return "ok"
    return "error" if severity is AssetCheckSeverity.ERROR else "warn"


def evaluation(
    served: ServedPipeline, datacenter: str, promise: str, verdict: Verdict
) -> AssetCheckEvaluation:
    """A verdict as the check's result, without a run."""
    return AssetCheckEvaluation(
        asset_key=health_key(served),
        check_name=check_name(datacenter, promise),
        passed=verdict.level == "ok",
        severity=SEVERITY[verdict.level],
        description=verdict.text,
        metadata=_metadata(served, datacenter, promise, verdict),
    )


def _metadata(served: ServedPipeline, datacenter: str, promise: str, verdict: Verdict) -> Metadata:
    return {
        "datacenter": datacenter,
        **verdict_metadata(verdict),
        **section(promise, served.pipeline, datacenter),
    }


def verdict_metadata(verdict: Verdict) -> Metadata:
    """The numbers of a verdict, which Dagster plots, their thresholds in words, and what to do."""
    metadata: Metadata = {one.name: one.value for one in verdict.measures}
    if thresholds := [one.thresholds for one in verdict.measures if one.thresholds]:
        metadata["thresholds"] = "; ".join(thresholds)
    return {**metadata, "what_to_do": verdict.remedy} if verdict.remedy else metadata


def health_checks(served: ServedPipeline, datacenter: str) -> AssetChecksDefinition:
    """A datacenter's checks as people may have them evaluated now."""
    asset = health_key(served)
    specs = [
        AssetCheckSpec(check_name(datacenter, promise), asset=asset, description=f"{datacenter}: {says}")
        for promise, says in PROMISES.items()
    ]

    # Without can_subset the UI's button "Execute" is disabled.
    @multi_asset_check(
        specs=specs, name=dagster_name(served.pipeline.name, datacenter, "health"), can_subset=True
    )
    def health(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        with canceled_with_a_sentence(context), failures_with_a_message():
            pipeline, notes = served.load(), _watchers_notes(context, served, datacenter)
            is_starting = notes is not None and notes.is_starting
            facts = look(pipeline, datacenter, SystemClock().now_us(), is_starting)
            memory, why_alone = memory_beside(notes, facts)
            found, memory = judge(facts, memory, pipeline)
            verdicts = in_checks(found, facts, memory, pipeline)
        alone = f"Judged by this look alone: {why_alone} (sensor {watcher_name(served)})."
        for promise, verdict in verdicts.items():
            key = AssetCheckKey(asset, check_name(datacenter, promise))
            if key in context.selected_asset_check_keys:
                if verdict.is_unsure:  # what Dagster shows stays
                    context.log.warning("no result before it has lasted a while: %s", verdict.text)
                    continue
                yield AssetCheckResult(
                    asset_key=asset,
                    check_name=key.name,
                    passed=verdict.level == "ok",
                    severity=SEVERITY[verdict.level],
                    description=f"{verdict.text} {alone}" if why_alone else verdict.text,
                    metadata=_metadata(served, datacenter, promise, verdict),
                )

    return health


def _watchers_notes(
    context: AssetCheckExecutionContext, served: ServedPipeline, datacenter: str
) -> WatcherNotes | None:
    """The watcher's notes on a datacenter, in the code location of this run if Dagster launched it."""
    cursor = cursor_of(context, watcher_name(served))
    return from_text(cursor).get(datacenter) if cursor is not None else None
