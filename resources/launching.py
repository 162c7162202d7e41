"""Which runs start at once, which wait in line, and which yield processors.

A run in no pool, such as a shift, starts in the tick, or at the click, that asks for it: a killed shift would
wait 5 s for Dagster's queue. Any other run waits there without a process until its pools have a place, and
yields processors to shifts.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil
from dagster import DagsterEventType, DagsterRun, DefaultRunLauncher
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.run_coordinator import QueuedRunCoordinator, SubmitRunContext
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

from photon.process.operating_system import NICENESS

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Dagster stores the number of a new process some milliseconds after it says that the process is there.
PROCESS_TOLD_SECONDS, POLL_SECONDS = 5.0, 0.05
CLOCK_SECONDS = 2.0  # by which the kernel's start of a process may be off


class ShiftsAtOnce(QueuedRunCoordinator):
    """Dagster's queue, for all runs but those in no pool."""

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        """Launch the run, or put it in line."""
        run, pools = context.dagster_run, pools_of(context.dagster_run)
        if pools or run.status is not DagsterRunStatus.NOT_STARTED:
            # In its first look at a pool that has no limit yet, Dagster launches all that wait for it.
            for pool in pools:
                self._instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
            return super().submit_run(context)
        return self._instance.launch_run(run.run_id, context.workspace)


class BehindShifts(DefaultRunLauncher):
    """Dagster's launcher, which has runs in pools yield to shifts, and sees which processes are gone."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Launch the run. One in a pool yields before it loads its code, which takes 3 s of a core."""
        super().launch_run(context)
        until = time.monotonic() + PROCESS_TOLD_SECONDS
        while pools_of(context.dagster_run) and time.monotonic() < until:
            if (told := self._process_of(context.dagster_run)) is not None:
                with suppress(psutil.Error):  # it has ended, or is another user's
                    if (process := told.process()) is not None:
                        process.nice(max(NICENESS, process.nice()))
                return
            time.sleep(POLL_SECONDS)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Dagster's monitoring asks each 30 s; without an answer a dead run keeps its pool for hours."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether a run's process lives; that of a code server elsewhere is taken for alive."""
        told = self._process_of(run)
        if told is not None and told.process() is None:
            return CheckRunHealthResult(WorkerStatus.FAILED, f"its process {told.number} is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def _process_of(self, run: DagsterRun) -> ToldProcess | None:
        """The process that Dagster's events name; None if it is not here, or nobody has told it yet."""
        launched = self._instance.get_run_by_id(run.run_id) or run  # with the tag that the launch has added
        server = json.loads(launched.tags.get(GRPC_INFO_TAG, "{}"))
        if not server.get("socket") and server.get("host") not in LOOPBACK:
            return None
        for entry in self._instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT):
            data = entry.dagster_event.engine_event_data if entry.dagster_event else None
            if data is not None and "pid" in data.metadata:
                return ToldProcess(int(str(data.metadata["pid"].value)), entry.timestamp)
        return None


@dataclass(frozen=True)
class ToldProcess:
    """A process of this machine, as an event names it."""

    number: int
    told_at: float  # seconds since 1970; it had begun by then

    def process(self) -> psutil.Process | None:
        """The process, if it lives; None if it is gone, or another one has its number now."""
        try:
            found = psutil.Process(self.number)
            is_gone = found.create_time() > self.told_at + CLOCK_SECONDS
            return None if is_gone or found.status() == psutil.STATUS_ZOMBIE else found
        except psutil.NoSuchProcess:
            return None


def pools_of(run: DagsterRun) -> set[str]:
    """The pools of a run's ops."""
    return set() if run.run_op_concurrency is None else set(run.run_op_concurrency.all_pools)
