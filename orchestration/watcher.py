"""One sensor a pipeline that watches its datacenters: it evaluates their checks, whoever else is at work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.health import evaluation
from orchestration.shift_runs import ShiftRuns
from photon.clock import Clock, SystemClock, microseconds
from photon.health.memory import Memory
from photon.health.verdicts import Level, Verdict, judge
from photon.health.vitals import look
from photon.pipeline.file import Pipeline
from photon.registry.open import close_registries
from resources.environment import ServedPipeline, dagster_name

TICK_SECONDS = 10
CURSOR_FORMAT = 1


@dataclass(frozen=True)
class Told:
    """What was told of one promise last."""

    level: Level
    at_us: int

    def is_news(self, verdict: Verdict, now_us: int, again_us: int) -> bool:
        """Whether to tell it: it has changed, or goes on for so long."""
        return verdict.level != self.level or (verdict.level != "ok" and now_us - self.at_us >= again_us)


@dataclass(frozen=True)
class Watched:
    """A datacenter, from one tick to the next."""

    memory: Memory = field(default_factory=Memory)
    told: Mapping[str, Told] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        told = {promise: [one.level, one.at_us] for promise, one in self.told.items()}
        return {"memory": self.memory.as_dict(), "told": told}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Watched:
        told = {promise: Told(level, at_us) for promise, (level, at_us) in stored["told"].items()}
        return cls(Memory.from_dict(stored["memory"]), told)


def watcher_sensor(served: ServedPipeline, clock: Clock | None = None) -> SensorDefinition:
    """The sensor. It depends on no shift and on no other sensor."""
    clock = clock or SystemClock()

    @sensor(
        name=dagster_name(served.pipeline.name, "watcher"),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Looks whether each datacenter is well, and evaluates its checks when that changes.",
    )
    def watcher(context: SensorEvaluationContext) -> SensorResult:
        pipeline, before = served.load(), _from_text(context.cursor)
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
            cursor=_as_text(after),
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
    again_us, told = microseconds(pipeline.health.tell_again), {}
    for promise, verdict in verdicts.items():
        last = watched.told.get(promise)
        if last is None or last.is_news(verdict, now_us, again_us):
            last = Told(verdict.level, now_us)
        told[promise] = last
    return Watched(memory, told), verdicts


def _from_text(text: str | None) -> dict[str, Watched]:
    """As it was stored. Forgets a cursor of another format: what goes on is told again."""
    stored = json.loads(text) if text else {}
    if stored.get("format") != CURSOR_FORMAT:
        return {}
    return {name: Watched.from_dict(one) for name, one in stored["datacenters"].items()}


def _as_text(watched: Mapping[str, Watched]) -> str:
    return json.dumps(
        {"format": CURSOR_FORMAT, "datacenters": {name: one.as_dict() for name, one in watched.items()}}
    )
