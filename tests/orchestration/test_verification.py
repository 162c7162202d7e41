"""The asset `verification_report`, on Spark: a sound join passes all checks, each planted fault fails one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, ExecuteInProcessResult
from deltalake import DeltaTable, write_deltalake

from photon.dispatcher.shift.run import prepare, run_shift
from photon.registry.opening import close_registries
from photon.storage.tables import OutputTable
from photon.verification.stored_reports import newest
from tests.orchestration.location import Location

pytestmark = [
    pytest.mark.spark,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # A deprecated call of ours shows only when it is made.
    pytest.mark.filterwarnings("error::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory, shared_spark: None) -> Iterator[Location]:
    """Two datacenters whose logs are joined and declared complete."""
    made = Location(tmp_path_factory.mktemp("verified"))
    prepare(made.pipeline)
    with ThreadPoolExecutor(2) as pool:
        joins = [pool.submit(run_shift, made.pipeline, name, "complete") for name in made.served.datacenters]
        for join in joins:
            join.result()
    close_registries()
    yield made
    close_registries()


def verify(location: Location) -> ExecuteInProcessResult:
    job = location.defs.resolve_job_def(location.served.job_name("verification"))
    with DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(instance=instance, raise_on_error=False)


@pytest.fixture(scope="module")
def sound(location: Location) -> ExecuteInProcessResult:
    return verify(location)


@pytest.fixture(scope="module")
def planted(location: Location, sound: ExecuteInProcessResult) -> Iterator[ExecuteInProcessResult]:
    """Remove one row, double one, change one."""
    table = _fullest(location)
    version = table.version()
    removed, doubled, changed = sorted(table.to_pyarrow_table()["_event_id"].to_pylist())[:3]
    rows = table.to_pyarrow_table(filters=[("_event_id", "=", doubled)])
    table.delete(f"_event_id = '{removed}'")
    write_deltalake(table, rows, mode="append")
    table.update({"primary_text": "'forged'"}, predicate=f"_event_id = '{changed}'")
    yield verify(location)
    table.restore(version)


def _fullest(location: Location) -> DeltaTable:
    tables = [
        OutputTable(place.lake, "joined_events").load() for place in location.pipeline.datacenters.values()
    ]
    return max(tables, key=lambda table: table.to_pyarrow_table().num_rows)


def checks(result: ExecuteInProcessResult) -> dict[str, Any]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def test_a_sound_join_passes_every_check(sound: ExecuteInProcessResult) -> None:
    assert sound.success
    assert {name: check.passed for name, check in checks(sound).items()} == {
        "nothing_missing": True,
        "nothing_twice": True,
        "values_agree": True,
        "copies_agree": True,
        "readable_in_time": True,
    }


def test_each_check_has_its_section_of_the_runbook(sound: ExecuteInProcessResult) -> None:
    sections = {name: str(check.metadata["runbook"].value) for name, check in checks(sound).items()}
    assert all(text.startswith("- **Means**: ") for text in sections.values())
    assert len(set(sections.values())) == len(sections)


def test_the_materialization_has_the_equations_and_their_numbers(
    location: Location, sound: ExecuteInProcessResult
) -> None:
    (event,) = sound.get_asset_materialization_events()
    metadata = event.materialization.metadata
    expected = location.traffic.expected_outcomes()
    assert metadata["east_missing"].value == metadata["west_missing"].value == 0
    assert metadata["east_joined"].value + metadata["west_joined"].value == expected.joined_total
    assert metadata["rows"].value == expected.joined_total
    assert metadata["violations"].value == 0
    assert f"|foreign|{expected.foreign:,}|{expected.foreign:,}|" in str(metadata["equations"].value)


def test_the_report_is_stored_in_each_datacenter_under_its_run(
    location: Location, sound: ExecuteInProcessResult
) -> None:
    reports = newest(location.pipeline, location.served.datacenters)
    assert {name: (report.run, report.ok) for name, report in reports.items()} == {
        "east": (sound.run_id, True),
        "west": (sound.run_id, True),
    }
    assert all(report.adds_up and report.seconds > 0 for report in reports.values())


@pytest.mark.usefixtures("shared_spark")
def test_what_cannot_be_verified_fails_with_a_message_and_evaluates_no_check(tmp_path: Path) -> None:
    result = verify(Location(tmp_path))  # nobody has made its registry
    assert not result.success
    assert checks(result) == {}
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "If it is new, make it: photon join" in str(failure.step_failure_data.user_failure_data)
