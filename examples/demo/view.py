"""Plain lines on standard error for the user of a demo while it goes on."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Reversible
from datetime import datetime

from examples.demo.latency import SeenRow, percentile
from examples.demo.scenario import Facts, is_idle
from photon.health.status import DatacenterStatus
from photon.process.clock import MICROSECONDS

RUN_ID_SHOWN = 8  # as Dagster's UI shorts it
SILENT_SECONDS = 5.0  # silence of this length is worth a word; the lease ends after 10
RECENT_SECONDS = 10.0


def say(text: str) -> None:
    """Something happened."""
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def as_line(datacenter: str, facts: Facts, p90_seconds: float) -> str:
    """Who runs a datacenter, how far it is, and what it does."""
    seen = facts.datacenters[datacenter]
    counts, at = Counter(seen.counts), seen.facts
    return (
        f"{datacenter}: run {(at.dagster_run or '-')[:RUN_ID_SHOWN]}, pid {at.process or '-'}, "
        f"batch {at.state.completed:,}, joined {counts['joined']:,}, "
        f"elsewhere {counts['joined_elsewhere']:,}, waiting {sum(seen.waiting.values()):,}, "
        f"given up {counts['unjoinable']:,}, dead {counts['dead_letters']:,}, "
        f"lag {_seconds(_lag_seconds(seen))}, p90 {_seconds(p90_seconds)}: "
        f"{doing(datacenter, seen, facts)}"
    )


def _lag_seconds(seen: DatacenterStatus) -> float | None:
    """For how long the oldest record has waited; the watermark's lag while logs are unread and none waits."""
    if is_idle(seen):
        return 0.0  # the watermark lags all the same while logs are silent
    return max(seen.stages.oldest_waiting_seconds.values(), default=seen.facts.growth.lag_seconds)


def doing(datacenter: str, seen: DatacenterStatus, facts: Facts) -> str:
    """The state of a datacenter now, in words."""
    kill = facts.kill
    is_killed = kill is not None and kill.datacenter == datacenter and not facts.has_joined_since(kill)
    if seen.facts.process is None:
        if seen.facts.decision is not None:
            return seen.facts.decision  # people have said so: no shift comes
        if is_killed:
            return "killed; its next shift has to come"
        if is_idle(seen) and seen.facts.state.completed:
            return "nothing to do: no shift"
        return (
            "waits for its first shift"
            if not seen.facts.state.completed
            else "work is there: a shift has to come"
        )
    silent_us = facts.now_us - (seen.facts.lease.beat_us or facts.now_us)
    if silent_us > SILENT_SECONDS * MICROSECONDS:
        return f"no sign of life for {silent_us / MICROSECONDS:.0f} s"
    if is_killed:
        return "a new shift takes up what the killed one left"
    return "waits for logs to grow" if is_idle(seen) else "joins"


def recent_p90_seconds(rows: Reversible[SeenRow], datacenter: str, now_us: int) -> float:
    """From the later line written to the row readable: the 90th percentile of the last seconds' rows, or NaN.

    `rows` are in the order in which they were seen.
    """
    since_us = now_us - round(RECENT_SECONDS * MICROSECONDS)
    latencies = []
    for row in reversed(rows):
        if row.readable_us < since_us:
            break
        if row.row[0] == datacenter:
            latencies.append(row.latency_us)
    return percentile(sorted(latencies), 0.9) / MICROSECONDS


def _seconds(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.1f} s"
