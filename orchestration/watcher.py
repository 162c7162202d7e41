"""One sensor a pipeline that watches its datacenters: it evaluates their checks, whoever else is at work."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from dagster import (
    AssetCheckEvaluation,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from photon.assets.health import evaluation, watcher_name
from photon.dispatcher.shift.people import Decisions, decisions_seen
from photon.health.facts import Facts, look
from photon.health.judge import in_checks, judge
from photon.health.memory import ToldVerdict, WatcherNotes, as_text, from_text
from photon.health.verdict import Verdict, passing
from photon.orchestration.kept_instance import KEPT
from photon.orchestration.seen import unlike_shown
from photon.orchestration.shift_runs import ShiftRuns
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.process.errors import UserError
from photon.process.in_time import Repeated
from photon.resources.environment import ServedPipeline

TICK_SECONDS = 10
# A datacenter whose disk hangs keeps no other from being looked at; Dagster ends a tick after a minute. An
# answer that came late is taken by a later look, if its question is no older than `STANDS_SECONDS`.
ANSWER_SECONDS, STANDS_SECONDS = 10.0, 60.0
# A check of a datacenter that still fails is evaluated again after this time, with the numbers of then.
AGAIN_US = 5 * 60 * MICROSECONDS
# One that passes is evaluated again after this time, so that its numbers are no older. Each is 1 KB.
WELL_AGAIN_US = 3_600 * MICROSECONDS

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatcherLook:
    """The result of a look at one datacenter."""

    notes: WatcherNotes  # the cursor keeps them until the next look
    verdicts: Mapping[str, Verdict]  # one for each promise that could be judged, and is sure
    problems: tuple[str, ...]


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
        decisions = decisions_seen(pipeline)
        after: dict[str, WatcherNotes] = {}
        news: list[AssetCheckEvaluation] = []
        problems: list[str] = []
        for name in served.datacenters:
            is_starting = bool(ShiftRuns(KEPT.of(context), served, name).in_progress())
            now_us = clock.now_us()
            seen = _look_at(pipeline, name, before.get(name, WatcherNotes()), now_us, is_starting, decisions)
            due = due_of(seen.verdicts, seen.notes.told, now_us)
            after[name] = replace(seen.notes, told={**seen.notes.told, **due})
            found = {one: evaluation(served, name, one, seen.verdicts[one]) for one in seen.verdicts}
            unlike = unlike_shown(KEPT.of(context), found.values())
            news += [one for promise, one in found.items() if promise in due or one in unlike]
            problems += seen.problems
        return SensorResult(
            skip_reason=SkipReason("; ".join(problems) or "all datacenters are well"),
            cursor=as_text(after),
            asset_events=news,
        )

    return watcher


def _look_at(
    pipeline: Pipeline, name: str, last: WatcherNotes, now_us: int, is_starting: bool, decisions: Decisions
) -> WatcherLook:
    """Look at one datacenter. One that can't be looked at keeps no other from being judged."""
    try:
        ask = partial(look, pipeline, name, now_us, is_starting, decisions)
        facts = _repeated_look(pipeline.file, name).answer(ask, ANSWER_SECONDS)
        found, memory = judge(facts, last.memory, pipeline)
        verdicts = in_checks(found, facts, memory, pipeline)
        if not facts.growth.state_unreadable:
            verdicts = {**_over(name, last.told, verdicts), **verdicts}
    except Exception as error:
        log.warning("datacenter %s can't be looked at", name, exc_info=True)
        return _not_seen(pipeline, name, last, now_us, error)
    problems = tuple(one.says for one in verdicts.values() if one.level != "ok")
    return WatcherLook(WatcherNotes(now_us, memory, last.told, is_starting), sure_of(verdicts), problems)


def _over(name: str, told: Mapping[str, ToldVerdict], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Verdicts that end what was told as wrong and can't be judged now, as before a first verification."""
    says = f"{name}: what was wrong is over, and nothing has judged it since"
    wrong = (promise for promise, one in told.items() if one.level != "ok" and promise not in verdicts)
    return {promise: Verdict("ok", says) for promise in wrong}


@lru_cache
def _repeated_look(pipeline: Path, datacenter: str) -> Repeated[Facts]:
    """The question to one datacenter, which one tick after another asks."""
    return Repeated(STANDS_SECONDS)


def sure_of(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts that a next look does not take back. Dagster goes on showing what it has of the others."""
    return {promise: one for promise, one in verdicts.items() if not one.is_unsure}


def _not_seen(
    pipeline: Pipeline, name: str, last: WatcherNotes, now_us: int, error: Exception
) -> WatcherLook:
    """The result where a look fails: the datacenter may stand still. Its other checks stay as they were."""
    why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    says = f"{name} can't be looked at: {why}"
    remedy = "mend what is named; until then its other checks say what was so before"
    verdict = passing("error", says, remedy, "can't be looked at")
    found = {"works": (verdict,)}
    memory = last.memory.fresh(now_us).having_found(found, now_us)
    verdicts = {promise: one for promise, (one,) in memory.telling(found, now_us).items()}
    return WatcherLook(replace(last, memory=memory), sure_of(verdicts), (says,))


def due_of(
    verdicts: Mapping[str, Verdict], told: Mapping[str, ToldVerdict], now_us: int
) -> dict[str, ToldVerdict]:
    """The verdicts to be told now: those that changed, or go on for `AGAIN_US` or `WELL_AGAIN_US`."""
    return {
        promise: ToldVerdict.after(told.get(promise), verdict, now_us)
        for promise, verdict in verdicts.items()
        if promise not in told
        or told[promise].is_news(verdict, now_us, AGAIN_US)
        or now_us - told[promise].at_us >= WELL_AGAIN_US
    }
