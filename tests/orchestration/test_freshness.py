"""Photon's limits of freshness become limits that Dagster takes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from photon.assets.attributes import freshness
from photon.pipeline.sections import Durations

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("warn", "error", "windows"),
    [
        (HOUR, 2 * HOUR, (HOUR, 2 * HOUR)),
        (2 * HOUR, 2 * HOUR, (None, 2 * HOUR)),
        (HOUR / 3_600, HOUR / 3_600, (None, timedelta(minutes=1))),
    ],
)
def test_limits_that_dagster_refuses_become_ones_that_it_takes(
    warn: timedelta, error: timedelta, windows: tuple[timedelta | None, timedelta]
) -> None:
    policy = freshness(Durations(warn=warn, error=error))
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    warns = policy.warn_window.to_timedelta() if policy.warn_window else None
    assert (warns, policy.fail_window.to_timedelta()) == windows
