"""Two datacenters join real logs exactly once, with Spark and without, through kill -9."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from photon.process.faults import FAULT_POINTS
from tests.e2e.photon_process import joined_rows, kill, photon, photon_json, running, wait_for_rows
from tests.e2e.real_logs import (
    RealExpectation,
    RealLogs,
    write_pipeline,
)

DATACENTERS = ("east", "west")
# Small batches, so that there are many of them to be killed in.
SMALL_BATCHES = "\nlimits: {batch_foreign: 128KiB}\n"


@pytest.fixture(scope="module")
def real_logs(tmp_path_factory: pytest.TempPathFactory) -> RealLogs:
    return RealLogs.open_or_make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def expectation(real_logs: RealLogs) -> RealExpectation:
    return real_logs.expectation()


def assert_counts(counts: dict[str, Any], logs: RealLogs) -> None:
    """Check that each datacenter has every record in one class, and both together each pair joined once."""
    assert sum(counts[name]["joined"] for name in DATACENTERS) == logs.joined
    for name in DATACENTERS:
        one = counts[name]
        assert one["foreign"] == logs.joined + logs.unjoinable
        assert one["joined"] + one["joined_elsewhere"] == logs.joined
        assert one["unjoinable"] == logs.unjoinable
        assert one["primary"] == logs.primary
        assert {one[key] for key in ("duplicates", "dead_letters", "skipped", "filtered", "pending")} == {0}


def assert_rows(pipeline: Path, expected: RealExpectation) -> None:
    """The joined values are those of a join that is not Photon's."""
    rows = joined_rows(pipeline).select(expected.joined.column_names).sort_by("event_id")
    assert rows.cast(pa.schema(expected.joined.schema)).equals(expected.joined)


@pytest.mark.spark
@pytest.mark.server
def test_two_datacenters_join_on_spark_once_though_a_worker_dies(
    real_logs: RealLogs, expectation: RealExpectation, tmp_path: Path
) -> None:
    pipeline = write_pipeline(tmp_path)
    real_logs.lay_out(tmp_path)
    died = tmp_path / "died"
    counts = photon_json("join", pipeline, "--complete", crash_at=f"task.after_candidates:1 {died}")
    assert died.exists()
    assert_counts(counts, real_logs)
    assert_rows(pipeline, expectation)


# tests/simulation/test_batches.py has a crash at each point, within one process.
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_kill_9_at_fault_points_changes_nothing_in_the_result(
    real_logs: RealLogs, expectation: RealExpectation, tmp_path: Path, every: int
) -> None:
    pipeline = write_pipeline(tmp_path, more=SMALL_BATCHES)
    real_logs.lay_out(tmp_path)
    # Points that only primary or only foreign ranges pass come while there are some.
    points = sorted(FAULT_POINTS, key=lambda name: (name != "task.after_index", not name.startswith("task.")))
    for point in points[::every]:
        # The second passing, so that each process also completes a batch, and recovers from the last.
        # Most closes ride with claims: one by itself comes at the end of a process; so does a release.
        passing = 1 if point.startswith(("close.", "release.")) else 2
        command = ("join", pipeline, "-d", "east", "--complete", "--engine", "local")
        ended = photon(*command, status=None, crash_at=f"{point}:{passing}")
        assert ended.returncode == -9, f"{point} was passed too seldom: {ended.stdout}{ended.stderr}"
    assert_counts(photon_json("join", pipeline, "--complete", "--engine", "local"), real_logs)
    assert_rows(pipeline, expectation)


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.long
def test_kill_9_under_spark_changes_nothing_in_the_result(
    real_logs: RealLogs, expectation: RealExpectation, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    pipeline = write_pipeline(tmp_path, more=SMALL_BATCHES)
    real_logs.lay_out(tmp_path)
    photon("registry", "init", pipeline)
    east = ("join", pipeline, "-d", "east", "--complete")
    for point in ("commit.before_main:5", "commit.after_main:3"):
        assert photon(*east, status=None, crash_at=point).returncode == -9
    for joined_so_far in (1, 2_000):
        with running(*east) as process:
            wait_for_rows(pipeline, "east", joined_so_far)
            time.sleep(chance.uniform(0.0, 1.5))
            kill(process)
    # A crash in a task ends a worker only; the task runs again, and the join goes on.
    crashed = [tmp_path / "east-crashed", tmp_path / "west-crashed"]
    photon(*east, crash_at=f"task.after_candidates:2 {crashed[0]}")
    west = photon_json(
        "join", pipeline, "-d", "west", "--complete", crash_at=f"task.after_rows_written:2 {crashed[1]}"
    )
    assert all(marker.exists() for marker in crashed)
    assert west["west"]["pending"] == 0
    assert_counts(photon_json("join", pipeline, "--complete", "--engine", "local"), real_logs)
    assert_rows(pipeline, expectation)
