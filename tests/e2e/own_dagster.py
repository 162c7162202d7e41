"""A datacenter with a Dagster of its own: storage, daemon and code server; and what this says of its runs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus, EventLogEntry
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from orchestration.demo.process_tree import Program
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import Lease, lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock

PROJECT = Path(__file__).parents[2]


def daemon(folder: Path, pipeline_file: Path, datacenter: str) -> Program:
    """A Dagster of one datacenter's own: storage, settings, daemon, and the code server that this starts."""
    home = folder / f"dagster-{datacenter}"
    home.mkdir(exist_ok=True)  # one that was killed is started again
    shutil.copy(PROJECT / "orchestration" / "dagster.yaml", home)
    environment = {
        "DAGSTER_HOME": str(home),
        "PHOTON_PIPELINES": str(pipeline_file),
        "PHOTON_DATACENTERS": datacenter,
    }
    program = str(Path(sys.executable).with_name("dagster-daemon"))
    command = (program, "run", "-w", str(PROJECT / "workspace.yaml"))
    log = folder / f"{datacenter}.log"
    return Program(datacenter, command, PROJECT, log, environment, ends_first=True)


def runs(folder: Path, datacenter: str) -> dict[str, DagsterRunStatus]:
    """The runs of a datacenter's Dagster."""
    with instance_of(folder, datacenter) as instance:
        return {run.run_id: run.status for run in instance.get_runs()}


@contextmanager
def instance_of(folder: Path, datacenter: str) -> Iterator[DagsterInstance]:
    """A datacenter's Dagster, as its home says."""
    home = str(folder / f"dagster-{datacenter}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", home)  # its settings name it
        with DagsterInstance.from_config(home) as instance:
            yield instance


def failures(folder: Path, datacenter: str) -> dict[str, list[str]]:
    """What Dagster says of each run of a datacenter that did not succeed, the last words at the end."""
    with instance_of(folder, datacenter) as instance:
        return {
            run.run_id: [run.status.value, *last_words(instance.all_logs(run.run_id))]
            for run in instance.get_runs()
            if run.status is not DagsterRunStatus.SUCCESS
        }


def last_words(entries: Sequence[EventLogEntry], most: int = 8) -> list[str]:
    """The last entries of a run's log, each with its error."""
    said = [(entry.user_message, entry.dagster_event) for entry in entries[-most:]]
    return [f"{message} {event.event_specific_data if event else ''}"[:2_000] for message, event in said]


def are_over(found: dict[str, DagsterRunStatus]) -> bool:
    return all(status in FINISHED_STATUSES for status in found.values())


def lease_of(pipeline: Pipeline, datacenter: str) -> Lease:
    lease = lease_status_of(pipeline.datacenters[datacenter].state).lease
    assert lease is not None
    return lease


def is_done(pipeline: Pipeline, datacenter: str) -> bool:
    """Whether the datacenter's last shift has left, with nothing more to do."""
    lease_status = lease_status_of(pipeline.datacenters[datacenter].state)
    growth = growth_of(pipeline, datacenter, SystemClock().now_us())
    left_idle = lease_status.lease is not None and lease_status.lease.idle_seen == growth.signature
    return left_idle and not lease_status.is_locked and not growth.waiting
