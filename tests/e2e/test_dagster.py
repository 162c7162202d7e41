"""Two Dagsters, one a datacenter, over real processes: a shift is killed, and nothing is lost or doubled."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus

from bench.live_traffic import LiveTraffic
from examples.demo.process_tree import ProcessTree, Program
from photon.clock import SystemClock
from photon.pipeline.file import Pipeline, load_pipeline
from photon.shift.growth import growth_of
from photon.shift.lease import Lease, lease_status_of
from photon.state.view import view_state
from photon.testing.traffic import Traffic
from tests.e2e.photon_process import joined_rows, wait_for_rows
from tests.e2e.process_marks import marked, soon

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2]
DATACENTERS = ("east", "west")
SETTINGS = """
shift: {idle: 5s, report: 5s}
retry: {max_delay: 1s}
tailing: {idle_after: 2s}
"""
# All of these join, once, whatever becomes of the shifts; what is given up depends on how long they live.
ILLS = {
    "click_before_query": 3,
    "copies_apart": 3,
    "click_twice_same_file": 3,
    "click_twice_other_file": 3,
    "malformed_query": 3,
    "file_rollover": 2,
    "rename_rotation": 2,
}
# What the issue asks for is some seconds; a busy machine is given minutes before this calls it broken.
PATIENCE_SECONDS = 180.0


def daemon(folder: Path, pipeline_file: Path, datacenter: str) -> Program:
    """A Dagster of one datacenter's own: storage, settings, daemon, and the code server that this starts."""
    home = folder / f"dagster-{datacenter}"
    home.mkdir()
    shutil.copy(PROJECT / "infra" / "dagster.yaml", home)
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
    home = str(folder / f"dagster-{datacenter}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", home)  # its settings name it
        with DagsterInstance.from_config(home) as instance:
            return {run.run_id: run.status for run in instance.get_runs()}


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


def test_a_killed_shift_is_replaced_by_its_own_dagster_and_every_event_is_joined_once(
    tmp_path: Path, mark: str
) -> None:
    traffic = Traffic(5, DATACENTERS, 50, 10, duration_seconds=40, late_seconds=5, ills=ILLS)
    file = traffic.write_pipeline(tmp_path, more=SETTINGS)
    pipeline = load_pipeline(file)
    writer = threading.Thread(target=LiveTraffic(traffic, tmp_path).run)
    with ProcessTree([place.state for place in pipeline.datacenters.values()]) as tree:
        for name in DATACENTERS:
            tree.start(daemon(tmp_path, file, name))
        writer.start()
        for name in DATACENTERS:
            wait_for_rows(file, name, 20)
        killed = lease_of(pipeline, "east")
        os.kill(killed.process, signal.SIGKILL)

        def is_replaced() -> bool:
            return (
                lease_status_of(pipeline.datacenters["east"].state).is_locked
                and lease_of(pipeline, "east") != killed
            )

        assert soon(lambda: runs(tmp_path, "east")[killed.run] is DagsterRunStatus.FAILURE, PATIENCE_SECONDS)
        assert soon(is_replaced, PATIENCE_SECONDS)
        writer.join()
        assert soon(lambda: all(is_done(pipeline, name) for name in DATACENTERS), PATIENCE_SECONDS)
        assert tree.ended() == {}

    assert soon(lambda: not marked(mark))
    assert runs(tmp_path, "east").pop(killed.run) is DagsterRunStatus.FAILURE
    assert set(runs(tmp_path, "west").values()) == {DagsterRunStatus.SUCCESS}
    places = pipeline.datacenters.items()
    counts = {name: view_state(place.state, 0).counts.as_dict() for name, place in places}
    assert traffic.expected_outcomes().disagreements(counts) == []
    assert all(found["joined"] for found in counts.values())
    ids = joined_rows(file)["_event_id"].to_pylist()
    assert (len(ids), len(set(ids))) == (traffic.expected_outcomes().joined_total,) * 2
