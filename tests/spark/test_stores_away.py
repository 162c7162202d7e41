"""A store that goes amid a verification: each engine says so, and calls no data file damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import Traffic
from photon.jobs.spark_errors import away
from photon.jobs.verification import verify
from photon.registry.opening import close_registries
from photon.storage.delta import LakeUnavailable
from tests.faulty_s3 import FaultyS3
from tests.spark.both_engines import verify_alone
from tests.spark.on_s3 import joined_on_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]


def by_spark(session: Any, *asked: Any) -> None:
    verify(*asked, session=session)


def by_itself(session: Any, *asked: Any) -> None:
    verify_alone(*asked)


@pytest.fixture
def hasty(session: Any) -> Iterator[Any]:
    """The session, where S3A tries once, and makes a client for each look."""
    settings = session.sparkContext._jsc.hadoopConfiguration()
    own = {"fs.s3.impl.disable.cache": "true", "fs.s3a.retry.limit": "0", "fs.s3a.attempts.maximum": "1"}
    for name, value in own.items():
        settings.set(name, value)
    yield session
    for name in own:
        settings.unset(name)


@pytest.mark.parametrize("engine", [by_spark, by_itself])
def test_a_store_that_goes_amid_a_verification_is_named_and_no_data_file_is_called_damaged(
    tmp_path: Path, faulty: FaultyS3, hasty: Any, engine: Callable[..., None]
) -> None:
    traffic = Traffic(23, ("east", "west"), 50, 20, duration_seconds=10)
    pipeline = joined_on_s3(tmp_path, faulty.url, "lake", traffic, hasty)
    try:
        faulty.meet("cut", among=lambda method, path: method == "GET" and ".parquet" in path)
        with pytest.raises(LakeUnavailable) as raised:
            engine(hasty, pipeline, ["east", "west"])
    finally:
        faulty.mend()
        close_registries()
    said = str(raised.value)
    assert "joined_events/" in said, said
    assert "Parquet" not in said
    assert "put it back" not in said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Caused by: java.lang.RuntimeException: s3a://b/1.parquet is not a Parquet file", ""),
        ("Caused by: java.io.FileNotFoundException: File file:/l/1.parquet does not exist", ""),
        (
            "Caused by: java.net.ConnectException: Connection refused\n\tat java.base/sun.nio",
            "Connection refused",
        ),
        (
            "photon.storage.store_errors.StoreUnavailable: s3://b/log: operation timed out, at http://s\n",
            "s3://b/log: operation timed out, at http://s",
        ),
        (
            "Caused by: java.io.FileNotFoundException: /l/1.parquet (Permission denied)",
            "/l/1.parquet (Permission denied)",
        ),
    ],
)
def test_why_a_store_does_not_answer_is_found_in_an_error_of_spark(said: str, why: str) -> None:
    assert away(f"Job aborted.\n{said}") == why
