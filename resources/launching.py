"""Which runs start at once, which wait in line, and which yield processors.

A run in no pool, such as a shift, starts in the tick, or at the click, that asks for it: a killed shift would
wait 5 s for Dagster's queue. Any other run waits there without a process until its pools have a place, and
yields processors to shifts.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict

import psutil
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, DefaultRunLauncher
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.run_coordinator import QueuedRunCoordinator, SubmitRunContext

from photon.process.operating_system import NICENESS, Begun, ticks_now

# Tags of a run that name its processes; Dagster hides them. Two daemons may launch a run twice.
PROCESS_TAG = ".dagster/photon_process_"
# Dagster stores the number of a new process some milliseconds after it says that the process is there.
TOLD_SECONDS, POLL_SECONDS = 5.0, 0.05

log = logging.getLogger(__name__)


class ShiftsAtOnce(QueuedRunCoordinator):
    """Dagster's queue, for all runs but those in no pool."""

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        """Launch the run, or put it in line."""
        run, pools = context.dagster_run, pools_of(context.dagster_run)
        if not pools and run.status is DagsterRunStatus.NOT_STARTED:
            return self._instance.launch_run(run.run_id, context.workspace)
        # In its first look at a pool that has no limit yet, Dagster launches all that wait for it.
        storage = self._instance.event_log_storage
        for pool in pools - {limit.name for limit in storage.get_pool_limits()}:
            storage.initialize_concurrency_limit_to_default(pool)
        return super().submit_run(context)


class BehindShifts(DefaultRunLauncher):
    """Dagster's launcher, which has runs in pools yield to shifts, and sees which of them are gone.

    It knows the processes of this machine, by a code server that begins them here; any other it leaves alone.
    """

    def launch_run(self, context: LaunchRunContext) -> None:
        """Launch the run. One in a pool yields before it loads its code, which takes 3 s of a core."""
        before_ticks = ticks_now()
        super().launch_run(context)
        if not pools_of(context.dagster_run):
            return
        try:
            self._have_yield(context.dagster_run.run_id, before_ticks)
        except Exception:  # the run is launched, whatever ails the storage, or this look
            log.exception(
                "run %s: its process could not be found, and has normal rank", context.dagster_run.run_id
            )

    def _have_yield(self, run_id: str, before_ticks: int) -> None:
        until = time.monotonic() + TOLD_SECONDS
        while time.monotonic() < until:
            for number in self._told_processes(run_id):
                # One of another machine, or of another container, with this number began at another time.
                if (begun := Begun.of(number)) is not None and begun.ticks >= before_ticks:
                    tag = {f"{PROCESS_TAG}{number}": json.dumps(asdict(begun))}
                    self._instance.add_run_tags(run_id, tag)
                    process = psutil.Process(number)
                    process.nice(max(NICENESS, process.nice()))
                    return
            time.sleep(POLL_SECONDS)

    def _told_processes(self, run_id: str) -> Iterator[int]:
        for entry in self._instance.all_logs(run_id, of_type=DagsterEventType.ENGINE_EVENT):
            data = entry.dagster_event.engine_event_data if entry.dagster_event else None
            if data is not None and "pid" in data.metadata:
                yield int(str(data.metadata["pid"].value))

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Dagster's monitoring asks each 30 s; without an answer a dead run keeps its pool for hours."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether a run goes on: not if processes of it are known, and all that it ever had are gone.

        A launch that took too long is tried again, and begins a second process, which Dagster turns away.
        """
        known = [Begun(**json.loads(text)) for tag, text in run.tags.items() if tag.startswith(PROCESS_TAG)]
        told = self._told_processes(run.run_id)
        if known and all(process.is_gone for process in known) and not any(map(Begun.of, told)):
            return CheckRunHealthResult(WorkerStatus.FAILED, f"its process {known[-1].process} is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)


def pools_of(run: DagsterRun) -> set[str]:
    """The pools of a run's ops."""
    return set((run.run_op_concurrency and run.run_op_concurrency.all_pools) or ())
