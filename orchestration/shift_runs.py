"""Dagster's runs that shift one datacenter, its joins or its landing: by the sensor's job, or by hand."""

from __future__ import annotations

import logging

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES
from dagster._core.storage.tags import PARTITION_NAME_TAG

from photon.assets.runs import ended_us
from photon.orchestration.shift_decision import ActiveRun, PastRun, RunToFail
from photon.process.clock import MICROSECONDS
from photon.resources.environment import ServedPipeline

log = logging.getLogger(__name__)

# After eight quick failures the backoff no longer grows; other pipelines' runs are among these.
MOST_PAST_RUNS = 40


class ShiftRuns:
    """The runs of a job, or of its asset from the asset graph, for one datacenter of one pipeline."""

    def __init__(
        self,
        instance: DagsterInstance,
        served: ServedPipeline,
        datacenter: str,
        job: str = "shift",
        asset: str = "joined_events",
    ) -> None:
        self._instance = instance
        self._job_name = served.job_name(job)
        self._asset = served.asset_key(asset)
        self._datacenter = datacenter

    def in_progress(self) -> tuple[ActiveRun, ...]:
        """Runs that Dagster believes to be in progress, since their start or their last change of status."""
        return tuple(
            ActiveRun(
                record.dagster_run.run_id,
                record.dagster_run.status,
                _microseconds(record.start_time or record.update_timestamp.timestamp()),
            )
            for record in self._records(NOT_FINISHED_STATUSES)
        )

    def past(self) -> tuple[PastRun, ...]:
        """The last runs that are over, the latest first."""
        return tuple(
            PastRun(
                record.dagster_run.status is DagsterRunStatus.FAILURE,
                began_us=_microseconds(record.start_time or record.create_timestamp.timestamp()),
                ended_us=ended_us(record),
            )
            for record in self._records(FINISHED_STATUSES, MOST_PAST_RUNS)
        )

    def has(self, run_id: str) -> bool:
        """Whether a run, over or not, is one of these."""
        run = self._instance.get_run_by_id(run_id) if run_id else None
        return run is not None and self._is_one(run)

    def fail(self, lost: RunToFail, terminate: bool) -> None:
        """Mark a run as failed, or as canceled if that was asked for.

        With `terminate`, have the launcher end its process before: afterwards it refuses.
        """
        run = self._instance.get_run_by_id(lost.run_id)
        if run is None or run.is_finished:
            return
        if terminate:
            try:
                self._instance.run_launcher.terminate(lost.run_id)
            except Exception:  # each launcher fails in its own way where it does not reach its processes
                log.exception("run %s: the launcher could not end its process", lost.run_id)
        if run.status is DagsterRunStatus.CANCELING:
            self._instance.report_run_canceled(run, lost.reason)
        else:
            self._instance.report_run_failed(run, lost.reason)

    def _records(self, statuses: list[DagsterRunStatus], limit: int | None = None) -> list[RunRecord]:
        filters = RunsFilter(statuses=statuses, tags={PARTITION_NAME_TAG: self._datacenter})
        records = self._instance.get_run_records(filters, limit=limit)
        return [record for record in records if self._is_one(record.dagster_run)]

    def _is_one(self, run: DagsterRun) -> bool:
        of_asset = run.asset_selection is not None and self._asset in run.asset_selection
        here = run.tags.get(PARTITION_NAME_TAG) == self._datacenter
        return here and (run.job_name == self._job_name or of_asset)


def _microseconds(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
