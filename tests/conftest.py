"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from bench.minio_server import CREDENTIALS, MinioServer, has_minio, minio_server

BUCKET = "photon"  # of the tests' MinIO

# A slow example says that the machine is busy, and nothing about the product.
settings.register_profile("photon", deadline=None)
settings.load_profile("photon")


@pytest.fixture(scope="module")
def shared_spark() -> Iterator[None]:
    """A module's runs share a Spark session: a start takes longer than most of what they ask of it."""
    import jobs.session

    started: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for user in ("jobs.verification", "resources.spark"):
            patch.setattr(f"{user}.stop_session", started.append)
        yield
    if started:
        jobs.session.stop_session(started[0])


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    """A MinIO with a bucket, whose credentials are in the environment."""
    if not has_minio():
        pytest.skip("there is no MinIO on this machine: make minio")
    folder = tmp_path_factory.mktemp("minio")
    with minio_server(folder, [BUCKET]) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield server
