"""The sensors that tell users' functions of what fails, goes on or is over: one for each pipeline file.

A file that can't be read has its sensor too, which knows the function of the last time that it could be read.
What is seen, and of what, belongs to `seen` and `failed_runs`; calling the function to `telling`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from photon.assets.pipeline_files import FOLDER, file_key
from photon.assets.run_history import PRUNING_JOB
from photon.health.alerts import Alert, ToldAlert, load_hook, news, told_after
from photon.orchestration.failed_runs import failed_runs, mended_runs
from photon.orchestration.kept_instance import KEPT
from photon.orchestration.seen import SensorScope, open_alerts
from photon.orchestration.telling import Calls
from photon.pipeline.file import Pipeline, PipelineError, load_pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.resources.environment import LocationSettings

TICK_SECONDS = 10
# A failure that goes on is told again after this time; Dagster's checks after `watcher.AGAIN_US`.
AGAIN_US = 3_600 * MICROSECONDS
# A call of the function that takes longer holds up the alerts after it. Dagster ends a tick after a minute.
CALL_SECONDS = 20.0
CURSOR_FORMAT = 6
MOST_RUNS = 1_000  # are remembered: more than fail while Dagster stores the end of one
SENSOR = "alerts"


@dataclass(frozen=True)
class HookName:
    """A user's function, as a pipeline file has named it."""

    pipeline: str  # as alerts say it, also while the file can't be read
    spec: str  # module:function
    folder: str  # folder of the pipeline file

    @classmethod
    def of(cls, pipeline: Pipeline) -> HookName | None:
        alerts = pipeline.alerts
        if alerts.hook is None:
            return None
        return cls(pipeline.name, alerts.hook, str(pipeline.file.parent))


@dataclass(frozen=True)
class Cursor:
    """The alerts that were told of a file, and to whom. Times are in seconds since 1970."""

    file: str  # path of the file: names move from file to file when PHOTON_PIPELINES changes
    since: float  # the first look: older failures are nobody's news
    runs_until: float  # the last look at failed runs
    told: Mapping[str, ToldAlert] = field(
        default_factory=dict
    )  # alerts on checks, tables, sensors and schedules
    runs: tuple[str, ...] = ()  # those that were told
    failing: Mapping[str, str] = field(
        default_factory=dict
    )  # of these, subjects that no run mended since, by id
    failed: tuple[str, ...] = ()  # the keys of alerts that the function did not take
    hook: HookName | None = None  # as the file was last read

    @classmethod
    def from_text(cls, text: str | None, file: str, now: float) -> Cursor:
        """As it was stored. The first one of a file tells nothing of runs that failed before."""
        stored: dict[str, Any] = json.loads(text) if text else {}
        if stored.pop("format", None) != CURSOR_FORMAT or stored["file"] != file:
            return cls(file, now, now)
        told = {key: ToldAlert(**one) for key, one in stored.pop("told").items()}
        hook, runs, failed = (stored.pop(name) for name in ("hook", "runs", "failed"))
        named = HookName(**hook) if hook else None
        return cls(**stored, told=told, runs=tuple(runs), failed=tuple(failed), hook=named)

    def as_text(self) -> str:
        return json.dumps({"format": CURSOR_FORMAT, **asdict(self)})

    def after(self, done: Iterable[Alert], now_us: int) -> Cursor:
        """The cursor once these alerts were told."""
        runs = [alert for alert in done if alert.kind == "run"]
        others = [alert for alert in done if alert.kind != "run"]
        failed = {alert.run: alert.subject for alert in runs if alert.level != "ok"}
        mended = {alert.subject for alert in runs if alert.level == "ok"}
        open_before = {run: subject for run, subject in self.failing.items() if subject not in mended}
        return replace(
            self,
            told=told_after(others, self.told, now_us),
            runs=(*failed, *self.runs)[:MOST_RUNS],
            failing=dict([*open_before.items(), *failed.items()][-MOST_RUNS:]),
        )


def alerts_sensor(file: str, at_load: LocationSettings, clock: Clock | None = None) -> SensorDefinition:
    """The sensor of a pipeline file. What its function does not take is told again at the next tick."""
    clock, name = clock or SystemClock(), at_load.file_names()[file]
    of_file, calls = scope_of(file, at_load), Calls(clock)

    @sensor(
        name=sensor_name(name),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells alerts.hook of failed checks, runs and ticks, and of stale assets.",
    )
    def alerts(context: SensorEvaluationContext) -> SensorResult:
        now_us = clock.now_us()
        cursor = Cursor.from_text(context.cursor, file, now_us / MICROSECONDS)
        try:
            named, is_right = HookName.of(load_pipeline(file)), True
        except PipelineError:  # a check tells of this problem
            named, is_right = cursor.hook, False
        if named is None:
            return SensorResult(skip_reason=SkipReason(f"{file} names no alerts.hook"))
        hook, scope = load_hook(named.spec, Path(named.folder)), replace(of_file, name=named.pipeline)
        before = cursor.after(calls.ended_late(), now_us)
        # Every sensor of a file that can't be read fails: its check says why, once.
        seen = open_alerts(context, scope, with_ticks=is_right)
        fresh = news(seen, before.told, now_us, AGAIN_US)
        runs = failed_runs(KEPT.of(context), scope, before.runs_until, before.since, before.runs)
        runs += mended_runs(KEPT.of(context), scope, before.failing)
        # An alert that was not taken comes last: a function that hangs for one is told the others first.
        in_turn = sorted([*fresh, *runs], key=lambda alert: alert.key in before.failed)
        found = calls.tell(hook, in_turn, CALL_SECONDS)
        after = replace(before.after(found.done, now_us), failed=tuple(sorted(found.failed)), hook=named)
        if len(found.done) == len(fresh) + len(runs):
            after = replace(after, runs_until=now_us / MICROSECONDS)
        if found.failed and after == cursor:  # a tick that fails stores nothing, so here it forgets nothing
            raise next(iter(found.failed.values()))
        says = [*(alert.title for alert in found.done), *map(str, found.failed.values())]
        return SensorResult(
            skip_reason=SkipReason("; ".join(says) or "nothing is new"), cursor=after.as_text()
        )

    return alerts


def sensor_name(file_name: str) -> str:
    """The sensor's name, made of Dagster's name for the pipeline file."""
    return f"{file_name}__{SENSOR}"


def scope_of(file: str, at_load: LocationSettings) -> SensorScope:
    """The alerts that a file's function is told: its pipeline's, and those of the whole location."""
    name = at_load.file_names()[file]
    served = next((one for one in at_load.served if str(one.pipeline.file) == file), None)
    group = served.name if served else None

    def is_shared(one: str) -> bool:
        """Also a function of another file that fails, and can't say so itself."""
        return one == FOLDER or one.startswith(PRUNING_JOB) or one.endswith(f"__{SENSOR}")

    def is_own(name_in_dagster: str) -> bool:
        return group is not None and name_in_dagster.startswith(f"{group}__")

    return SensorScope(
        served.pipeline.name if served else name,
        has_asset=lambda key: key == file_key(name) or key.path[0] == group,
        has_job=lambda job: job == PRUNING_JOB or is_own(job),
        has_ticks_of=lambda one: one != sensor_name(name) and (is_shared(one) or is_own(one)),
    )
