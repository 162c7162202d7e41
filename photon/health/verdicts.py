"""Whether a datacenter is well: the one judge. A pure function of a look, what is remembered, and thresholds.

`photon status`, Dagster's checks, metrics, alerts and pictures show its verdicts, and decide nothing.
How a new fact gets its verdict:
 1. `Vitals` (vitals.py) has the fact, and `look` reads it without disturbing anybody.
 2. A function here makes a `Verdict` of it: a level by a threshold of the pipeline file (`health`), what was
    seen, what to do, and `in_short` for the first line of `photon status`. A fact that is of an existing
    promise joins that one's function (`worse` chooses). Another promise has a line in `_JUDGES` and in
    `PROMISES`, a section of docs/runbook.md, and a check in tests/orchestration/definitions.json.
 3. A share of records is judged by `shares.judge_share`: of all that was ever read and not acknowledged, and
    of the latest window; the worse one counts. Its class belongs to `photon.state.losses.BAD`.
Nothing else is to be done: each screen shows each promise that is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from photon.health.levels import Level, Verdict, late_after, level_of, worse
from photon.health.memory import Memory
from photon.health.shares import Kind, judge_share
from photon.health.vitals import Vitals
from photon.health.works import if_lost, judge_waiting, judge_works
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations, Shares
from photon.process.clock import MICROSECONDS, in_utc, microseconds
from photon.process.pace import size, span
from photon.process.readable import typed
from photon.state.losses import BAD, Losses

Judge = Callable[[str, Vitals, Memory, Pipeline], Verdict]
MOST_FILES_NAMED = 3
# Unread bytes of the logs: a minute of a busy log, and more than most disks of logs have room for twice.
BACKLOG_WARN_BYTES, BACKLOG_ERROR_BYTES = 2**30, 2**34
# Of the foreign records: a retried write now and then is no news, one in twenty says that the id is none.
CONFLICTING_SHARES = Shares(warn=0.001, error=0.05)
# Events ahead of this machine's clock: NTP keeps clocks within less; a minute is a clock that nobody sets.
CLOCK_SKEW = Durations(warn=timedelta(seconds=5), error=timedelta(minutes=1))
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
    verdicts = {name: judge_one(datacenter, found, memory, pipeline) for name, judge_one in judges.items()}
    verdicts |= _without_advice_on_speed(verdicts)
    if found.decision == "on hold":  # nobody is to join, so no advice says how
        resume = f"photon resume {pipeline.typed} {datacenter} lets it run again"
        held = Verdict("ok", f"{datacenter} is on hold, as people have decided; {resume}")
        verdicts |= dict.fromkeys(verdicts.keys() & ENDED_BY_A_HOLD, held)
    return verdicts


def _without_advice_on_speed(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts that advise faster shifts, where something keeps them from joining: that comes first."""
    is_joining = all(verdicts[name].level == "ok" for name in ("works", "waiting"))
    return {
        name: replace(verdict, remedy="first what keeps it from joining")
        for name, verdict in verdicts.items()
        if verdict.remedy == BEHIND and not is_joining
    }


def _logs(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    growth, place = found.growth, pipeline.datacenters[datacenter].logs
    if growth.problems:
        more = f", and {len(growth.problems) - 1:,} more" if len(growth.problems) > 1 else ""
        remedy = f"look at datacenters.{datacenter}.logs ({place}), and at who may read it"
        remedy = f"{remedy}; {if_lost(datacenter, pipeline)}"
        says = f"{datacenter}: {growth.problems[0]}{more}"
        return Verdict("error", says, remedy, "has logs that can't be read")
    if found.passed_over:
        beyond = len(found.passed_over) - MOST_FILES_NAMED
        shown = "; ".join(found.passed_over[:MOST_FILES_NAMED])
        shown += f"; and {beyond:,} more" if beyond > 0 else ""
        remedy = (
            "mend them, or who writes them, and they are read; if they are no logs, let no `files` of "
            f"{pipeline.file} match them. photon status {pipeline.typed} names them all"
        )
        says = f"{datacenter}: files are passed over: {shown}"
        return Verdict("warn", says, remedy, f"passes over {len(found.passed_over):,} log files")
    patterns = {"primary": (growth.primary, pipeline.primary), "foreign": (growth.foreign, pipeline.foreign)}
    none = [f"{side}.files ({log.files})" for side, (files, log) in patterns.items() if not files.files]
    if none:
        remedy = f"compare the pattern with what is in {place}; logs that have yet to come need nothing"
        says = f"no file matches {' and '.join(none)}"
        return Verdict("warn", f"{datacenter}: {says}", remedy, f"has no logs ({says})")
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
    level = level_of(lag_seconds, bounds.warn.total_seconds(), bounds.error.total_seconds())
    if level == "ok":
        return Verdict("ok", f"{datacenter} keeps up")
    unread = size(found.unread_bytes)
    return Verdict(
        level,
        f"{datacenter} is {span(lag_seconds)} behind; {unread} of its logs are unread",
        BEHIND,
        f"is {span(lag_seconds)} behind",
    )


def _backlog(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    level = level_of(found.unread_bytes, BACKLOG_WARN_BYTES, BACKLOG_ERROR_BYTES)
    if level == "ok":
        return Verdict("ok", f"{datacenter} has read nearly all of its logs")
    unread = f"{size(found.unread_bytes)} of its logs"
    return Verdict(level, f"{datacenter}: {unread} are unread", BEHIND, f"has not read {unread}")


FOREIGN_DEAD = Kind("foreign records are dead letters", ("dead_letters",), ("foreign",))
PRIMARY_DEAD = Kind(
    "primary records are dead letters", ("primary_dead_letters",), ("primary", "primary_dead_letters")
)
UNJOINABLE = Kind(
    "foreign records found no primary event, or are too old", ("unjoinable", "too_old"), ("foreign",)
)

CONFLICTING = Kind(f"{BAD['conflicting']}, so they have no row", ("conflicting",), ("foreign",))


def _dead_letters(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """The worse one of both logs: without its primary events nothing is joined either."""
    remedy = f"photon dead-letters {pipeline.typed} names them with their reasons, and mends them"
    bounds = pipeline.health.dead_letters
    return worse(
        [
            judge_share(datacenter, found, pipeline, kind, bounds, remedy)
            for kind in (FOREIGN_DEAD, PRIMARY_DEAD)
        ]
    )


def _unjoinable(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    unjoined = pipeline.datacenters[datacenter].lake / "unjoined"
    remedy = (
        "look whether foreign.key and primary.id name the same thing, and whether primary logs are missing; "
        f"rows of {unjoined} have the ids of some: a trace tells the story of one event"
    )
    return judge_share(datacenter, found, pipeline, UNJOINABLE, pipeline.health.unjoinable, remedy)


def _conflicting(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    lake = pipeline.datacenters[datacenter].lake
    remedy = (
        f"look whether foreign.id ({', '.join(pipeline.foreign.id)}) is an id at all: rows of "
        f"{lake / 'conflicting'} name both places of some and the columns that differ"
    )
    return judge_share(datacenter, found, pipeline, CONFLICTING, CONFLICTING_SHARES, remedy)


def _nothing_lost(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    """An error for as long as it is neither repaired nor acknowledged: nothing else ends a loss."""
    lost = found.lost
    if not lost:
        return Verdict("ok", f"{datacenter} has lost nothing that nobody knows of")
    said = [f"{lost.bytes:,} bytes of log files that went away were not read"] if lost.bytes else []
    said += [f"{lost.records:,} records that waited are nowhere any more"] if lost.records else []
    said += [_may_be_lost(lost)] if lost.may_be_lost else []
    return Verdict(
        "error" if lost.is_certain else "warn",
        f"{datacenter}: {', and '.join(said)}",
        f"photon status {pipeline.typed} names them; put the files back, or take their lines from another "
        "datacenter's copy; then, or if they are gone for good: "
        f"photon acknowledge {pipeline.typed} {datacenter} (under Dagster the job acknowledgement)",
        "has lost what was to be read" if lost.is_certain else "may have lost the ends of logs",
        counts_exactly=True,
    )


def _may_be_lost(lost: Losses) -> str:
    """The sum of what is known, and that it is not all."""
    files = len(lost.may_be_lost)
    return (
        f"at least {lost.may_be_lost_bytes:,} bytes may be lost of {files:,} log "
        f"file{'s' if files > 1 else ''} truncated or gone in use; how many more nobody knows"
    )


def _clock(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    watermark_us, bounds = found.growth.state.watermark_us, CLOCK_SKEW
    ahead_us = 0 if watermark_us is None else max(0, watermark_us - found.now_us)
    level = _duration(ahead_us, bounds)
    if level == "ok":
        return Verdict("ok", f"{datacenter}: no event is ahead of this machine's clock")
    return Verdict(
        level,
        f"{datacenter}: its events are {span(ahead_us / MICROSECONDS)} ahead of this machine's clock",
        "set the clocks by NTP, here and where the logs are written; look at primary.time_unit",
        "has events of the future",
    )


def _verified(datacenter: str, found: Vitals, memory: Memory, pipeline: Pipeline) -> Verdict:
    remedy = f"photon verify {pipeline.typed} --datacenter {datacenter}, or start Dagster's verification"
    if found.unverified_because:
        says, short = f"{datacenter}: {found.unverified_because}", "has a verification that can't be read"
        return Verdict("warn", says, "make its lake reachable", short)
    if found.verified is None:
        return Verdict("ok", f"{datacenter} was not verified yet")
    broken = found.verified.report["violations"]
    at = in_utc(found.verified.at_us, "minutes")
    if broken:
        kinds = "; ".join(f"{one['count']:,} {one['says']}" for one in broken)
        todo = "; ".join(dict.fromkeys(one["what_to_do"] for one in broken))
        todo = typed(todo, pipeline.file, datacenter)
        todo += f". Then photon verify {pipeline.typed} --record says whether it is mended"
        short = f"is broken by its newest verification ({found.verified.kinds})"
        return Verdict("error", f"{datacenter}, verified at {at}: {kinds}", todo, short)
    level = _duration(found.now_us - found.verified.at_us, late_after(pipeline.verification.cron))
    says = f"{datacenter} was verified at {at}: nothing is missing, and nothing is there twice"
    return Verdict(level, says, "" if level == "ok" else remedy, f"was verified at {at}, long ago")


def _duration(length_us: int, bounds: Durations) -> Level:
    return level_of(length_us, microseconds(bounds.warn), microseconds(bounds.error))


_JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "works": judge_works,
        "waiting": judge_waiting,
        "logs": _logs,
        "lag": _lag,
        "backlog": _backlog,
        "dead_letters": _dead_letters,
        "unjoinable": _unjoinable,
        "conflicting": _conflicting,
        "nothing_lost": _nothing_lost,
        "clock": _clock,
        "verified": _verified,
    }
)
# Planned work may be on the disk of its logs, too.
ENDED_BY_A_HOLD = frozenset({"works", "waiting", "logs", "lag", "backlog"})
# What is judged where the state can't be read, too.
WITHOUT_STATE = frozenset({"works", "waiting", "logs", "verified"})
PROMISES: Mapping[str, str] = MappingProxyType(
    {
        "works": "Somebody joins its logs, its state can be read, and nothing is held for a dead datacenter.",
        "waiting": "Its process waits for no lake, logs, disk or registry for long.",
        "logs": "There are files of both logs, and they can be read.",
        "lag": "It is not far behind its logs (`health.lag`).",
        "backlog": "Not much of its logs is unread.",
        "dead_letters": "Few of its records are dead letters (`health.dead_letters`).",
        "unjoinable": "Few of its records find no primary event (`health.unjoinable`).",
        "conflicting": "Few of its records have another one's id and other content.",
        "nothing_lost": "Nothing that was to be read is lost, or people know of it.",
        "clock": "No event is ahead of this machine's clock.",
        "verified": "Nothing is missing and nothing is there twice, by a verification that is not old.",
    }
)
