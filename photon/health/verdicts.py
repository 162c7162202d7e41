"""Verdicts on a datacenter: a pure function of a look, what is remembered, and the thresholds.

Each says what was seen and what to do. A datacenter that nobody runs can't say any of this itself. What is
well is said without numbers: it is told once, and stays to be read for days.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from photon.clock import MICROSECONDS, in_utc, microseconds
from photon.health.memory import Memory
from photon.health.vitals import Vitals
from photon.pace import size, span
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations, Shares

Level = Literal["ok", "warn", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Verdict:
    """What is to be said of one promise."""

    level: Level
    says: str
    remedy: str = ""

    @property
    def text(self) -> str:
        return f"{self.says}. What to do: {self.remedy}" if self.remedy else f"{self.says}."


Judge = Callable[[str, Vitals, Memory, Pipeline], Verdict]
MOST_FILES_NAMED = 3
BEHIND = "make shifts faster (limits.workers, more cores), or wait: live events keep their share"


def judge(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> dict[str, Verdict]:
    """The verdict on each promise (`PROMISES`); `memory` is that after this look.

    Without a readable state there is none on what only the state tells: what was said last stays.
    """
    if found.decision == "retired":  # for good: what it lacks is nobody's work any more
        return dict.fromkeys(_JUDGES, Verdict("ok", f"{datacenter} is retired, as people have decided"))
    judges = {
        name: judge_one
        for name, judge_one in _JUDGES.items()
        if name in WITHOUT_STATE or not found.growth.state_unreadable
    }
    return {name: judge_one(datacenter, found, memory, pipeline) for name, judge_one in judges.items()}


def _works(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    if found.decision is not None:
        return Verdict("ok", f"{datacenter} is {found.decision}, as people have decided")
    if found.growth.state_unreadable:
        return Verdict(
            "error",
            f"{datacenter}: how far it is can't be told: {found.growth.state_unreadable}",
            "as that says; usually rights, a mount, or a damaged state. Until then the checks of its lag, "
            "backlog, records, losses and clock stay as they were",
        )
    held = _held_back(datacenter, found, pipeline)
    if memory.still_since_us is None:
        return held or Verdict("ok", f"{datacenter} works, or has nothing to do")
    seconds = (found.now_us - memory.still_since_us) / MICROSECONDS
    patience = pipeline.health.standing_still
    level = _level(seconds, patience.warn.total_seconds(), patience.error.total_seconds())
    if found.is_starting and seconds < pipeline.shift.start_timeout.total_seconds():
        level = "ok"  # a start takes its time
    if level == "ok":
        return held or Verdict("ok", f"{datacenter} works, or is about to")
    lease = found.lease.lease
    if found.lease.is_locked:
        process = f"process {lease.process} on {lease.host}" if lease else "its process"
        silent = f"{process} has given no sign of life for {span(seconds)}"
        return Verdict(
            level,
            f"{datacenter}: {silent}: it was stopped, or a task, disk or lake hangs",
            "look at its disks; end the process, and its successor goes on; "
            f"{_if_lost(datacenter, pipeline)}",
        )
    due = f", and {found.growth.due:,} events are due" if found.growth.due else ""
    return Verdict(
        level,
        f"{datacenter}: nobody has run it for {span(seconds)}; {size(found.unread_bytes)} of its logs are "
        f"unread{due}",
        "look whether its sensor is on; the sensor's last tick says why it starts no run, and the last run "
        f"why it failed; {_if_lost(datacenter, pipeline)}",
    )


def _if_lost(datacenter: str, pipeline: Pipeline) -> str:
    """What else is to be done where nobody can bring it back."""
    return (
        f"if it is lost for good: photon retire {pipeline.file} {datacenter} (under Dagster the job "
        "retirement), and its checks are green"
    )


def _held_back(datacenter: str, found: Vitals, pipeline: Pipeline) -> Verdict | None:
    """What waits here for dead datacenters whose lakes can't be reached."""
    state = found.growth.state
    if not state.out_of_reach:
        return None
    names = ", ".join(state.out_of_reach)
    why = "; ".join(state.out_of_reach.values())
    return Verdict(
        "error",
        f"{datacenter}: {state.held:,} events are held: {names} registered them and is silent, and what it "
        f"did not join can't be released from here: {why}",
        f"start {names} again, or make its lake readable here; {_if_lost(names, pipeline)}",
    )


def _waiting(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """A process that waits gives signs of life, and joins nothing."""
    lease = found.lease.lease
    if lease is None or not (found.lease.is_locked and lease.waits_for):
        return Verdict("ok", f"{datacenter} waits for nothing that is unavailable")
    waited_us = found.now_us - lease.waits_since_us
    level = _duration(waited_us, pipeline.health.waiting)
    if level == "ok":
        return Verdict("ok", f"{datacenter} waits for what may be back in a moment")
    says = (
        f"{datacenter} has waited for {span(waited_us / MICROSECONDS)}, and joins nothing: {lease.waits_for}"
    )
    return Verdict(level, says, "mend what is named, and it goes on by itself")


def _logs(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    growth, place = found.growth, pipeline.datacenters[datacenter].logs
    if growth.problems:
        more = f", and {len(growth.problems) - 1:,} more" if len(growth.problems) > 1 else ""
        remedy = f"look at datacenters.{datacenter}.logs ({place}), and at who may read it"
        remedy = f"{remedy}; {_if_lost(datacenter, pipeline)}"
        return Verdict("error", f"{datacenter}: {growth.problems[0]}{more}", remedy)
    if found.passed_over:
        beyond = len(found.passed_over) - MOST_FILES_NAMED
        shown = "; ".join(found.passed_over[:MOST_FILES_NAMED])
        shown += f"; and {beyond:,} more" if beyond > 0 else ""
        remedy = (
            "mend them, or who writes them, and they are read; if they are no logs, let no `files` of "
            f"{pipeline.file} match them. photon status names them all"
        )
        return Verdict("warn", f"{datacenter}: files are passed over: {shown}", remedy)
    patterns = {"primary": (growth.primary, pipeline.primary), "foreign": (growth.foreign, pipeline.foreign)}
    none = [f"{side}.files ({log.files})" for side, (files, log) in patterns.items() if not files.files]
    if none:
        remedy = f"compare the pattern with what is in {place}; logs that have yet to come need nothing"
        return Verdict("warn", f"{datacenter}: no file matches {' and '.join(none)}", remedy)
    return Verdict("ok", f"{datacenter} has files of both logs, and can read them")


def _lag(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """The watermark's lag while much is unread, or for how long that is so if it is less.

    Where logs are silent the watermark lags and nothing waits. Old logs lag by years when they are read.
    """
    if memory.behind_since_us is None:
        return Verdict("ok", f"{datacenter} keeps up")
    behind_seconds = (found.now_us - memory.behind_since_us) / MICROSECONDS
    lag_seconds = min(behind_seconds, found.growth.lag_seconds or behind_seconds)
    bounds = pipeline.health.lag
    level = _level(lag_seconds, bounds.warn.total_seconds(), bounds.error.total_seconds())
    if level == "ok":
        return Verdict("ok", f"{datacenter} keeps up")
    unread = size(found.unread_bytes)
    return Verdict(
        level, f"{datacenter} is {span(lag_seconds)} behind; {unread} of its logs are unread", BEHIND
    )


def _backlog(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    bounds = pipeline.health.backlog
    level = _level(found.unread_bytes, bounds.warn, bounds.error)
    if level == "ok":
        return Verdict("ok", f"{datacenter} has read nearly all of its logs")
    return Verdict(level, f"{datacenter}: {size(found.unread_bytes)} of its logs are unread", BEHIND)


@dataclass(frozen=True)
class _Part:
    """How many of some records are bad: of the latest ones, and of all of the epoch."""

    bad: int
    of: int
    bad_ever: int
    of_ever: int


def _part(found: Vitals, memory: Memory, bad: str, *all_of: str) -> _Part:
    since, ever = memory.since(found), found.growth.state.counts.as_dict()
    return _Part(since[bad], sum(since[one] for one in all_of), ever[bad], sum(ever[one] for one in all_of))


def _dead_letters(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """The worse one of both logs: without its primary events nothing is joined either."""
    bounds, least = pipeline.health.dead_letters, pipeline.health.least_records
    remedy = f"photon dead-letters {pipeline.file} names them with their reasons, and mends them"
    foreign = _part(found, memory, "dead_letters", "foreign")
    primary = _part(found, memory, "primary_dead_letters", "primary", "primary_dead_letters")
    of_foreign = _share(datacenter, foreign, bounds, least, "foreign records are dead letters", remedy)
    of_primary = _share(datacenter, primary, bounds, least, "primary records are dead letters", remedy)
    return max(of_foreign, of_primary, key=lambda verdict: LEVELS.index(verdict.level))


def _unjoinable(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    remedy = (
        "look whether foreign.key and primary.id name the same thing, and whether primary logs are missing; "
        "photon trace tells the story of one event"
    )
    part, health = _part(found, memory, "unjoinable", "foreign"), pipeline.health
    what = "foreign records found no primary event"
    return _share(datacenter, part, health.unjoinable, health.least_records, what, remedy)


def _share(datacenter: str, part: _Part, bounds: Shares, least: int, what: str, remedy: str) -> Verdict:
    """A share of few records says nothing, unless nothing else ever came of any record of the epoch."""
    share = part.bad / part.of if part.of else 0.0
    if part.of < least and 0 < part.of_ever == part.bad_ever:
        return Verdict("warn", f"{datacenter}: all {part.bad_ever:,} {what} so far", remedy)
    level = _level(share, bounds.warn, bounds.error) if part.of >= least else "ok"
    if level == "ok":
        return Verdict("ok", f"{datacenter}: few of its latest {what}")
    says = f"{datacenter}: {part.bad:,} of the latest {part.of:,} {what} ({share:.2%})"
    return Verdict(level, says, remedy)


def _nothing_lost(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """An error for as long as it is neither repaired nor acknowledged: nothing else ends a loss."""
    lost = found.lost
    if not lost:
        return Verdict("ok", f"{datacenter} has lost nothing that nobody knows of")
    said = [f"{size(lost.bytes)} of log files that went away were not read"] if lost.bytes else []
    said += [f"{lost.records:,} records that waited are nowhere any more"] if lost.records else []
    return Verdict(
        "error",
        f"{datacenter}: {', and '.join(said)}",
        "photon status names them; put the files back, or take their lines from another datacenter's copy; "
        f"then, or if they are gone for good: photon acknowledge {pipeline.file} {datacenter} (under Dagster "
        "the job acknowledgement)",
    )


def _clock(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    watermark_us, bounds = found.growth.state.watermark_us, pipeline.health.clock_skew
    ahead_us = 0 if watermark_us is None else max(0, watermark_us - found.now_us)
    level = _duration(ahead_us, bounds)
    if level == "ok":
        return Verdict("ok", f"{datacenter}: no event is ahead of this machine's clock")
    return Verdict(
        level,
        f"{datacenter}: its events are {span(ahead_us / MICROSECONDS)} ahead of this machine's clock",
        "set the clocks by NTP, here and where the logs are written; look at primary.time_unit",
    )


def _verified(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    remedy = f"photon verify {pipeline.file} --datacenter {datacenter}, or start Dagster's verification"
    if found.unverified_because:
        return Verdict("warn", f"{datacenter}: {found.unverified_because}", "make its lake reachable")
    if found.verified is None:
        return Verdict("ok", f"{datacenter} was not verified yet")
    broken = found.verified.report["violations"]
    at = in_utc(found.verified.at_us, "minutes")
    if broken:
        kinds = "; ".join(f"{one['count']:,} {one['says']}" for one in broken)
        todo = "; ".join(dict.fromkeys(one["what_to_do"] for one in broken))
        return Verdict("error", f"{datacenter}, verified at {at}: {kinds}", todo)
    level = _duration(found.now_us - found.verified.at_us, pipeline.health.unverified)
    says = f"{datacenter} was verified at {at}: nothing is missing, and nothing is there twice"
    return Verdict(level, says, "" if level == "ok" else remedy)


def _duration(length_us: int, bounds: Durations) -> Level:
    return _level(length_us, microseconds(bounds.warn), microseconds(bounds.error))


def _level(value: float, warn: float, error: float) -> Level:
    if value >= error:
        return "error"
    return "warn" if value >= warn else "ok"


_JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "works": _works,
        "waiting": _waiting,
        "logs": _logs,
        "lag": _lag,
        "backlog": _backlog,
        "dead_letters": _dead_letters,
        "unjoinable": _unjoinable,
        "nothing_lost": _nothing_lost,
        "clock": _clock,
        "verified": _verified,
    }
)
# What is judged where the state can't be read, too.
WITHOUT_STATE = frozenset({"works", "waiting", "logs", "verified"})
PROMISES: Mapping[str, str] = MappingProxyType(
    {
        "works": "Somebody joins its logs, its state can be read, and nothing is held for a dead datacenter.",
        "waiting": "Its process waits for no lake, logs, disk or registry for long (`health.waiting`).",
        "logs": "There are files of both logs, and they can be read.",
        "lag": "It is not far behind its logs (`health.lag`).",
        "backlog": "Not much of its logs is unread (`health.backlog`).",
        "dead_letters": "Few of its records are dead letters (`health.dead_letters`).",
        "unjoinable": "Few of its records find no primary event (`health.unjoinable`).",
        "nothing_lost": "Nothing that was to be read is lost, or people know of it.",
        "clock": "No event is ahead of this machine's clock (`health.clock_skew`).",
        "verified": "Nothing is missing and nothing is there twice, by a verification that is not old.",
    }
)
