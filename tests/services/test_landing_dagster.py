"""A real broker, landing under a real Dagster, and the shift behind it; both are killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus

from examples.demo.dagster_stack import answers, stack_in
from examples.demo.folder import held_folder
from examples.demo.process_tree import ProcessTree
from infra.servers.kafka import KafkaBroker
from photon.dispatcher.shift.lease import Lease, lease_status_of
from photon.landing.marker import landing_lease
from photon.pipeline.file import load_pipeline
from photon.read import joined
from tests.e2e.process_marks import soon
from tests.services.landed_topics import LandedTopics, ids

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 240.0


def joined_ids(file: Path) -> list[str]:
    """The ids of the rows; none before there is a table."""
    with suppress(Exception):
        return sorted(joined(file).to_table(columns=["_event_id"])["_event_id"].to_pylist())
    return []


def taken_after(folder: Path, killed: int) -> bool:
    """Whether another process has the lease of a folder."""
    status = lease_status_of(folder)
    return status.is_locked and status.lease is not None and status.lease.process != killed


def lease_in(folder: Path) -> Lease:
    lease = lease_status_of(folder).lease
    assert lease is not None
    return lease


def test_topics_are_landed_and_joined_under_dagster_though_landing_and_the_shift_are_killed(
    tmp_path: Path,
) -> None:
    with (
        KafkaBroker(tmp_path / "kafka") as broker,
        held_folder(tmp_path / "dagster") as demo,
        pytest.MonkeyPatch.context() as patch,
    ):
        topics = LandedTopics(tmp_path, broker, "dagster")
        with topics.file.open("a") as file:
            file.write("tailing: {idle_after: 2s}\n")
        pipeline = load_pipeline(topics.file)
        landing, state = landing_lease(pipeline, "east"), pipeline.datacenters["east"].state
        stack = replace(stack_in(demo, 0), pipelines=(topics.file,))
        with ProcessTree([state, landing]) as tree:
            stack.prepare()
            tree.start(stack.code_server())
            assert soon(lambda: answers(stack.code_port), PATIENCE_SECONDS)
            tree.start(stack.daemon())
            topics.send(range(500))
            assert soon(lambda: joined_ids(topics.file) == ids(range(500)), PATIENCE_SECONDS)
            killed = lease_in(landing), lease_in(state)
            for lease in killed:
                os.kill(lease.process, signal.SIGKILL)
            topics.send(range(500, 1_000))
            assert soon(lambda: taken_after(landing, killed[0].process), PATIENCE_SECONDS)
            topics.send(range(1_000, 1_500))
            assert soon(lambda: joined_ids(topics.file) == ids(range(1_500)), PATIENCE_SECONDS)
            patch.setenv("DAGSTER_HOME", str(demo.dagster_home))
            with DagsterInstance.from_config(str(demo.dagster_home)) as instance:
                for lease in killed:
                    run = instance.get_run_by_id(lease.run)
                    assert run is not None
                    assert run.status is DagsterRunStatus.FAILURE
    assert len(topics.lines("clicks")) == len(topics.lines("queries")) == 1_500
