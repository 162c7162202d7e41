"""The activity of a datacenter: who is at work on its logs, decided in one place for all who tell it.

The verdict `works`, the first words of `photon status`, metrics and the watcher go by `activity_of`. Two
looks know the facts: that of `photon status` (`DatacenterStatus`) and that of the watcher (`Vitals`). Each
makes `Facts` of what it has seen, and nothing else is decided there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from photon.dispatcher.shift.growth import LIVE_BYTES
from photon.dispatcher.shift.people import Decision
from photon.dispatcher.shift.status import DatacenterStatus
from photon.pipeline.sections import Durations

# Nobody is at work for so long, although there is work, or a process gives no sign of life: a shift that is
# killed or hangs for 10 s is replaced within some 20 s, so that half a minute is no hiccup.
STANDING_STILL = Durations(warn=timedelta(seconds=30), error=timedelta(seconds=45))
SILENT_SECONDS = STANDING_STILL.warn.total_seconds()

Activity = Literal[
    "retired",
    "on hold",
    "new",
    "at half a line",  # nobody runs it, and nothing else is unread
    "at rest",
    "not running",  # and there is work
    "fenced",
    "silent",
    "waiting",  # for what is unavailable
    "catching up",
    "live",
]


@dataclass(frozen=True)
class Facts:
    """What has been seen of a datacenter and of its process."""

    decision: Decision | None  # of people
    has_state: bool
    is_run: bool  # a process holds its lock
    silent_seconds: float  # since the last sign of life of that process
    is_stopped: bool  # the process goes on only if somebody continues it
    is_fenced: bool
    waits_for: str
    has_work: bool  # planned, to be taken up, or unread and more than half a line
    only_half_lines: bool
    unread_bytes: int

    @property
    def is_silent(self) -> bool:
        """Whether a process is there and gives no sign of life, nor will give one."""
        return self.is_run and (self.is_stopped or self.silent_seconds > SILENT_SECONDS)


def activity_of(facts: Facts) -> Activity:
    """The activity of a datacenter, in a word or two."""
    if facts.decision is not None:
        return facts.decision
    if not facts.has_state and not facts.is_run:
        return "new"
    if not facts.is_run:
        if facts.has_work:
            return "not running"
        return "at half a line" if facts.only_half_lines else "at rest"
    if facts.is_fenced:
        return "fenced"
    if facts.is_silent:
        return "silent"
    if facts.waits_for:
        return "waiting"
    return "catching up" if facts.unread_bytes > LIVE_BYTES else "live"


def facts_of(one: DatacenterStatus, now_us: int) -> Facts:
    """The facts as `photon status` and metrics have seen them."""
    backlog_bytes = one.primary.backlog_bytes + one.foreign.backlog_bytes
    soon = sum(one.waiting.get(reason, 0) for reason in ("home", "contested"))
    is_planned = one.to_take_up_again or one.stages.uncommitted.plans or soon
    return Facts(
        one.decision,
        has_state=one.epoch is not None,
        is_run=one.running_process is not None,
        silent_seconds=one.silent_seconds(now_us),
        is_stopped=one.is_stopped,
        is_fenced=one.is_fenced,
        waits_for=one.waits_for,
        has_work=bool(is_planned or (backlog_bytes and not one.half_lines)),
        only_half_lines=bool(one.half_lines),
        unread_bytes=backlog_bytes,
    )
