"""The numbers that verdicts go by, each with its thresholds, as a check shows and plots them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from photon.health.bad_records import (
    AMBIGUOUS,
    CONFLICTING,
    CONFLICTING_SHARES,
    FOREIGN_DEAD,
    PRIMARY_DEAD,
    REUSED,
    UNJOINABLE,
    BadRecordKind,
    worse_share,
)
from photon.health.facts import Facts
from photon.health.memory import Memory
from photon.health.verdict import PATIENCE_SECONDS, Measure, late_after
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations, Shares
from photon.process.clock import MICROSECONDS

# Unread bytes of the logs: a minute of a busy log, and more than most disks of logs have room for twice.
BACKLOG_WARN_BYTES, BACKLOG_ERROR_BYTES = 2**30, 2**34
# Events ahead of this machine's clock: NTP keeps clocks within less; a minute is a clock that nobody sets.
CLOCK_SKEW = Durations(warn=timedelta(seconds=5), error=timedelta(minutes=1))


def measures(facts: Facts, memory: Memory, pipeline: Pipeline) -> Mapping[str, tuple[Measure, ...]]:
    """The numbers behind the verdict on each promise; none where nobody has measured yet."""
    growth, lost, health = facts.growth, facts.lost, pipeline.health
    failing = facts.lease.failing
    waits_since_us = facts.waits_since_us if facts.waits_for else None
    reused = _share("reused_share", facts, REUSED, CONFLICTING_SHARES)
    return {
        "works": (
            _lasting("standing_still_seconds", facts, memory.still_since_us),
            _lasting("failing_seconds", facts, failing.fails_since_us if failing else None),
        ),
        "waiting": (_lasting("waiting_seconds", facts, waits_since_us),),
        "logs": (
            Measure("primary_files", growth.primary.files),
            Measure("foreign_files", growth.foreign.files),
            Measure("unread_files", len(facts.unread_files), error=1),
            Measure("passed_over_files", len(facts.passed_over), warn=1),
        ),
        "lag": (_between("behind_seconds", behind_seconds(facts, memory), health.lag),),
        "backlog": (Measure("unread_bytes", facts.unread_bytes, BACKLOG_WARN_BYTES, BACKLOG_ERROR_BYTES),),
        "dead_letters": (
            _share("foreign_share", facts, FOREIGN_DEAD, health.dead_letters),
            _share("primary_share", facts, PRIMARY_DEAD, health.dead_letters),
        ),
        "unjoinable": (_share("share", facts, UNJOINABLE, health.unjoinable),),
        "conflicting": (
            _share("share", facts, CONFLICTING, CONFLICTING_SHARES),
            _share("ambiguous_share", facts, AMBIGUOUS, CONFLICTING_SHARES),
            *(() if pipeline.retry.expects_reused_ids else (reused,)),
        ),
        "nothing_lost": (
            Measure("lost_bytes", lost.bytes, error=1),
            Measure("lost_records", lost.records, error=1),
            Measure("may_be_lost_bytes", lost.may_be_lost_bytes, warn=1),
        ),
        "clock": (
            _between("ahead_seconds", ahead_of_clock_us(facts) / MICROSECONDS, CLOCK_SKEW),
            Measure("events_ahead", facts.state.ahead, warn=1),
        ),
        "verified": _verified(facts, pipeline),
    }


def behind_seconds(facts: Facts, memory: Memory) -> float:
    """The watermark's lag while much is unread, or for how long that is so if it is less.

    Where logs are silent the watermark lags and nothing waits. Old logs lag by years when they are read.
    """
    if memory.behind_since_us is None:
        return 0.0
    lasted_seconds = (facts.now_us - memory.behind_since_us) / MICROSECONDS
    return min(lasted_seconds, facts.growth.lag_seconds or lasted_seconds)


def ahead_of_clock_us(facts: Facts) -> int:
    """How far the watermark is ahead of this machine's clock; later times wait, and don't move it (C6)."""
    watermark_us = facts.state.watermark_us
    return 0 if watermark_us is None else max(0, watermark_us - facts.now_us)


def _verified(facts: Facts, pipeline: Pipeline) -> tuple[Measure, ...]:
    if facts.verified is None:
        return ()
    late, broken = late_after(pipeline.verification.cron), facts.verified.report["violations"]
    # Another machine's clock, or one that is set in between, may be ahead.
    age_seconds = max(0, facts.now_us - facts.verified.at_us) / MICROSECONDS
    return (
        Measure("violations", sum(one["count"] for one in broken), error=1),
        _between("age_seconds", age_seconds, late),
    )


def _share(name: str, facts: Facts, kind: BadRecordKind, bounds: Shares) -> Measure:
    return Measure(name, round(worse_share(facts, kind, bounds).value, 6), bounds.warn, bounds.error)


def _lasting(name: str, facts: Facts, since_us: int | None) -> Measure:
    seconds = 0.0 if since_us is None else max(0, facts.now_us - since_us) / MICROSECONDS
    return Measure(name, round(seconds, 1), error=PATIENCE_SECONDS)


def _between(name: str, seconds: float, bounds: Durations) -> Measure:
    return Measure(name, round(seconds, 1), bounds.warn.total_seconds(), bounds.error.total_seconds())
