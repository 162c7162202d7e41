"""All that `photon status` knows of a datacenter: its facts, the verdicts on them, and how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from photon.dispatcher.log_reader import LogReader, opened_logs
from photon.dispatcher.shared_places import shared_logs, why_copy
from photon.dispatcher.shift.deletable_files import deletable, files_of, needed_by_waiting
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import lease_status_of
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import Facts, gather
from photon.health.judge import PROMISES, Judge
from photon.health.stages import Stages, stages_of, stored_plans
from photon.health.unmatched import looked_for_unmatched
from photon.health.verdict import Verdict, worst
from photon.logs.files import Side, TrackedFile
from photon.logs.tailing.open_files import kept_bytes
from photon.logs.unread_files import unread_as_dict
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.errors import FormatTooNew
from photon.releases import copies
from photon.releases.release import Release
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.state.database import StateReader, damage_is_named
from photon.state.view import open_view

# Waiting events are counted by how many seconds ago they were first seen.
AGES = (
    (60, "within a minute"),
    (600, "within ten minutes"),
    (3_600, "within an hour"),
    (86_400, "within a day"),
)
OLDEST = "before that"


@dataclass(frozen=True)
class LogStatus:
    """One log of a datacenter."""

    files: int
    gone_files: int
    read_bytes: int
    backlog_bytes: int
    # Paths below the logs folder of the files that joining does not need any more (`deletable`).
    safe_to_delete: tuple[str, ...] = ()
    safe_to_delete_bytes: int = 0


@dataclass(frozen=True)
class DatacenterStatus:
    """One datacenter. What is in no fact nobody judges: it only tells how far the datacenter is."""

    facts: Facts
    verdicts: Mapping[str, tuple[Verdict, ...]]  # keyed by promise
    primary: LogStatus
    foreign: LogStatus
    waiting: Mapping[str, int] = field(default_factory=dict)  # keyed by reason
    waiting_by_age: Mapping[str, int] = field(default_factory=dict)  # keyed by when they were first seen
    stages: Stages = field(default_factory=Stages)
    completeness: Completeness | None = None  # as the last shift has published it
    release: Release | None = None  # the newest one in its lake
    kept_log_bytes: int = 0  # copies of logs that were deleted unread, on this disk
    notes: tuple[str, ...] = ()  # places that it shares with another one, perhaps by mistake

    @cached_property
    def broken(self) -> list[Verdict]:
        """The verdicts that need somebody."""
        return [one for all_of_one in self.verdicts.values() for one in all_of_one if one.level != "ok"]

    @property
    def problems(self) -> list[str]:
        """The sentences that need somebody, and each thing that they don't name themselves."""
        return [said for one in self.broken for said in (one.text, *one.unnamed)]

    @property
    def needs_somebody(self) -> list[str]:
        """Why somebody has to look at it, in a few words each; none: it is well."""
        return [
            one.in_short or f"fails {promise}"
            for promise, found in self.verdicts.items()
            for one in found
            if one.level != "ok"
        ]

    @property
    def unjudged(self) -> dict[str, str]:
        """The promises of which nobody knows yet whether they hold, each with the reason."""
        if self.facts.growth.state_unreadable:
            return {}  # a verdict says it
        never = {"verified": "was never verified: the first verification is to come"}
        return {name: never.get(name, "not known yet") for name in PROMISES if name not in self.verdicts}

    @property
    def counts(self) -> dict[str, int]:
        """The records by what became of them; none before the first epoch."""
        return self.facts.state.counts.as_dict() if self.facts.state.epoch is not None else {}

    def as_dict(self) -> dict[str, Any]:
        """The status as JSON. Times are microseconds since 1970 UTC."""
        facts = self.facts
        named = ("is_fenced", "has_rows_without_state", "is_stopped", "what_ends_it", "half_lines")
        details = (
            "waiting",
            "waiting_by_age",
            "kept_log_bytes",
            "notes",
            "problems",
            "needs_somebody",
            "counts",
        )
        return {
            "activity": facts.activity,
            "running_process": facts.process,
            "running_run": facts.dagster_run,
            "last_sign_of_life_us": facts.lease.beat_us or None,
            "waits_for": facts.waits_for,
            "waits_since_us": facts.waits_since_us if facts.waits_for else 0,
            "ended_by": facts.ended_by,
            "decision": facts.decision,
            "unjudged": self.unjudged,
            "decision_unknown_because": facts.decisions.unknown_because,
            "epoch": facts.state.epoch,
            "batch": facts.state.completed,
            "to_take_up_again": facts.state.requeued,
            "watermark_us": facts.state.watermark_us,
            "watermark_lag_seconds": facts.growth.lag_seconds,
            "lost": facts.lost.as_dict(),
            "foreign_commits": [one.as_dict() for one in facts.foreign_commits],
            **unread_as_dict(facts.unread_files),
            "given_up_file_count": len(facts.given_up_files),
            "given_up_file_bytes": sum(one.size_bytes for one in facts.given_up_files),
            "passed_over": list(facts.passed_over),
            "beside": list(facts.growth.beside),
            "primary": asdict(self.primary),
            "foreign": asdict(self.foreign),
            "stages": asdict(self.stages),
            "landing": [one.as_dict() for one in facts.landing],
            "unmatched": facts.unmatched.as_dict() if facts.unmatched else None,
            "completeness": asdict(self.completeness) if self.completeness else None,
            "release": _release_told(self.release),
            "checks": {promise: asdict(worst(found)) for promise, found in self.verdicts.items()},
            **{name: getattr(facts, name) for name in named},
            **{name: getattr(self, name) for name in details},
        }


def status_of(
    pipeline: Pipeline,
    datacenter: str,
    clock: Clock,
    decisions: Decisions | None = None,
    judge: Judge | None = None,
) -> DatacenterStatus:
    """Look at the datacenter now. `judge`: of one who looks often, and knows since when each thing lasts.

    A folder that is missing is a verdict, not an error. StateDamaged, StateUnavailable, FormatTooNew.
    """
    place, now_us = pipeline.datacenters[datacenter], clock.now_us()
    growth, lease = growth_of(pipeline, datacenter, now_us), lease_status_of(place.state)
    view = growth.state
    reader = opened_logs(pipeline, datacenter, view, now_us)
    with damage_is_named(place.state), open_view(place.state) as state:
        waiting = state.waiting.by_reason() if state is not None else {}
        by_age = _by_age(state, now_us) if waiting and state is not None else {}
        plans = stored_plans(state)
        needed = files_of(plans.contents)
        needed |= needed_by_waiting(state, view.files.values()) if state is not None else set()
        stages = stages_of(state, plans, place.state, now_us)
        work = state.work if state is not None and isinstance(state.work, Path) else place.state
        copied = why_copy(state, pipeline) if state is not None else None
    facts = gather(pipeline, datacenter, now_us, growth, lease, reader, decisions or Decisions())
    completeness = last_said(place.lake)
    of_this_epoch = completeness if completeness is not None and completeness.epoch == view.epoch else None
    idle_us = microseconds(pipeline.retry.unjoinable_after)
    release = _release_in(place.lake)
    looked = looked_for_unmatched(pipeline, facts.decisions, release, facts.unmatched, view.epoch)
    current = {file for seen in facts.landing for file in seen.current_files}
    files = [one for one in reader.files.values() if one.file.path not in current]
    safe = deletable(files, needed, of_this_epoch, now_us, idle_us, looked, reader.unread())
    return DatacenterStatus(
        facts,
        (judge or Judge(pipeline)).verdicts(facts),
        primary=_log_status(reader, "primary", safe),
        foreign=_log_status(reader, "foreign", safe),
        waiting=waiting,
        waiting_by_age=by_age,
        stages=stages,
        completeness=completeness,
        release=release,
        kept_log_bytes=kept_bytes(work),
        notes=(*shared_logs(pipeline, datacenter), *([copied] if copied else [])),
    )


def _release_in(lake: Location) -> Release | None:
    """The newest release in a lake; None also where it can't be read, as other verdicts say that."""
    with suppress(OSError, FormatTooNew):
        return copies.latest(lake)
    return None


def _release_told(release: Release | None) -> dict[str, int | None] | None:
    if release is None:
        return None
    names = ("number", "made_us", "complete_up_to_us", "mostly_up_to_us", "unmatched_up_to_us")
    return {name: getattr(release, name) for name in names}


def _by_age(state: StateReader, now_us: int) -> dict[str, int]:
    bounds_us = [seconds * MICROSECONDS for seconds, _ in AGES]
    names = (*(name for _, name in AGES), OLDEST)
    counts = zip(names, state.waiting.by_age(now_us, bounds_us), strict=True)
    return {name: count for name, count in counts if count}


def _log_status(reader: LogReader, side: Side, safe: Iterable[TrackedFile]) -> LogStatus:
    files = reader.of(side).values()
    deletable_here = [one for one in safe if one.file.side == side]
    return LogStatus(
        files=len(files),
        gone_files=sum(tracked.state != "open" for tracked in files),
        read_bytes=sum(tracked.offset_bytes for tracked in files),
        backlog_bytes=sum(reader.backlog_bytes[side].values()),
        safe_to_delete=tuple(sorted(one.file.path for one in deletable_here)),
        safe_to_delete_bytes=sum(one.size_bytes for one in deletable_here),
    )
