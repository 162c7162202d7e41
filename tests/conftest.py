"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

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
