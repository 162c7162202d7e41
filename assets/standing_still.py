"""Whether a datacenter is at work, told by its sensor, for what stands still can't tell it itself.

Also what the datacenter holds back for another one that is dead, and which nobody here can mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    asset_check,
)

from assets.runs import failures_with_a_message
from photon.clock import MICROSECONDS, SystemClock, microseconds
from photon.pipeline.sections import Shift
from photon.shift.growth import Growth, growth_of
from photon.shift.lease import LeaseStatus, lease_status_of
from resources.environment import ServedPipeline, dagster_name


@dataclass(frozen=True)
class Standing:
    """How a datacenter stands, from one look to the next."""

    still_since_us: int | None = None  # it has work, and nobody does it; None: it is at work, or has none
    told: tuple[str, ...] | None = None  # what was told of it last; None: nothing yet

    def next(self, growth: Growth, lease: LeaseStatus, shift: Shift, now_us: int) -> Standing:
        """How it stands now. A start takes its time: only what stands still for longer is told."""
        since_us = None
        if _stands_still(growth, lease, shift, now_us):
            since_us = self.still_since_us or now_us
        told = []
        if since_us is not None and now_us - since_us >= microseconds(shift.start_timeout):
            told.append(_why(growth, lease, (now_us - since_us) / MICROSECONDS))
        return Standing(since_us, (*told, *held_back(growth.state.held, growth.state.out_of_reach)))


def _stands_still(growth: Growth, lease: LeaseStatus, shift: Shift, now_us: int) -> bool:
    if lease.is_locked:
        return not lease.is_live(now_us, shift.lease_duration.total_seconds())
    is_new = lease.lease is None or lease.lease.idle_seen != growth.signature
    return bool(growth.files and (is_new or growth.due))


def _why(growth: Growth, lease: LeaseStatus, seconds: float) -> str:
    if lease.is_locked:
        process = f"process {lease.lease.process} on {lease.lease.host}" if lease.lease else "its process"
        return (
            f"{process} has given no sign of life for {seconds:,.0f} s: it was stopped, or a task, disk or "
            "lake hangs. Look at its disks; end the process, and its successor goes on"
        )
    unread_bytes = growth.primary.unread_bytes + growth.foreign.unread_bytes
    return (
        f"nobody has run it for {seconds:,.0f} s; {unread_bytes:,} bytes of logs are unread, and "
        f"{growth.due:,} events are due. The sensor's last tick says why it starts no run, and the last run "
        "why it failed"
    )


def held_back(held: int, out_of_reach: Mapping[str, str]) -> list[str]:
    """What waits here for dead datacenters whose lakes can't be reached."""
    return [
        f"{held:,} events are held: datacenter {name} registered them and is silent, and what it did not "
        f"join can't be released from here: {why}. Start it again, make its lake readable here, or, if it is "
        "lost for good: photon retire"
        for name, why in out_of_reach.items()
    ]


def check_name(datacenter: str) -> str:
    """One check a datacenter: what is told of one must not hide what is told of another."""
    return dagster_name(datacenter, "works")


def evaluation(served: ServedPipeline, datacenter: str, standing: Standing) -> AssetCheckEvaluation:
    """The check's result without a run."""
    return AssetCheckEvaluation(
        asset_key=served.asset_key("joined_events"),
        check_name=check_name(datacenter),
        passed=not standing.told,
        description=_description(datacenter, standing),
        metadata={"datacenter": datacenter},
    )


def _description(datacenter: str, standing: Standing) -> str:
    return f"{datacenter}: {'; '.join(standing.told)}" if standing.told else f"{datacenter} works."


def works_check(served: ServedPipeline, datacenter: str) -> AssetChecksDefinition:
    """The check as people may have it evaluated now; else the datacenter's sensor does when it changes."""

    @asset_check(
        asset=served.asset_key("joined_events"),
        name=check_name(datacenter),
        description=f"Somebody joins the logs of {datacenter}, and it holds nothing for a dead datacenter.",
    )
    def works() -> AssetCheckResult:
        with failures_with_a_message():
            pipeline, now_us = served.load(), SystemClock().now_us()
            lease = lease_status_of(pipeline.datacenters[datacenter].state)
            growth = growth_of(pipeline, datacenter, now_us)
            # There is no earlier look: the last sign of life says since when.
            standing = Standing(lease.beat_us or None).next(growth, lease, pipeline.shift, now_us)
        return AssetCheckResult(passed=not standing.told, description=_description(datacenter, standing))

    return works
