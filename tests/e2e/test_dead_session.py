"""A Spark session whose JVM is killed under a join: the datacenter builds another one and goes on (A17)."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JError

from photon.join.messages import BatchTasks, RunnerDied
from tests.e2e.one_query import log_clicks, one_query
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, running, wait_for_rows


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
def test_a_datacenter_whose_spark_is_killed_goes_on_in_another_session(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, "c0")
    with running("join", pipeline, "-d", "east") as joining:
        wait_for_rows(pipeline, "east", at_least=1)
        (jvm,) = (each for each in psutil.Process(joining.pid).children() if each.name() == "java")
        os.kill(jvm.pid, signal.SIGKILL)
        log_clicks(pipeline, "c1", "c2", "c3")
        wait_for_rows(pipeline, "east", at_least=4)
        joining.send_signal(signal.SIGTERM)
        _, said = joining.communicate(timeout=PATIENCE_SECONDS)
        assert joining.returncode == 0
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == ["c0", "c1", "c2", "c3"]
    assert said.count("Spark's process has ended") == 1


@pytest.mark.spark
@pytest.mark.slow
def test_an_error_that_says_nothing_of_the_dying_jvm_is_its_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    from photon.jobs.batch_job import SparkRunner
    from photon.jobs.session import build_session

    runner = SparkRunner(lambda: build_session("dying"))
    session = SparkSession.getActiveSession()
    assert session is not None
    jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]

    def fails_first(*_: Any) -> Any:
        threading.Timer(0.5, jvm.kill).start()
        raise Py4JError("PythonRDD does not exist in the JVM")

    monkeypatch.setattr(session.sparkContext, "parallelize", fails_first)
    with pytest.raises(RunnerDied):
        runner.run(BatchTasks(context=None, join_tasks=(object(),)))  # type: ignore[arg-type]
    runner.warm_up()  # works in the next session
    runner.close()
