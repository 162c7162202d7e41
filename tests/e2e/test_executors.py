"""A driver and the executors of a real standalone cluster: whether there are any, and whose fault that is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.servers.spark_cluster import SparkCluster, spark_cluster
from photon.jobs.executors import NO_WORKER, Executors
from photon.jobs.session import SOON_GIVEN_UP, build_session, stop_session
from photon.join.messages import NoExecutor

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
PATIENCE_SECONDS = 120.0
SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.pyspark.python": sys.executable, **SOON_GIVEN_UP}


@contextmanager
def executors_of(cluster: SparkCluster) -> Iterator[Executors]:
    """Those of a new session, which has one."""
    session = build_session("executors", cluster.master.spark_url, SETTINGS)
    try:
        found = Executors.of(session, are_missed=False)
        assert found is not None
        until(lambda: found.are_there)
        yield found
    finally:
        stop_session(session)


def until(is_so: Callable[[], bool]) -> float:
    """How many seconds it took until this was so."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < PATIENCE_SECONDS
        time.sleep(0.1)  # the cluster is real: there is no clock to inject
    return time.monotonic() - began


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path / "cluster", workers=1) as cluster:
        yield cluster


def test_a_driver_that_its_master_knows_waits_for_a_worker_and_has_its_executor_in_the_same_session(
    cluster: SparkCluster,
) -> None:
    with executors_of(cluster) as executors:
        cluster.workers[0].kill()
        until(lambda: executors.are_gone)
        with pytest.raises(NoExecutor, match=NO_WORKER[:30]):
            executors.refuse()
        cluster.add_worker()
        until(lambda: executors.are_there)


def test_a_driver_whose_master_is_away_says_so_and_one_that_it_forgot_needs_another_session(
    cluster: SparkCluster,
) -> None:
    with executors_of(cluster) as executors:
        cluster.workers[0].kill()
        cluster.master.kill()
        until(lambda: executors.are_gone)
        with pytest.raises(NoExecutor, match="does not answer"):
            executors.refuse()
        cluster.master.start()
        executors.refuse()


def test_a_worker_that_lost_its_power_is_missed_within_twenty_seconds(cluster: SparkCluster) -> None:
    with executors_of(cluster) as executors:
        cluster.workers[0].stand_still()
        assert until(lambda: executors.are_gone) < 20
