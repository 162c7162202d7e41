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


# The queries are written once (docs/adr/0068): test_verify.py and others hold that both engines tell the same
# of each kind of finding. A story of how a row came to be needs one of them.
@pytest.fixture(
    scope="package",
    params=["alone", pytest.param("both", marks=[pytest.mark.spark, pytest.mark.slow, pytest.mark.long])],
)
def perhaps_session(request: pytest.FixtureRequest) -> Any:
    """Have a test run by the engine without Spark (None, seconds), or by both engines (the session)."""
    return None if request.param == "alone" else request.getfixturevalue("session")
