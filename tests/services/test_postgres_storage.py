"""Dagster's storage on PostgreSQL serves pruning, a tick, a backup, and processes that start at once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    materialize,
)

from infra.servers.postgres import Postgres
from infra.servers.process import free_steady_port
from photon.assets.run_history import DAY_US, prune_history
from photon.process.clock import SystemClock
from tests.orchestration.location import Location, launched
from tests.services.postgres import postgres
from tests.services.production import commands_of, home_in, instance_of

pytestmark = pytest.mark.services

JOINED = AssetKey("joined")
LATER_US = SystemClock().now_us() + 4 * DAY_US  # then everything that runs here ended long ago


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(free_steady_port()) as server:
        yield server


@pytest.fixture
def environment(server: Postgres, request: pytest.FixtureRequest) -> dict[str, str]:
    return server.database(request.node.name[:60])


@pytest.fixture
def instance(environment: dict[str, str], tmp_path: Path) -> Iterator[DagsterInstance]:
    with instance_of(home_in(tmp_path), environment) as opened:
        yield opened


@asset(key=JOINED, partitions_def=StaticPartitionsDefinition(["east", "west"]))
def joined() -> MaterializeResult[None]:
    return MaterializeResult(metadata={"rows": 1})


def run_once(instance: DagsterInstance, partition: str) -> str:
    return materialize([joined], instance=instance, partition_key=partition).run_id


def test_old_runs_go_with_their_events_but_the_newest_materialization_of_each_partition(
    instance: DagsterInstance,
) -> None:
    old, east, west = (run_once(instance, partition) for partition in ("east", "east", "west"))
    assert prune_history(instance, LATER_US, 3.0, print) == 2
    assert {run.run_id for run in instance.get_runs()} == {west}
    assert instance.all_logs(old) == []
    assert instance.all_logs(east) != []  # the materialization, by which the partition is known as made
    assert instance.get_materialized_partitions(JOINED) == {"east", "west"}


def test_a_tick_marks_the_run_of_a_process_that_is_gone_and_launches_another(
    instance: DagsterInstance, tmp_path: Path
) -> None:
    location = Location(tmp_path, ("east",), instance=instance)
    run = location.run()
    with location.holder(run):
        before = location.tick()
    assert launched(before) == []
    assert launched(location.tick(cursor=before.cursor)) == ["east"]
    killed = instance.get_run_by_id(run)
    assert killed is not None
    assert killed.status is DagsterRunStatus.FAILURE


def test_a_backup_that_is_put_back_has_the_runs_of_then(server: Postgres, tmp_path: Path) -> None:
    environment, home = server.database("backed_up"), home_in(tmp_path)
    with instance_of(home, environment) as instance:
        before = run_once(instance, "east")
        server.back_up("backed_up")
        run_once(instance, "west")
    server.put_back("backed_up")
    with instance_of(home, environment) as instance:
        assert [run.run_id for run in instance.get_runs()] == [before]
        assert instance.get_materialized_partitions(JOINED) == {"east"}


def test_processes_that_start_at_once_find_the_tables_that_the_daemons_first_command_made(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Of several that make them at once one may fail: Dagster tries again after one kind of error alone."""
    home = home_in(tmp_path)
    for command in commands_of("photon-daemon", environment, "ExecStartPre"):
        subprocess.run(command, env={**os.environ, **environment, "DAGSTER_HOME": str(home)}, check=True)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(count_runs, [(str(home), environment)] * 3) == [0, 0, 0]


def count_runs(home: str, environment: dict[str, str]) -> int:
    os.environ.update(environment, DAGSTER_HOME=home)
    with DagsterInstance.from_config(home) as instance:
        return len(instance.get_runs())
