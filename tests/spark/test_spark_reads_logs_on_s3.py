"""Spark joins, verifies and makes again what is in logs on S3, by a real MinIO."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import START_US, Traffic
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
from tests.spark.on_s3 import joined_on_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]

NOW_US = START_US + 86_400_000_000
DAY = datetime.fromtimestamp(START_US / 1e6, UTC).date()
ILLS = dict.fromkeys(("click_before_query", "copies_apart", "broken_line"), 3)


@pytest.fixture
def joined(tmp_path: Path, on_s3: S3Folder, session: Any) -> Iterator[Pipeline]:
    """A pipeline with its logs on S3."""
    yield joined_on_s3(tmp_path, on_s3, "logs", Traffic(29, ("east", "west"), 100, 20, 10, ILLS), session)
    close_registries()


@pytest.mark.long  # the next test ends with this, and test_lakes_on_s3.py reads kept results
def test_what_spark_has_joined_from_objects_is_verified_from_them(joined: Pipeline, session: Any) -> None:
    both = list(joined.datacenters)
    assert verify(joined, both, session=session, keep=True).ok
    again = verify(joined, both, session=session)  # reads the results that were kept
    assert again.ok
    assert not [finding for one in again.datacenters.values() for finding in one.findings]


def test_a_row_that_is_spoilt_is_found_and_made_again_from_objects(joined: Pipeline, session: Any) -> None:
    table = open_table(joined.datacenters["east"].lake / "joined_events")
    row = table.to_pyarrow_table().slice(0, 1)
    spoilt = row["_event_id"][0].as_py()
    new_values = {"url": "http://not.what/was/clicked"}
    table.update(predicate=f"_event_id = '{spoilt}'", new_values=new_values)
    found = verify(joined, list(joined.datacenters), session=session)
    assert [finding.kind for finding in found.datacenters["east"].findings] == ["different_values"]
    done = rebuild(joined, "east", utc_day(DAY), session=session)
    assert (done.tally.replaced, done.tally.kept) == (1, {})
    assert verify(joined, list(joined.datacenters), session=session).ok


def test_an_object_that_was_lost_from_one_copy_is_named(joined: Pipeline, session: Any) -> None:
    logs = joined.datacenters["west"].logs
    assert isinstance(logs, S3Folder)
    lost = next(each.name for each in S3Store(logs).objects("clicks"))
    S3Store(logs).remove(lost)
    found = verify(joined, list(joined.datacenters), session=session)
    assert lost in str(found.datacenters["west"])


def test_the_copies_of_logs_on_s3_are_compared_and_an_event_is_traced_to_its_object(
    joined: Pipeline, session: Any
) -> None:
    copies = compare(joined, list(joined.datacenters), NOW_US, keep=False, session=session)
    assert (copies.lacks, copies.problems) == ((), ())
    event = open_table(joined.datacenters["east"].lake / "joined_events").to_pyarrow_table()["_event_id"][0]
    told = trace(joined, event.as_py())
    assert [record.path.startswith("clicks/") for record in told.datacenters["west"].records] == [True]
