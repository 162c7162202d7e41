"""Spark reads and repairs lakes on S3, by a real MinIO; one of them is a folder of the bucket of another."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from bench.minio_server import MinioServer
from jobs.backfill import rebuild
from jobs.batch_job import SparkRunner
from jobs.session import reach_lakes
from jobs.verification import verify
from photon.dispatcher.retrying import Callbacks
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.open import close_registries
from photon.shift.run import prepare, run_shift
from photon.storage.tables import open_table
from photon.testing.traffic import START_US, Traffic
from photon.verification.days import utc_day
from tests.conftest import BUCKET

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(900)]

DAY = datetime.fromtimestamp(START_US / 1e6, UTC).date()


@pytest.fixture
def joined(tmp_path: Path, minio: MinioServer, session: Any) -> Iterator[Pipeline]:
    """A pipeline whose east has joined by Spark and whose west by itself, both into lakes on S3."""
    traffic = Traffic(23, ("east", "west"), 100, 20, duration_seconds=10)
    folder, storage = f"s3://{BUCKET}/Läden & Co/{tmp_path.name}", f"storage: {{endpoint_url: {minio.url}}}"
    places = {name: f"lake: {folder}/{name}, {storage}" for name in traffic.datacenters}
    file = traffic.write_pipeline(tmp_path, places=places)
    traffic.write_all(tmp_path)
    pipeline = load_pipeline(file)
    prepare(pipeline)
    told = Callbacks(on_wait=pytest.fail)
    east = run_shift(pipeline, "east", "complete", SparkRunner(lambda: session), callbacks=told)
    west = run_shift(pipeline, "west", "complete", "local", callbacks=told)
    rows = sum(done.counts.as_dict()["joined"] for done in (east, west))
    assert rows == traffic.expected_outcomes().joined_total
    yield pipeline
    close_registries()


def test_a_row_that_is_doubled_in_a_lake_on_s3_is_found_and_goes_by_a_rebuild(
    joined: Pipeline, session: Any
) -> None:
    both = list(joined.datacenters)
    table = open_table(joined.datacenters["east"].lake / "joined_events")
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.slice(0, 1), mode="append")
    found = verify(joined, both, session=session)
    assert [finding.kind for finding in found.datacenters["east"].findings] == ["duplicate_rows"]
    done = rebuild(joined, "east", utc_day(DAY), session=session)
    assert done.tally.dropped == {"doubled": 1}
    assert verify(joined, both, session=session).ok


def test_spark_reads_the_tables_as_they_are(joined: Pipeline, session: Any) -> None:
    reach_lakes(session, joined)
    folder = joined.datacenters["west"].lake / "joined_events"
    expected = open_table(folder).to_pyarrow_table(columns=["_event_id"])
    read = session.read.format("delta").load(str(folder)).select("_event_id").toArrow()
    assert sorted(read["_event_id"].to_pylist()) == sorted(expected["_event_id"].to_pylist())
    assert pa.types.is_string(read.schema.field("_event_id").type)
