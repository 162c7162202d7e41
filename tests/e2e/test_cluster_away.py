"""A Spark cluster whose master and workers die: the join says so, and goes on once they are back."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from infra.servers.spark_cluster import SparkCluster, spark_cluster
from photon.dispatcher.shift.lease import NO_EXECUTOR
from photon.health.facts import look
from photon.health.judge import in_checks, judge
from photon.health.memory import Memory
from photon.health.verdict import Verdict
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from tests.e2e.one_query import log_clicks, one_query
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    line_with,
    photon,
    running,
    status_with,
    wait_for_rows,
)
from tests.e2e.test_cluster import settings

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
TOLD_SECONDS = 30.0


def works(pipeline: Path, until: str) -> tuple[Verdict, float]:
    """The check `works` of east as a watcher looks each second, and when it had this level, in seconds."""
    memory, began = Memory(), time.monotonic()
    while (took := time.monotonic() - began) < PATIENCE_SECONDS:
        facts = look(load_pipeline(pipeline), "east", SystemClock().now_us())
        found, memory = judge(facts, memory, load_pipeline(pipeline))
        verdict = in_checks(found, facts, memory, load_pipeline(pipeline))["works"]
        if verdict.level == until and not verdict.is_unsure:
            return verdict, took
        time.sleep(1)  # the cluster is real: there is no clock to inject
    raise AssertionError(f"works never was {until}: {verdict.text}")


def test_a_join_whose_master_and_worker_die_says_so_and_goes_on_once_they_are_back(tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "cluster", workers=1) as cluster:
        pipeline = one_query(tmp_path, "c0", more=settings(cluster, batch_events=1_000))
        with running("join", pipeline, "-d", "east") as joining:
            wait_for_rows(pipeline, "east", at_least=1)
            cluster.workers[0].kill()
            cluster.master.kill()
            log_clicks(pipeline, "c1", "c2", "c3")
            red, took_seconds = works(pipeline, "error")
            print(f"works is red after {took_seconds:.0f} s")
            assert NO_EXECUTOR in red.says
            said = status_with("east WAITS for", pipeline)
            assert f"{NO_EXECUTOR}: its master {cluster.master.spark_url} does not answer" in said
            assert said.splitlines()[0].startswith("1 of 1 datacenter needs somebody")
            cluster.master.start()
            cluster.add_worker()
            wait_for_rows(pipeline, "east", at_least=4)
            works(pipeline, "ok")
            joining.send_signal(signal.SIGTERM)
            _, errors = joining.communicate(timeout=PATIENCE_SECONDS)
    assert joining.returncode == 0, errors
    assert "Py4JJavaError" not in errors
    assert f"east: waits: {NO_EXECUTOR}" in errors
    assert "east: goes on after" in errors
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == ["c0", "c1", "c2", "c3"]


def test_a_join_that_starts_while_its_master_is_away_waits_for_it(tmp_path: Path) -> None:
    cluster = SparkCluster(tmp_path / "cluster")
    pipeline = one_query(tmp_path, "c0", more=settings(cluster, batch_events=1_000))
    try:
        with running("join", pipeline, "-d", "east", "--until-idle") as joining:
            red, _ = works(pipeline, "error")
            assert f"its master {cluster.master.spark_url} does not answer" in red.says
            assert joining.poll() is None
            cluster.master.start()
            cluster.add_worker()
            _, errors = joining.communicate(timeout=PATIENCE_SECONDS)
    finally:
        for worker in cluster.workers:
            worker.kill()
        cluster.master.kill()
    assert joining.returncode == 0, errors
    assert joined_rows(pipeline)["click"].to_pylist() == ["c0"]


def test_a_rebuild_whose_last_executor_goes_says_within_30_s_that_it_waits_and_goes_on_with_another_one(
    tmp_path: Path,
) -> None:
    with spark_cluster(tmp_path / "cluster", workers=1) as cluster:
        pipeline = one_query(tmp_path, "c0", "c1", more=settings(cluster, batch_events=1_000))
        photon("join", pipeline, "--complete", "--engine", "local")
        words = ("backfill", pipeline, "-d", "east", "--day", "1970-01-01", "--rebuild", "--json")
        with running(*words) as started:
            line_with("starting Spark", started)
            cluster.workers[0].kill()
            cluster.master.kill()
            began = time.monotonic()
            said = line_with("waits: ", started)
            assert NO_EXECUTOR in said or "Spark has no session" in said, "its session may be on its way"
            assert time.monotonic() - began < TOLD_SECONDS
            cluster.master.start()
            cluster.add_worker()
            printed, errors = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 0, errors
    assert json.loads(printed)
