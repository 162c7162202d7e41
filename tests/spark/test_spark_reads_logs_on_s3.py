"""Spark joins, verifies and makes again what is in logs on S3, by a real MinIO."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from examples.demo.traffic import START_US, Traffic
from infra.servers.minio import MinioServer
from photon.jobs.backfill import rebuild
from photon.jobs.log_copies import compare
from photon.jobs.verification import verify
from photon.pipeline.file import Pipeline
from photon.pipeline.location import S3Folder
from photon.registry.opening import close_registries
from photon.storage.delta import open_table
from photon.storage.s3 import S3Store
from photon.tracing.trace import trace
from photon.verification.days import utc_day
from tests.spark.both_engines import verify_alone
from tests.spark.on_s3 import joined_on_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

NOW_US = START_US + 86_400_000_000
DAY = datetime.fromtimestamp(START_US / 1e6, UTC).date()
ILLS = dict.fromkeys(("click_before_query", "copies_apart", "broken_line"), 3)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory, minio: MinioServer, session: Any) -> Iterator[Pipeline]:
    """A pipeline with its logs on S3, which each test leaves as it was."""
    folder, traffic = tmp_path_factory.mktemp("joined"), Traffic(29, ("east", "west"), 100, 20, 10, ILLS)
    yield joined_on_s3(folder, minio.url, "logs", traffic, session)
    close_registries()


def test_a_lost_object_and_a_spoilt_row_are_named_and_the_row_is_made_again_from_objects(
    joined: Pipeline, session: Any
) -> None:
    names, logs = list(joined.datacenters), joined.datacenters["west"].logs
    assert isinstance(logs, S3Folder)
    store = S3Store(logs)
    lost = next(each.name for each in store.objects("clicks"))
    kept = store.read(lost)
    store.remove(lost)
    table = open_table(joined.datacenters["east"].lake / "joined_events")
    spoilt = table.to_pyarrow_table()["_event_id"][0].as_py()
    new_values = {"url": "http://not.what/was/clicked"}
    table.update(predicate=f"_event_id = '{spoilt}'", new_values=new_values)
    found = verify(joined, names, session=session)
    assert [finding.kind for finding in found.datacenters["east"].findings] == ["different_values"]
    assert lost in str(found.datacenters["west"])
    store.create(lost, lambda sink: sink.write(kept))
    done = rebuild(joined, "east", utc_day(DAY), session=session)
    assert (done.tally.replaced, done.tally.kept) == (1, {})
    assert verify_alone(joined, names).ok


def test_the_copies_of_logs_on_s3_are_compared_and_an_event_is_traced_to_its_object(
    joined: Pipeline, session: Any
) -> None:
    copies = compare(joined, list(joined.datacenters), NOW_US, keep=False, session=session)
    assert (copies.lacks, copies.problems) == ((), ())
    event = open_table(joined.datacenters["east"].lake / "joined_events").to_pyarrow_table()["_event_id"][0]
    told = trace(joined, event.as_py())
    assert [record.path.startswith("clicks/") for record in told.datacenters["west"].records] == [True]
