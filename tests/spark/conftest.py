"""One Spark session for all tests of this folder: its start takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra.servers.minio import CREDENTIALS
from photon.registry.opening import close_registries


# The session ends with this folder: the folders after it start and stop sessions of their own.
@pytest.fixture(scope="package")
def session() -> Iterator[Any]:
    from photon.jobs.session import build_session, stop_session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():  # a JVM's tasks have the environment of its start
            patch.setenv(name, value)
        built = build_session("tests with Spark")
        yield built
        stop_session(built)
    close_registries()
