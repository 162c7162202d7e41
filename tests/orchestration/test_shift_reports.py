"""A shift reports in its run's events and on its last materialization.

The tests run the asset itself on an instance of Dagster; tasks in this process replace Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, AssetRecordsFilter, DagsterInstance

from photon.join.tasks import LocalRunner
from photon.registry.opening import close_registries
from tests.orchestration.location import Location

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

SETTINGS = """
shift: {idle: 1s}
retry: {allowed_lateness: 0s}
tailing: {idle_after: 1s}
home: {takeover_delay: 0s}
"""
JOINED = AssetKey(["clicks", "joined_events"])


class WithoutSpark(LocalRunner):
    """Takes the place of the runner on Spark."""

    def __init__(self, session: Callable[[], Any], workers: int) -> None:
        super().__init__()

    def warm_up(self) -> None:
        """Nothing is cold."""


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.setattr("photon.assets.joined_events.SparkRunner", WithoutSpark)
    yield Location(tmp_path, datacenters=("east",), more=SETTINGS)
    close_registries()


def edit(location: Location, old: str, new: str) -> None:
    """Edit the pipeline file, as a person does; each run reads it anew."""
    text = location.file.read_text()
    assert old in text
    location.file.write_text(text.replace(old, new))


def shift(location: Location) -> tuple[list[str], dict[str, Any]]:
    """Run a shift; return the warnings among its events, and its last materialization's metadata."""
    with DagsterInstance.ephemeral() as instance:
        job = location.defs.resolve_job_def(location.job)
        result = job.execute_in_process(instance=instance, partition_key="east", raise_on_error=False)
        assert result.success
        events = instance.all_logs(result.run_id)
        (last,) = instance.fetch_materializations(AssetRecordsFilter(JOINED), limit=1).records
    assert last.asset_materialization is not None
    metadata = last.asset_materialization.metadata
    return (
        [event.user_message for event in events if event.level == logging.WARNING],
        {name: value.value for name, value in metadata.items()},
    )


def test_a_shift_that_joins_warns_of_nothing(location: Location) -> None:
    warnings, last = shift(location)
    assert warnings == []
    assert "needs_you" not in last


def test_a_shift_that_nobody_can_have_meant_says_so_once_in_its_run_and_on_the_asset(
    location: Location,
) -> None:
    edit(location, "time_unit: iso8601", "time_format: '%d/%m/%Y'")
    warnings, last = shift(location)
    (warning,) = [each for each in warnings if each.startswith("nobody can have meant this")]
    for said in (warning, last["needs_you"]):
        assert "lines are dead letters" in said
        assert f"photon dead-letters {location.file}" in said
