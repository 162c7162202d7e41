"""Dagster's runs that shift a datacenter, as facts: by the sensor's job or by hand from the asset graph.

What follows from them is `shift_decision`.
"""

from __future__ import annotations

import logging

from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from assets.run_history import OVER, PARTITION_TAG
from orchestration.shift_decision import PastRun, Run
from photon.clock import MICROSECONDS

log = logging.getLogger(__name__)

IN_PROGRESS = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
# After eight quick failures the next run is at its greatest distance; other pipelines' runs are among them.
MOST_PAST_RUNS = 40


class ShiftRuns:
    """The runs that shift one datacenter of one pipeline."""

    def __init__(self, instance: DagsterInstance, job_name: str, asset: AssetKey, datacenter: str) -> None:
        self._instance = instance
        self._job_name = job_name
        self._asset = asset
        self._datacenter = datacenter

    def in_progress(self) -> tuple[Run, ...]:
        """Runs that are not over as Dagster knows it."""
        return tuple(
            Run(record.dagster_run.run_id, record.dagster_run.status, _since_us(record))
            for record in self._records(IN_PROGRESS)
        )

    def past(self) -> tuple[PastRun, ...]:
        """The latest runs that are over, the latest first."""
        return tuple(
            PastRun(
                record.dagster_run.status is DagsterRunStatus.FAILURE,
                began_us=_microseconds(record.start_time or record.create_timestamp.timestamp()),
                ended_us=_microseconds(record.end_time or record.update_timestamp.timestamp()),
            )
            for record in self._records(OVER, MOST_PAST_RUNS)
        )

    def knows(self, run_id: str) -> bool:
        """Whether a run is one of these, over or not."""
        run = self._instance.get_run_by_id(run_id) if run_id else None
        return run is not None and self._is_one(run)

    def mark_lost(self, run_id: str, reason: str, terminate: bool) -> None:
        """End a run as Dagster knows it: canceled, if that was asked for, else failed.

        `terminate`: have the launcher tell its process to end first, where it can; only until it is marked.
        """
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return
        if terminate:
            try:
                self._instance.run_launcher.terminate(run_id)
            except Exception:  # in whatever way the launcher does not reach its processes
                log.exception("run %s: its process could not be told to end", run_id)
        if run.status is DagsterRunStatus.CANCELING:
            self._instance.report_run_canceled(run, reason)
        else:
            self._instance.report_run_failed(run, reason)

    def _records(self, statuses: list[DagsterRunStatus], limit: int | None = None) -> list[RunRecord]:
        filters = RunsFilter(statuses=statuses, tags={PARTITION_TAG: self._datacenter})
        records = self._instance.get_run_records(filters, limit=limit)
        return [record for record in records if self._is_one(record.dagster_run)]

    def _is_one(self, run: DagsterRun) -> bool:
        """Of the sensor's job, or of the asset alone, as "Materialize" makes it."""
        of_asset = run.asset_selection is not None and self._asset in run.asset_selection
        here = run.tags.get(PARTITION_TAG) == self._datacenter
        return here and (run.job_name == self._job_name or of_asset)


def _since_us(record: RunRecord) -> int:
    """When it began; before that, when its status changed last."""
    return _microseconds(record.start_time or record.update_timestamp.timestamp())


def _microseconds(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
