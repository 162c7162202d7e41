"""What the documents tell readers to type for lakes on S3, typed as it stands there, against a real MinIO."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from infra.servers.minio import MinioServer
from photon.dispatcher.shift.run import prepare, run_shift
from photon.jobs.session import JVM_OPTIONS, class_archive
from photon.pipeline.file import load_pipeline
from photon.registry.opening import close_registries
from tests.conftest import BUCKET
from tests.documents import blocks

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

SNIPPETS = [block.text for block in blocks("docs/own-logs.md") if block.section == "Engines on S3"]
KEYS, *_ = SNIPPETS  # which all but Spark's begin with
# How many rows each has read.
ENGINES = {"pyarrow": "num_rows", "polars": "height", "duckdb": "shape[0]", "pyspark": "count()"}
DOCUMENTED = "http://127.0.0.1:9000"


TRAFFIC = Traffic(23, ("east", "west"), 50, 20, duration_seconds=10)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory, minio: MinioServer) -> Path:
    """The folder of a pipeline that is joined, with its lakes on S3."""
    folder = tmp_path_factory.mktemp("engines")
    lake, storage = f"s3://{BUCKET}/{folder.name}", f"storage: {{endpoint_url: {minio.url}}}"
    places = {name: f"logs: logs/{name}, lake: {lake}/{name}, {storage}" for name in TRAFFIC.datacenters}
    pipeline = load_pipeline(TRAFFIC.write_pipeline(folder, places=places))
    TRAFFIC.write_all(folder)
    prepare(pipeline)
    for name in TRAFFIC.datacenters:
        run_shift(pipeline, name, "complete")
    close_registries()
    return folder


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_all_rows_by_the_snippet_of_the_document(
    joined: Path, minio: MinioServer, engine: str
) -> None:
    (snippet,) = (each for each in SNIPPETS if f"import {engine} as" in each or f"{engine}.sql" in each)
    text = snippet if engine == "pyspark" else KEYS + snippet
    assert DOCUMENTED in text
    program = text.replace(DOCUMENTED, minio.url) + f"\nprint('rows:', rows.{ENGINES[engine]})"
    # As Photon's own sessions: else a JVM that compiles all, and 50 tasks for each small table, took minutes.
    options = " ".join((*JVM_OPTIONS, f"-XX:SharedArchiveFile={class_archive()}"))
    few = "--conf spark.databricks.delta.snapshotPartitions=1 --conf spark.sql.shuffle.partitions=4"
    submit = f"--driver-java-options '{options}' {few} pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=joined, env=environment, stdout=-1, stderr=-1, text=True
    )
    assert f"rows: {TRAFFIC.expected_outcomes().joined_total}" in done.stdout, done.stderr
