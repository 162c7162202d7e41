"""How a datacenter stands: read from its state, its logs and its lock, without disturbing it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from photon.clock import MICROSECONDS, Clock
from photon.dispatcher.log_reader import Follower
from photon.dispatcher.state import STATE_FILE, DispatcherState
from photon.logs.files import Side
from photon.pipeline.file import Pipeline
from photon.shift.lease import lease_status_of


@dataclass(frozen=True)
class LogStatus:
    """One log of a datacenter."""

    files: int
    gone_files: int
    read_bytes: int
    backlog_bytes: int


@dataclass(frozen=True)
class DatacenterStatus:
    """One datacenter. Times are microseconds since 1970 UTC."""

    running_process: int | None
    running_run: str | None  # of Dagster; None: a command, or nobody
    last_sign_of_life_us: int | None
    epoch: str | None
    batch: int
    counts: dict[str, int]
    waiting: dict[str, int]  # by reason
    to_take_up_again: int
    watermark_us: int | None
    watermark_lag_seconds: float | None
    primary: LogStatus
    foreign: LogStatus
    problems: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


NO_LOG = LogStatus(0, 0, 0, 0)


def status_of(pipeline: Pipeline, datacenter: str, clock: Clock) -> DatacenterStatus:
    """How the datacenter stands now. A folder that is missing is a problem that is named, not an error."""
    folder = pipeline.datacenters[datacenter].state
    standing = lease_status_of(folder)
    lease = standing.lease if standing.held else None
    running = (
        lease.process if lease else None,
        (lease.run or None) if lease else None,
        standing.beat_us or None,
    )
    problems = [f"{folder}: no state yet; a shift, or photon join {pipeline.file} -d {datacenter}, makes it"]
    problems += _missing_logs(pipeline.datacenters[datacenter].logs)
    nothing_yet = DatacenterStatus(*running, None, 0, {}, {}, 0, None, None, NO_LOG, NO_LOG, problems)
    if not (folder / STATE_FILE).exists():
        return nothing_yet
    state = DispatcherState(folder, read_only=True)
    try:
        if state.epoch is None:  # it is just being made
            return nothing_yet
        follower = Follower(pipeline, datacenter, state, read_only=True)
        follower.look(clock.now_us(), final=False)
        watermark_us = state.watermark_us
        lag = None if watermark_us is None else (clock.now_us() - watermark_us) / MICROSECONDS
        return DatacenterStatus(
            *running,
            epoch=state.epoch,
            batch=state.completed,
            counts=state.counts().as_dict(),
            waiting=state.waiting_by_reason(),
            to_take_up_again=state.count_requeued(),
            watermark_us=watermark_us,
            watermark_lag_seconds=lag,
            primary=_log_status(follower, "primary"),
            foreign=_log_status(follower, "foreign"),
            problems=[f"{p.path}: {p.reason}" for side in follower.problems.values() for p in side],
        )
    finally:
        state.close()


def _log_status(follower: Follower, side: Side) -> LogStatus:
    files = follower.of(side).values()
    return LogStatus(
        files=len(files),
        gone_files=sum(tracked.state != "open" for tracked in files),
        read_bytes=sum(tracked.offset_bytes for tracked in files),
        backlog_bytes=sum(follower.backlog_bytes[side].values()),
    )


def _missing_logs(logs: Path) -> list[str]:
    return [] if logs.is_dir() else [f"{logs}: not a folder that can be read; expected the datacenter's logs"]
