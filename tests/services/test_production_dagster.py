"""Dagster as in production, on PostgreSQL: a shift is killed and replaced, and the server goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster_graphql import DagsterGraphQLClient

from examples.demo.live_traffic import LiveTraffic
from examples.demo.process_tree import ProcessTree
from examples.demo.traffic import Traffic
from infra.servers.postgres import HOST
from infra.servers.process import free_steady_port
from photon.dispatcher.shift.lease import lease_status_of
from photon.dispatcher.shift.measured import measured_in
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.state.view import view_state
from photon.storage.delta import open_table
from tests.e2e.photon_process import joined_rows, wait_for_rows
from tests.e2e.process_marks import marked, soon
from tests.services.postgres import postgres
from tests.services.production import (
    UNITS,
    are_over,
    commands_of,
    home_in,
    instance_of,
    is_done,
    last_words,
    lease_of,
    program_of,
)

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(900)]

DATACENTER = "east"
SETTINGS = """
shift: {idle: 10s}
tailing: {idle_after: 2s}
backfill: {first_look_days: 0}
"""
ILLS = {"click_before_query": 3, "click_twice_other_file": 3, "malformed_query": 2, "rename_rotation": 2}
PATIENCE_SECONDS = 240.0  # a busy machine is given minutes before this calls it broken
TRAFFIC_SECONDS = 30
JOINED_WITHOUT_POSTGRES = 20


class HeldTime(SystemClock):
    """The traffic's time, which stands still at some of its moments until their events are set."""

    def __init__(self, holds: dict[float, threading.Event]) -> None:
        self._began_us, self._held_us = 0, 0  # time begins with the first sleep
        self._holds = sorted(holds.items())

    def now_us(self) -> int:
        return super().now_us() - self._held_us

    def sleep(self, seconds: float) -> None:
        self._began_us = self._began_us or self.now_us()
        super().sleep(seconds)
        if self._holds and self.now_us() - self._began_us > self._holds[0][0] * MICROSECONDS:
            before_us = super().now_us()
            self._holds.pop(0)[1].wait()
            self._held_us += super().now_us() - before_us


def test_a_killed_shift_is_replaced_and_no_event_is_lost_while_postgres_is_away(
    tmp_path: Path, mark: str
) -> None:
    traffic = Traffic(5, (DATACENTER,), 50, 10, duration_seconds=TRAFFIC_SECONDS, late_seconds=5, ills=ILLS)
    file = traffic.write_pipeline(tmp_path, more=SETTINGS)
    pipeline = load_pipeline(file)
    state = pipeline.datacenters[DATACENTER].state
    shift_runs, postgres_is_away = threading.Event(), threading.Event()
    time = HeldTime({2: shift_runs, TRAFFIC_SECONDS / 2: postgres_is_away})
    writer = threading.Thread(target=LiveTraffic(traffic, tmp_path, time).run, daemon=True)
    home = home_in(tmp_path)
    ports = [free_steady_port() for _ in range(3)]
    with postgres(ports[0]) as server, ProcessTree([state]) as tree:
        environment = {
            **server.database("dagster"),
            "DAGSTER_HOME": str(home),
            "PHOTON_PIPELINES": str(file),
            "PHOTON_DATACENTERS": DATACENTER,
            **{"PHOTON_CODE_HOST": HOST, "PHOTON_CODE_PORT": str(ports[1])},
            **{"PHOTON_UI_HOST": HOST, "PHOTON_UI_PORT": str(ports[2])},
        }
        for command in commands_of("photon-daemon", environment, "ExecStartPre"):
            subprocess.run(command, env={**os.environ, **environment}, check=True)
        for unit in UNITS:
            tree.start(program_of(unit, tmp_path, environment))
        writer.start()
        assert soon(lambda: lease_status_of(state).lease is not None, PATIENCE_SECONDS)
        shift_runs.set()
        wait_for_rows(file, DATACENTER, 20)
        killed = lease_of(pipeline, DATACENTER)
        os.kill(killed.process, signal.SIGKILL)
        assert soon(
            lambda: lease_status_of(state).is_locked and lease_of(pipeline, DATACENTER) != killed,
            PATIENCE_SECONDS,
        )
        with instance_of(home, environment) as instance:
            assert soon(
                lambda: instance.get_run_by_id(killed.run).status is DagsterRunStatus.FAILURE,
                PATIENCE_SECONDS,
            )
        replacing = lease_of(pipeline, DATACENTER)
        joined = open_table(pipeline.datacenters[DATACENTER].lake / "joined_events").count()
        server.stop()
        postgres_is_away.set()
        wait_for_rows(file, DATACENTER, joined + JOINED_WITHOUT_POSTGRES)
        assert lease_of(pipeline, DATACENTER) == replacing
        server.start()
        writer.join()
        assert soon(lambda: is_done(pipeline, DATACENTER), PATIENCE_SECONDS)
        with instance_of(home, environment) as instance:
            assert soon(lambda: are_over(statuses(instance)), PATIENCE_SECONDS)
            others = {run: status for run, status in statuses(instance).items() if run != killed.run}
            assert set(others.values()) == {DagsterRunStatus.SUCCESS}, said(instance)
        asked = DagsterGraphQLClient(HOST, ports[2]).get_run_status(killed.run)
        assert asked is DagsterRunStatus.FAILURE
        assert tree.ended() == {}

    assert soon(lambda: not marked(mark))
    measured = measured_in(state)
    assert measured is not None
    assert ("task_seconds", "join") in measured.measures.histograms  # measured in Spark's tasks
    counts = {DATACENTER: view_state(state, 0).counts.as_dict()}
    assert traffic.expected_outcomes().disagreements(counts) == []
    ids = joined_rows(file)["_event_id"].to_pylist()
    assert (len(ids), len(set(ids))) == (traffic.expected_outcomes().joined_total,) * 2


def statuses(instance: DagsterInstance) -> dict[str, DagsterRunStatus]:
    return {run.run_id: run.status for run in instance.get_runs()}


def said(instance: DagsterInstance) -> dict[str, list[str]]:
    """The last words of each run."""
    return {run.run_id: last_words(instance.all_logs(run.run_id)) for run in instance.get_runs()}
