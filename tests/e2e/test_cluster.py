"""A Spark cluster whose workers see nothing of the driver's folders: joins, verification, a rebuild."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pytest

from examples.demo.traffic import Traffic
from infra.servers.minio import CREDENTIALS, MinioServer
from infra.servers.spark_cluster import SparkCluster, can_hide, spark_cluster
from infra.servers.stores import fastest_kind, store_servers
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from tests.conftest import BUCKET
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    line_with,
    photon,
    photon_json,
    running,
    wait_for_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(1800)]
NEEDS_ROOT = pytest.mark.skipif(
    not can_hide(), reason="only root may hide folders from a process (unshare --mount)"
)

ILLS = dict.fromkeys(("click_before_query", "copies_apart", "click_twice_other_file", "broken_line"), 5)
# Tells of each row whether its task saw the folder of the pipeline, and where Photon's code came from.
ADAPTER = """
from pathlib import Path

import pyarrow as pa

import photon
from photon.adapters import Adapter


class TellsWhere(Adapter):
    def combine(self, foreign, primary):
        rows = super().combine(foreign, primary)
        places = {{"saw_folder": str(Path({folder!r}).joinpath("pipeline.yaml").exists())}}
        places["code"] = "sent" if ".zip/" in photon.__file__ else "installed"
        for name, text in places.items():
            rows = rows.append_column(name, pa.array([text] * len(rows), pa.string()))
        return rows
"""


def settings(cluster: SparkCluster, batch_events: int) -> str:
    """The lines of a pipeline file by which small batches run on the cluster."""
    return (
        f"limits: {{batch_events: {batch_events}}}\n"
        f"spark:\n  master: {cluster.master.spark_url}\n"
        f"  settings: {{spark.driver.host: 127.0.0.1, spark.pyspark.python: {sys.executable}}}\n"
    )


def own_code() -> list[Path]:
    """The folders of Photon's code on this machine, which is that of the driver."""
    here = Path(__file__).parents[2]
    asked = [sys.executable, "-c", "import photon; print(*photon.__path__)"]
    installed = subprocess.run(asked, cwd="/", env={}, capture_output=True, text=True, check=True).stdout
    both = {here, *(Path(each).parent for each in installed.split())}
    return [root / name for root in sorted(both) for name in ("photon", "jobs", "tests", "bench")]


@pytest.fixture
def cluster(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, minio: MinioServer
) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder, workers=2, hidden=[tmp_path, *own_code()], **CREDENTIALS) as cluster:
        yield cluster


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(7, ("east", "west"), 200, 50, duration_seconds=60, ills=ILLS)


@pytest.fixture
def pipeline(tmp_path: Path, traffic: Traffic, minio: MinioServer, cluster: SparkCluster) -> Iterator[Path]:
    """A pipeline with logs, lakes and waiting records on S3, and a registry that all machines reach."""
    storage = f"storage: {{endpoint_url: {minio.url}}}"
    folder = f"s3://{BUCKET}/{tmp_path.name}"
    places = {
        name: f"logs: {folder}/logs/{name}, lake: {folder}/lake/{name}, {storage}"
        for name in traffic.datacenters
    }
    with store_servers(fastest_kind(), tmp_path / "registry", 1) as (server,):
        more = (
            f"registry: {{endpoints: [{{url: {server.url}}}]}}\nadapter: tells_where:TellsWhere\n"
        ) + settings(cluster, batch_events=200)
        made = traffic.write_pipeline(tmp_path, more=more, places=places)
        (tmp_path / "tells_where.py").write_text(ADAPTER.format(folder=str(tmp_path)))
        pipeline = load_pipeline(made)
        traffic.write_all(tmp_path, {name: place.logs for name, place in pipeline.datacenters.items()})
        init_registry(pipeline, SystemClock())
        close_registries()
        yield made


@pytest.mark.slow
def test_two_workers_join_every_event_once_and_one_of_them_dies(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Needs neither MinIO nor root: all see one disk, as of a shared file system."""
    traffic = Traffic(7, ("east", "west"), 200, 50, duration_seconds=15)
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder, workers=2, hidden=own_code() if can_hide() else ()) as cluster:
        made = traffic.write_pipeline(
            tmp_path, more="adapter: tells_where:TellsWhere\n" + settings(cluster, batch_events=1_500)
        )
        (tmp_path / "tells_where.py").write_text(ADAPTER.format(folder=str(tmp_path)))
        traffic.write_all(tmp_path)
        with running("join", made, "-d", "east", "--complete") as east:
            wait_for_rows(made, "east", 1)
            cluster.workers[0].kill()
            _, errors = east.communicate(timeout=PATIENCE_SECONDS)
        assert east.returncode == 0, errors
    counts = photon_json("join", made, "--complete", "--engine", "local")
    assert traffic.expected_outcomes().disagreements(counts) == []
    rows = joined_rows(made)
    ids = rows["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == traffic.expected_outcomes().joined_total
    assert pc.unique(rows["code"]).to_pylist() == (["sent"] if can_hide() else ["installed"])


@pytest.mark.long
@NEEDS_ROOT
def test_machines_that_come_and_die_leave_every_event_once(
    pipeline: Path, traffic: Traffic, cluster: SparkCluster
) -> None:
    with running("join", pipeline, "-d", "east", "--complete") as east:
        wait_for_rows(pipeline, "east", 1)
        cluster.workers[0].kill()
        cluster.add_worker()
        _, errors = east.communicate(timeout=PATIENCE_SECONDS)
        assert east.returncode == 0, errors
    photon("join", pipeline, "-d", "west", "--complete")
    counts = photon_json("join", pipeline, "--complete", "--engine", "local")
    assert traffic.expected_outcomes().disagreements(counts) == []
    rows = joined_rows(pipeline)
    ids = rows["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == traffic.expected_outcomes().joined_total
    assert pc.unique(rows["saw_folder"]).to_pylist() == ["False"]
    assert pc.unique(rows["code"]).to_pylist() == ["sent"]


@pytest.mark.long
@NEEDS_ROOT
def test_verification_and_a_rebuild_run_where_tasks_see_no_folder_of_the_driver_and_a_worker_may_die(
    pipeline: Path, traffic: Traffic, cluster: SparkCluster
) -> None:
    for name in traffic.datacenters:
        photon("join", pipeline, "-d", name, "--complete")
    with running("verify", pipeline, "--record", "--json") as verifying:
        line_with("looking for the primary events", verifying)
        cluster.workers[0].kill()
        printed, _ = verifying.communicate(timeout=PATIENCE_SECONDS)
    # Each row says whether its task saw the folder: a join made now on this machine would differ.
    report = json.loads(printed)
    assert verifying.returncode == 0, report
    assert report["rows"] == joined_rows(pipeline).num_rows
    day = datetime.fromtimestamp(joined_rows(pipeline)["_event_time"][0].as_py().timestamp(), UTC).date()
    rebuilt = photon_json("backfill", pipeline, "-d", "east", "--day", str(day), "--rebuild")
    assert rebuilt["tally"]["rows"] == rebuilt["tally"]["same"] > 0
