"""A datacenter's whole process tree dies under load: Dagster, code server, shift, JVM, registry endpoint."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from dagster import DagsterRunStatus

from orchestration.demo.process_tree import MARK, ProcessTree
from orchestration.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from tests.e2e.outages.checker import rows_of
from tests.e2e.outages.test_outages import complete_and_check, wait_for_all_that_is_logged
from tests.e2e.outages.world import until, world
from tests.e2e.own_dagster import are_over, daemon, failures, is_done, lease_of, runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

SETTINGS = """
home: {takeover_delay: 1s}
recovery: {silent_after: 10s}
retry: {allowed_lateness: 1s}
shift: {idle: 5s}
tailing: {idle_after: 2s}
backfill: {first_look_days: 0}
"""


def kill_all(tree: ProcessTree) -> int:
    """kill -9 of all that a tree has started, whoever started it; how many there were."""
    killed = 0
    while found := [process for process in psutil.process_iter() if is_of(process, tree)]:
        for process in found:
            process.kill()
            killed += 1
        psutil.wait_procs(found)
    return killed


def is_of(process: psutil.Process, tree: ProcessTree) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == tree.mark
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_the_other_takes_everything_and_the_dead_one_comes_back_by_its_own_dagster(
    tmp_path: Path, mark: str
) -> None:
    traffic = Traffic(8, primary_per_second=50, foreign_per_second=20, duration_seconds=900)
    lake = tmp_path / "lake" / "west"
    with world(tmp_path, traffic, SETTINGS) as made:
        pipeline = load_pipeline(made.file)
        with ExitStack() as trees:

            def live(name: str) -> ProcessTree:
                tree = trees.enter_context(ProcessTree([pipeline.datacenters[name].state]))
                tree.start(daemon(tmp_path, made.file, name))
                return tree

            live("east")
            west = live("west")
            made.log_traffic()
            for name in made.datacenters:
                until(lambda name=name: rows_of(tmp_path / "lake" / name), f"rows of the {name}")
            killed = lease_of(pipeline, "west")
            assert kill_all(west) >= 4, "daemon, code server, shift, JVM"
            made.endpoints[1].kill()
            time.sleep(1.0)  # of traffic
            wait_for_all_that_is_logged(made)

            wests = len(rows_of(lake))
            made.endpoints[1].start()
            live("west")
            until(lambda: len(rows_of(lake)) > wests, "the west joins again")
            assert runs(tmp_path, "west")[killed.run] is DagsterRunStatus.FAILURE
            made.end_traffic()
            until(lambda: all(is_done(pipeline, name) for name in made.datacenters), "all is joined")
            until(lambda: all(are_over(runs(tmp_path, name)) for name in made.datacenters), "no run is left")
        assert failures(tmp_path, "east") == {}
        assert failures(tmp_path, "west").keys() == {killed.run}
        complete_and_check(made)
