"""One sensor a pipeline that watches its datacenters: it evaluates their checks, whoever else is at work."""

from __future__ import annotations

from dagster import (
    AssetCheckEvaluation,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.health import evaluation, watcher_name
from orchestration.shift_runs import ShiftRuns
from photon.clock import Clock, SystemClock, microseconds
from photon.health.verdicts import Verdict, judge
from photon.health.vitals import look
from photon.health.watched import Told, Watched, as_text, from_text
from photon.pipeline.file import Pipeline
from photon.registry.open import close_registries
from resources.environment import ServedPipeline

TICK_SECONDS = 10


def watcher_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor. It depends on no shift and on no other sensor."""
    clock = clock or SystemClock()

    @sensor(
        name=watcher_name(served),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Looks whether each datacenter is well, and evaluates its checks when that changes.",
    )
    def watcher(context: SensorEvaluationContext) -> SensorResult:
        pipeline, before = served.load(), from_text(context.cursor)
        after: dict[str, Watched] = {}
        news: list[AssetCheckEvaluation] = []
        problems: list[str] = []
        try:
            for name in served.datacenters:
                is_starting = bool(ShiftRuns(context.instance, served, name).in_progress())
                now_us = clock.now_us()
                watched, verdicts = _watch(pipeline, name, before.get(name, Watched()), now_us, is_starting)
                after[name] = watched
                told = before.get(name, Watched()).told
                news += [
                    evaluation(served, name, promise, verdict)
                    for promise, verdict in verdicts.items()
                    if told.get(promise) != watched.told[promise]
                ]
                problems += [verdict.says for verdict in verdicts.values() if verdict.level != "ok"]
        finally:
            close_registries()
        return SensorResult(
            skip_reason=SkipReason("; ".join(problems) or "all datacenters are well"),
            cursor=as_text(after),
            asset_events=news,
        )

    return watcher


def _watch(
    pipeline: Pipeline, datacenter: str, watched: Watched, now_us: int, is_starting: bool
) -> tuple[Watched, dict[str, Verdict]]:
    """Look at one datacenter; what to remember of it, and the verdicts."""
    found = look(pipeline, datacenter, now_us, is_starting)
    memory = watched.memory.after(found, pipeline)
    verdicts = judge(datacenter, found, memory, pipeline)
    again_us, told = microseconds(pipeline.health.tell_again), dict(watched.told)
    for promise, verdict in verdicts.items():
        last = watched.told.get(promise)
        if last is None or last.is_news(verdict, now_us, again_us):
            last = Told(verdict.level, now_us)
        told[promise] = last
    return Watched(now_us, memory, told, is_starting), verdicts
