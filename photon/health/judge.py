"""The one judge of whether a datacenter is well: a pure function of facts, memory and thresholds.

`photon status`, Dagster's checks, metrics, alerts and pictures show its verdicts, and decide nothing. The
registry is judged beside it, in `photon.health.registry`. How a new fact gets its verdict:
 1. `Facts` (facts.py) has the fact, and `gather` reads it without disturbing anybody.
 2. A function here makes a `Verdict` of it: a level by a threshold, what was seen, what to do, and `in_short`
    for the first line of `photon status`. A promise may have several verdicts: its check shows the worst one,
    and `photon status` each that is broken. Another promise has its place in `_PROMISED`, a
    section of docs/runbook.md, and a check in tests/orchestration/definitions.json. Its number and thresholds
    are in measures.py, also where it has none.
 3. A share of records is judged in bad_records.py: of all that was ever read and not acknowledged, and of the
    latest window; the worse one counts. Its class belongs to `photon.state.losses.BAD`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from photon.health.at_work import judge_waiting, judge_works
from photon.health.bad_records import judge_conflicting, judge_dead_letters, judge_unjoinable
from photon.health.facts import Facts
from photon.health.feed import judge_feed
from photon.health.foreign_commits import judge_foreign_commits
from photon.health.landed_source import judge_landing
from photon.health.measures import (
    BACKLOG_ERROR_BYTES,
    BACKLOG_WARN_BYTES,
    CLOCK_SKEW,
    ahead_of_clock_us,
    behind_seconds,
    measures,
)
from photon.health.memory import Memory
from photon.health.unmatched import judge_unmatched
from photon.health.verdict import Verdict, late_after, level_after, level_of, passing, worst
from photon.pipeline.file import Pipeline, dagster_name
from photon.process.clock import MICROSECONDS, in_utc, microseconds
from photon.process.pace import size, span
from photon.process.readable import counted, typed
from photon.state.losses import Losses

PromiseJudge = Callable[[Facts, Memory, Pipeline], Verdict | Sequence[Verdict]]
MOST_FILES_NAMED = 3
BEHIND = "make shifts faster (limits.workers, more cores), or wait: live events keep their share"


def judge(facts: Facts, before: Memory, pipeline: Pipeline) -> tuple[dict[str, tuple[Verdict, ...]], Memory]:
    """The verdicts after this look as they are told (`PATIENCE_SECONDS`), and what to remember of it."""
    memory = before.fresh(facts.now_us).after(facts)
    found = all_verdicts(facts, memory, pipeline)
    memory = memory.having_found(found, facts.now_us)
    return memory.telling(found, facts.now_us), memory


def in_checks(
    verdicts: Mapping[str, tuple[Verdict, ...]], facts: Facts, memory: Memory, pipeline: Pipeline
) -> dict[str, Verdict]:
    """The worst verdict on each promise, with the numbers that it goes by: what its check tells."""
    numbers = measures(facts, memory, pipeline)
    return {promise: replace(worst(found), measures=numbers[promise]) for promise, found in verdicts.items()}


class Judge:
    """Judges a pipeline's datacenters look after look, for who does not store what is remembered."""

    def __init__(self, pipeline: Pipeline, is_patient: bool = False) -> None:
        self._pipeline, self._is_patient = pipeline, is_patient
        self._memories: dict[str, Memory] = {}

    def verdicts(self, facts: Facts) -> dict[str, tuple[Verdict, ...]]:
        """The verdicts after another look at a datacenter."""
        before = self._memories.get(facts.datacenter) or Memory.of_one_look(facts, self._is_patient)
        found, self._memories[facts.datacenter] = judge(facts, before, self._pipeline)
        return found


def all_verdicts(facts: Facts, memory: Memory, pipeline: Pipeline) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts on each promise (`PROMISES`); `memory` is that after this look.

    Without a readable state there is none on what only the state tells: what was said last stays. Nor is
    there one on a verification that is yet to come.
    """
    name = facts.datacenter
    if facts.decision == "retired":  # for good: what it lacks is nobody's work any more, but its rows count
        verdict = Verdict("ok", f"{name} is retired, as people have decided")
        others = judge_foreign_commits(name, facts.foreign_commits, pipeline)
        return {promise: (others if others and promise == "verified" else verdict,) for promise in _PROMISED}
    verdicts = dict[str, tuple[Verdict, ...]]()
    for promise, (judge_one, _) in _PROMISED.items():
        if promise in WITHOUT_STATE or not facts.growth.state_unreadable:
            found = judge_one(facts, memory, pipeline)
            if found:
                verdicts[promise] = (found,) if isinstance(found, Verdict) else tuple(found)
    if facts.decision == "on hold":  # nobody is to join, so no advice says how
        resume = f"photon resume {pipeline.typed} {name} lets it run again"
        held = (Verdict("ok", f"{name} is on hold, as people have decided; {resume}"),)
        verdicts |= dict.fromkeys(verdicts.keys() & ENDED_BY_A_HOLD, held)
    return _without_advice_on_speed(verdicts)


def _without_advice_on_speed(
    verdicts: Mapping[str, tuple[Verdict, ...]],
) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts; none advises faster shifts where something keeps them from joining: that comes first."""
    is_joining = all(one.level == "ok" for promise in ("works", "waiting") for one in verdicts[promise])
    first = "first what keeps it from joining"
    return {
        promise: tuple(
            replace(one, remedy=first) if one.remedy == BEHIND and not is_joining else one for one in found
        )
        for promise, found in verdicts.items()
    }


def _logs(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    found = [
        _unread_files(facts, pipeline) or _unreadable_logs(facts, pipeline),
        _passed_over(facts, pipeline),
        _no_logs(facts, pipeline),
        judge_feed(facts.datacenter, facts.feed, facts.now_us, pipeline),
        *(judge_landing(facts.datacenter, one, pipeline) for one in facts.landing),
    ]
    well = Verdict("ok", f"{facts.datacenter} has files of both logs, and can read them")
    return [one for one in found if one is not None] or [well]


def _unreadable_logs(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    problems, name = facts.growth.problems, facts.datacenter
    if not problems:
        return None
    more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
    place = pipeline.datacenters[name].logs
    remedy = f"look at datacenters.{name}.logs ({place}), and at who may read it"
    says = f"{name}: {problems[0]}{more}"
    return passing("error", says, remedy, "has logs that can't be read", names=problems)


def _unread_files(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    unread, name = facts.unread_files, facts.datacenter
    if not unread:
        return None
    named = tuple(f"{one.shown} ({one.side} log, {one.size_bytes:,} bytes): {one.reason}" for one in unread)
    beyond = len(unread) - MOST_FILES_NAMED
    shown = "; ".join(named[:MOST_FILES_NAMED]) + (f"; and {beyond:,} more" if beyond > 0 else "")
    says = (
        f"{name}: {counted(len(unread), 'log file', 'are')} not read, so nothing that may need them is given "
        f"up, complete or deletable: {shown}"
    )
    remedy = (
        "as the reason says, let the user of the join read it, mount its disk, copy or compress it again, or "
        f"rename it; if nothing can be done: photon acknowledge {pipeline.typed} {name}; if it is no log, "
        f"let no `files` of {pipeline.file} match it"
    )
    return Verdict("error", says, remedy, f"{counted(len(unread), 'log file', 'are')} not read", names=named)


def _passed_over(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    files = facts.passed_over
    if not files or facts.growth.problems:  # a folder that can't be read is told by itself
        return None
    beyond = len(files) - MOST_FILES_NAMED
    shown = "; ".join(files[:MOST_FILES_NAMED]) + (f"; and {beyond:,} more" if beyond > 0 else "")
    remedy = (
        "mend them, or who writes them, and they are read; if they are no logs, let no `files` of "
        f"{pipeline.file} match them. photon status {pipeline.typed} names them all"
    )
    says = f"{facts.datacenter}: files are passed over: {shown}"
    return passing("warn", says, remedy, f"passes over {counted(len(files), 'log file')}", names=files)


def _no_logs(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    logs = (
        ("primary", facts.growth.primary, pipeline.primary),
        ("foreign", facts.growth.foreign, pipeline.foreign),
    )
    without = [f"{side}.files ({log.files})" for side, found, log in logs if not found.files]
    if facts.growth.problems or not without:  # a folder that can't be read may have files
        return None
    place = pipeline.datacenters[facts.datacenter].logs
    remedy = f"compare the pattern with what is in {place}; logs that have yet to come need nothing"
    says = f"no file matches {' and '.join(without)}"
    return passing("warn", f"{facts.datacenter}: {says}", remedy, f"has no logs ({says})")


def _lag(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    late = judge_unmatched(facts.datacenter, facts.unmatched, facts.now_us, pipeline)
    paused = _paused(facts, pipeline)
    return [_behind(facts, memory, pipeline), *(one for one in (late, paused) if one is not None)]


def _paused(facts: Facts, pipeline: Pipeline) -> Verdict | None:
    """As many records wait as may, and no primary event is left that could wake one: nothing is read."""
    pending, most = facts.state.counts.of("pending"), pipeline.limits.pending_events
    unread = facts.growth.foreign.unread_bytes
    if not facts.is_joining or pending < most or not unread or facts.growth.primary.unread_bytes:
        return None
    return Verdict(
        "warn",
        f"{facts.datacenter} reads no foreign logs: {counted(pending, 'record', 'wait')} for primary events, "
        f"and limits.pending_events allows {most:,}; {size(unread)} are unread",
        "look why primary logs do not grow; where so many may wait, raise limits.pending_events of "
        f"{pipeline.file}; it counts from the next start: {facts.started_by(pipeline)}",
        "reads no foreign logs, for too many records wait",
    )


def _behind(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    lag_seconds = behind_seconds(facts, memory)
    level = level_after(round(lag_seconds * MICROSECONDS), pipeline.health.lag)
    if level == "ok":
        warn_seconds = pipeline.health.lag.warn.total_seconds()
        return Verdict("ok", f"{facts.datacenter} is less than {span(warn_seconds)} behind its logs")
    unread = size(facts.unread_bytes)
    return Verdict(
        level,
        f"{facts.datacenter} is {span(lag_seconds)} behind; {unread} of its logs are unread",
        BEHIND,
        f"is {span(lag_seconds)} behind",
    )


def _backlog(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    level = level_of(facts.unread_bytes, BACKLOG_WARN_BYTES, BACKLOG_ERROR_BYTES)
    if level == "ok":
        return Verdict("ok", f"less than {size(BACKLOG_WARN_BYTES)} of {facts.datacenter}'s logs is unread")
    unread = f"{size(facts.unread_bytes)} of its logs"
    return Verdict(level, f"{facts.datacenter}: {unread} are unread", BEHIND, f"has not read {unread}")


def _nothing_lost(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    """An error for as long as it is neither repaired nor acknowledged: nothing else ends a loss."""
    lost = facts.lost
    if not lost:
        return Verdict("ok", f"{facts.datacenter} has lost nothing, or all of it is acknowledged")
    said = (
        [f"{counted(lost.bytes, 'byte', 'were')} not read of log files that went away"] if lost.bytes else []
    )
    said += [f"{counted(lost.records, 'waiting record', 'are')} nowhere any more"] if lost.records else []
    said += [_may_be_lost(lost)] if lost.may_be_lost else []
    return Verdict(
        "error" if lost.is_certain else "warn",
        f"{facts.datacenter}: {', and '.join(said)}",
        f"photon status {pipeline.typed} names them; put the files back, or take their lines from another "
        "datacenter's copy; then, or if they are gone for good: "
        f"photon acknowledge {pipeline.typed} {facts.datacenter} (under Dagster the job "
        f"{dagster_name(pipeline.name, 'acknowledgement')})",
        "has lost what was to be read" if lost.is_certain else _doubt_in_short(lost),
        counts_exactly=True,
        names=facts.lost_named,
    )


def _doubt_in_short(lost: Losses) -> str:
    seen = "has logs that went in use, read as far as anybody saw"
    return "may have lost the ends of logs" if lost.may_be_lost_bytes else seen


def _may_be_lost(lost: Losses) -> str:
    """The sum of what is known, and that it is not all."""
    if not lost.may_be_lost_bytes:
        files = counted(len(lost.may_be_lost), "log file")
        return (
            f"all that was seen of {files} truncated or gone in use was read; whether more was written to "
            "them nobody knows"
        )
    return (
        f"at least {counted(lost.may_be_lost_bytes, 'byte')} may be lost of "
        f"{counted(len(lost.may_be_lost), 'log file')} truncated or gone in use; how many more nobody knows"
    )


def _clock(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    ahead_us = ahead_of_clock_us(facts)
    level = level_after(ahead_us, CLOCK_SKEW)
    remedy = "set the clocks by NTP, here and where the logs are written; look at primary.time_unit"
    short = "has events of the future"
    if level == "ok" and facts.state.ahead:
        wait = counted(facts.state.ahead, "event", "wait")
        says = f"{facts.datacenter}: {wait} for a time that is ahead of this machine's clock"
        return Verdict("warn", says, remedy, short)
    if level == "ok":
        least = span(CLOCK_SKEW.warn.total_seconds())
        return Verdict("ok", f"{facts.datacenter}: no event is {least} ahead of this machine's clock")
    return Verdict(
        level,
        f"{facts.datacenter}: its events are {span(ahead_us / MICROSECONDS)} ahead of this machine's clock",
        remedy,
        short,
    )


def _verified(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict | Sequence[Verdict]:
    """Whether the newest verification found nothing wrong, and is not old. No verdict before the first one,
    unless it is overdue: nobody knows yet.
    """
    remedy = (
        f"photon verify {pipeline.typed} --datacenter {facts.datacenter}, or start Dagster's verification"
    )
    if facts.unverified_because:
        says, short = (
            f"{facts.datacenter}: {facts.unverified_because}",
            "has a verification that can't be read",
        )
        return passing("warn", says, "as that says, or make its lake reachable", short)
    late = late_after(pipeline.verification.cron)
    if facts.verified is None:
        begun_us = facts.state.begun_us
        if begun_us is None or facts.now_us - begun_us < microseconds(late.warn):
            return ()
        since = in_utc(begun_us, "minutes")
        return Verdict(
            "warn",
            f"{facts.datacenter} joins since {since} and was never verified",
            remedy,
            "was never verified",
        )
    broken = facts.verified.report["violations"]
    at = in_utc(facts.verified.at_us, "minutes")
    if broken:
        kinds = "; ".join(f"{one['count']:,} {one['says']}" for one in broken)
        todo = "; ".join(dict.fromkeys(one["what_to_do"] for one in broken))
        todo = typed(todo, pipeline.file, facts.datacenter)
        todo += f". Then photon verify {pipeline.typed} --record says whether it is mended"
        short = f"breaks a promise, by its newest verification ({facts.verified.kinds})"
        return Verdict("error", f"{facts.datacenter}, verified at {at}: {kinds}", todo, short)
    level = level_after(facts.now_us - facts.verified.at_us, late)
    says = f"{facts.datacenter} was verified at {at}: nothing is missing, and nothing is there twice"
    return Verdict(level, says, "" if level == "ok" else remedy, f"was verified at {at}, long ago")


def _rows_are_right(facts: Facts, memory: Memory, pipeline: Pipeline) -> Sequence[Verdict]:
    """Judge by the last verification, and by what others have done since, which is known at once."""
    found = _verified(facts, memory, pipeline)
    others = judge_foreign_commits(facts.datacenter, facts.foreign_commits, pipeline)
    said = (found,) if isinstance(found, Verdict) else found
    return (others, *said) if others is not None else said


_PROMISED: Mapping[str, tuple[PromiseJudge, str]] = MappingProxyType(
    {
        "works": (
            judge_works,
            "Somebody joins its logs, and its batches go through; its state can be read, and nothing is "
            "held for a dead datacenter.",
        ),
        "waiting": (judge_waiting, "Its process waits for no lake, logs, disk, registry or worker for long."),
        "logs": (_logs, "There are files of both logs, and they can be read."),
        "lag": (
            _lag,
            "It reads both logs, is not far behind them (`health.lag`), and writes unmatched primaries in "
            "time.",
        ),
        "backlog": (_backlog, "Not much of its logs is unread."),
        "dead_letters": (judge_dead_letters, "Few of its records are dead letters (`health.dead_letters`)."),
        "unjoinable": (
            judge_unjoinable,
            "Its records have keys, and few find no primary event (`health.unjoinable`).",
        ),
        "conflicting": (
            judge_conflicting,
            "Few of its records, of either log, have another one's id and other content.",
        ),
        "nothing_lost": (_nothing_lost, "Nothing that was to be read is lost, or people know of it."),
        "clock": (_clock, "No event is ahead of this machine's clock."),
        "verified": (
            _rows_are_right,
            "Nothing is missing and nothing is there twice, by a verification that is not old.",
        ),
    }
)
PROMISES: Mapping[str, str] = MappingProxyType({promise: says for promise, (_, says) in _PROMISED.items()})
# Planned work may be on the disk of its logs, too.
ENDED_BY_A_HOLD = frozenset({"works", "waiting", "logs", "lag", "backlog"})
# These are judged where the state can't be read, too.
WITHOUT_STATE = frozenset({"works", "waiting", "logs", "verified"})
