"""What a look at a datacenter finds, without disturbing it: the input of every verdict."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from photon.clock import microseconds
from photon.dispatcher.log_reader import LogReader
from photon.pipeline.file import Pipeline
from photon.registry.interface import RegistryMismatch
from photon.shift.growth import Growth, growth_of
from photon.shift.lease import LeaseStatus, lease_status_of
from photon.shift.people import Decision, decisions_of
from photon.state.losses import Losses, open_losses
from photon.storage.delta import LakeUnavailable
from photon.verification.stored_reports import StoredReport, newest


@dataclass(frozen=True)
class Vitals:
    """A datacenter at one moment."""

    now_us: int
    growth: Growth
    lease: LeaseStatus
    is_starting: bool = False  # a run of it is on its way
    decision: Decision | None = None  # of people, where nobody runs it
    verified: StoredReport | None = None  # the newest verification; None: there is none
    unverified_because: str = ""  # why no verification could be read
    lost: Losses = field(default_factory=Losses)  # that nobody has acknowledged
    passed_over: tuple[str, ...] = ()  # log files that reading leaves out, each with the reason

    @property
    def unread_bytes(self) -> int:
        return self.growth.primary.unread_bytes + self.growth.foreign.unread_bytes

    @property
    def has_work(self) -> bool:
        """Whether something is due, or unread that its last process has not left as it is: half a line."""
        lease = self.lease.lease
        is_new = lease is None or lease.idle_seen != self.growth.signature
        return bool(self.growth.due or (is_new and self.unread_bytes))

    def is_still(self, lease_seconds: float) -> bool:
        """Whether there is work, and nobody at it."""
        if self.decision is not None:
            return False
        if self.lease.is_locked:
            return not self.lease.is_live(self.now_us, lease_seconds)
        return self.has_work


def look(pipeline: Pipeline, datacenter: str, now_us: int, is_starting: bool = False) -> Vitals:
    """Look at a datacenter now, from outside."""
    growth = growth_of(pipeline, datacenter, now_us)
    lease = lease_status_of(pipeline.datacenters[datacenter].state)
    verified, why = None, ""
    try:
        verified = newest(pipeline, [datacenter]).get(datacenter)
    except LakeUnavailable as error:
        why = str(error)
    lost = open_losses(pipeline.datacenters[datacenter].state, growth.state)
    passed_over = _passed_over(pipeline, datacenter, growth, now_us)
    found = Vitals(now_us, growth, lease, is_starting, None, verified, why, lost, passed_over)
    return replace(found, decision=_decision(pipeline, datacenter, found))


def _passed_over(pipeline: Pipeline, datacenter: str, growth: Growth, now_us: int) -> tuple[str, ...]:
    """The files that can't be read, of those that the dispatcher does not know: they are opened for it.

    Nothing to open where it knows all files, as most looks find it; none where it has never run.
    """
    if growth.state.epoch is None or not growth.has_untracked:
        return ()
    reader = LogReader(pipeline, datacenter, growth.state.files)
    reader.look(now_us, final=False)
    found = [f"{one.path}: {one.reason}" for side in reader.problems.values() for one in side]
    return tuple(one for one in dict.fromkeys(found) if one not in growth.problems)


def _decision(pipeline: Pipeline, datacenter: str, found: Vitals) -> Decision | None:
    """What people have decided: the registry is asked only where nobody runs it, and that may be an alarm."""
    is_old = found.verified is not None and found.now_us - found.verified.at_us >= microseconds(
        pipeline.health.unverified.warn
    )
    growth = found.growth
    lacks = bool(
        growth.problems or growth.state_unreadable or found.unverified_because or found.lost or is_old
    )
    if found.is_still(pipeline.shift.lease_duration.total_seconds()) or (lacks and not found.lease.is_locked):
        with suppress(RegistryMismatch):  # its shift says why it can't run
            return decisions_of(pipeline).on(datacenter)
    return None
