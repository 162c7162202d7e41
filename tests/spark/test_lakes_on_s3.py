"""Spark reads and repairs lakes on S3, by a real MinIO; one of them is a folder of the bucket of another."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from examples.demo.traffic import START_US, Traffic
from infra.servers.minio import MinioServer
from photon.jobs.backfill import rebuild
from photon.jobs.session import reach_lakes
from photon.jobs.verification import verify
from photon.pipeline.file import Pipeline
from photon.registry.opening import close_registries
from photon.storage.delta import open_table
from photon.verification.days import utc_day
from tests.spark.both_engines import verify_alone
from tests.spark.on_s3 import joined_on_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

DAY = datetime.fromtimestamp(START_US / 1e6, UTC).date()


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory, minio: MinioServer, session: Any) -> Iterator[Pipeline]:
    """A pipeline with its lakes on S3, which each test leaves as it was."""
    folder, traffic = tmp_path_factory.mktemp("joined"), Traffic(23, ("east", "west"), 100, 20, 10)
    yield joined_on_s3(folder, minio.url, "lake", traffic, session)
    close_registries()


def test_a_row_that_is_doubled_in_a_lake_on_s3_is_found_and_goes_by_a_rebuild(
    joined: Pipeline, session: Any
) -> None:
    both = list(joined.datacenters)
    whole = verify(joined, both, session=session, keep=True).datacenters["east"]
    table = open_table(joined.datacenters["east"].lake / "joined_events")
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.slice(0, 1), mode="append")
    found = verify(joined, both, session=session)
    assert [finding.kind for finding in found.datacenters["east"].findings] == ["duplicate_rows"]
    assert found.datacenters["east"].records_read < whole.records_read  # kept results save reading
    assert found.datacenters["east"].equation() == whole.equation()
    done = rebuild(joined, "east", utc_day(DAY), session=session)
    assert done.tally.dropped == {"second row": 1}
    assert verify_alone(joined, both).ok


def test_spark_reads_the_tables_as_they_are(joined: Pipeline, session: Any) -> None:
    reach_lakes(session, joined)
    folder = joined.datacenters["west"].lake / "joined_events"
    expected = open_table(folder).to_pyarrow_table(columns=["_event_id"])
    read = session.read.format("delta").load(str(folder)).select("_event_id").toArrow()
    assert sorted(read["_event_id"].to_pylist()) == sorted(expected["_event_id"].to_pylist())
    assert pa.types.is_string(read.schema.field("_event_id").type)
