"""When a shift ends, and what its callbacks do beside: tell what keeps it, and write what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from photon.dispatcher.recovery.holders import OtherEpochs
from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.lease import NO_EXECUTOR, DatacenterLock, Heartbeat
from photon.dispatcher.shift.measured import MeasuredFile
from photon.process.clock import Clock, microseconds

# A stop was requested; nothing to do for `idle`; a successor took over; the length is over; all is done.
Ended = Literal["asked", "idle", "relieved", "over", "done"]


@dataclass(frozen=True)
class ShiftLimits:
    """How a shift begins and ends, besides its mode."""

    run: str = ""  # Dagster's run; empty: a command
    parent: int | None = None  # the process with which it ends
    takes_turns: bool = False  # wait for the process that runs the datacenter, and hand over to the next
    length: timedelta | None = None  # None: no end
    relief: timedelta = timedelta()  # how much longer it waits for a successor
    idle: timedelta | None = None  # end after this long without work


NO_LIMITS = ShiftLimits()


@dataclass
class StopCondition:
    """Notices when a shift is to end, and why."""

    lock: DatacenterLock
    limits: ShiftLimits
    stop_requested: Callable[[], bool]
    heartbeat: Heartbeat
    clock: Clock
    why: Ended | None = None

    def has_come(self) -> bool:
        """Tell whether to end; each call also counts as progress for the heartbeat."""
        self.heartbeat.progress()
        if self.why is None:
            self.why = self._reason()
            if self.why is not None:
                self.lock.announce_end()
        return self.why is not None

    def _reason(self) -> Ended | None:
        if self.stop_requested():
            return "asked"
        if not self.limits.takes_turns:
            return None
        if self.lock.has_successor():
            return "relieved"
        ends_us = self.lock.lease.ends_us
        if ends_us is not None and self.clock.now_us() > ends_us + microseconds(self.limits.relief):
            return "over"
        return None


def telling_status(callbacks: Callbacks, lock: DatacenterLock, clock: Clock) -> Callbacks:
    """Have the callbacks also write into the lease what the shift waits for, and that its batches fail."""

    def on_wait(reason: str) -> None:
        lock.tell_wait(reason, clock.now_us())
        callbacks.on_wait(reason)

    def on_cause(reason: str) -> None:
        # An alarm on executors has little patience: it is not that of an earlier wait for something else.
        lacks_them_now = reason.startswith(NO_EXECUTOR) and not lock.lease.lacks_executors
        lock.tell_wait(reason, clock.now_us() if lacks_them_now else lock.lease.waits_since_us)
        callbacks.on_cause(reason)

    def on_resume(reason: str, seconds: float) -> None:
        lock.tell_wait("", clock.now_us())
        callbacks.on_resume(reason, seconds)

    def on_failure(reason: str) -> None:
        lock.tell_failure(reason, clock.now_us())
        callbacks.on_failure(reason)

    def on_progress() -> None:
        lock.tell_progress()
        callbacks.on_progress()

    return replace(
        callbacks,
        on_wait=on_wait,
        on_cause=on_cause,
        on_resume=on_resume,
        on_failure=on_failure,
        on_progress=on_progress,
    )


def ending_on_decisions(callbacks: Callbacks, holders: OtherEpochs, measured: MeasuredFile) -> Callbacks:
    """Have the callbacks also stop for people's decisions, and write what is measured."""
    stop = callbacks.should_stop

    def should_stop() -> bool:
        measured.write_if_due()  # the shift asks all the time, also while it waits
        return stop() or holders.is_stopped

    return replace(callbacks, should_stop=should_stop)
