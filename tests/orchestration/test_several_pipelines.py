"""Several pipelines in one code location: one that is spoilt is told, and the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetKey,
    AssetSelection,
    DagsterInstance,
    build_sensor_context,
    define_asset_job,
)
from dagster._core.definitions.sensor_definition import SensorExecutionData

from examples.demo.traffic import Traffic
from photon.assets.pipeline_files import check_key
from photon.orchestration.code_location import build_defs
from photon.orchestration.sensors import pipeline_files_sensor, shift_sensor
from photon.pipeline.file import PipelineError
from photon.resources.environment import LocationSettings, location_settings

NAMES = ("clicks", "views", "orders")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three pipelines with logs, as the environment names them."""
    traffic = Traffic(1, ("east",), duration_seconds=1)
    made = {name: traffic.write_pipeline(tmp_path / name, name) for name in NAMES}
    for name in NAMES:
        traffic.write_all(tmp_path / name)
    monkeypatch.setenv("PHOTON_PIPELINES", ":".join(map(str, made.values())))
    return made


@pytest.fixture
def settings(files: dict[str, Path]) -> LocationSettings:
    """Return the settings as they were when the location was loaded."""
    return location_settings()


def spoil(file: Path) -> None:
    file.write_text(file.read_text() + "flavour: sweet\n")


def mend(file: Path) -> None:
    file.write_text(file.read_text().removesuffix("flavour: sweet\n"))


def tick(settings: LocationSettings, instance: DagsterInstance) -> SensorExecutionData:
    """A tick, whose evaluations are stored as Dagster's daemon does it."""
    context = build_sensor_context(instance, definitions=build_defs(settings))
    done = pipeline_files_sensor(settings).evaluate_tick(context)
    for event in done.asset_events:
        instance.report_runless_asset_event(event)
    return done


def said_by(tick: SensorExecutionData) -> dict[str, tuple[bool, str]]:
    """The checks that a tick evaluates, by file: whether they pass, and what they say."""
    found = [event for event in tick.asset_events if isinstance(event, AssetCheckEvaluation)]
    return {event.asset_key.path[-1]: (event.passed, event.description or "") for event in found}


def shifts_asked_for(settings: LocationSettings, instance: DagsterInstance, name: str) -> list[str | None]:
    (served,) = (one for one in settings.served if one.name == name)
    context = build_sensor_context(instance, definitions=build_defs(settings))
    found = shift_sensor(served, "east").evaluate_tick(context)
    return [request.partition_key for request in found.run_requests or []]


def test_that_all_are_served_is_told_once(settings: LocationSettings, instance: DagsterInstance) -> None:
    assert said_by(tick(settings, instance)) == dict.fromkeys(NAMES, (True, "It is served."))
    assert said_by(tick(settings, instance)) == {}


def test_a_file_that_is_spoilt_at_the_start_is_left_out_and_told_until_it_is_mended(
    files: dict[str, Path], instance: DagsterInstance
) -> None:
    spoil(files["views"])
    settings = location_settings()
    repository = build_defs(settings).get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs()}
    assert {"clicks__shift", "orders__shift"} <= jobs
    assert "views__shift" not in jobs
    assert AssetKey(["pipeline_files", "views"]) in repository.asset_graph.get_all_asset_keys()
    passed, said = said_by(tick(settings, instance))["views"]
    assert not passed
    assert f"{files['views']} is not served: mend the file" in said
    assert "flavour: unknown key" in said
    mend(files["views"])
    mended = f"{files['views']} is right now, and not served yet: reload the code location"
    assert said_by(tick(settings, instance)) == {"views": (False, mended)}
    assert said_by(tick(location_settings(), instance)) == {"views": (True, "It is served.")}


def test_a_file_that_names_another_datacenter_is_red_until_the_location_is_loaded_again(
    files: dict[str, Path], settings: LocationSettings, instance: DagsterInstance
) -> None:
    """Broken variant: the check says that it is served, and nobody learns why the datacenter has no shift."""
    Traffic(1, ("east", "west"), duration_seconds=1).write_pipeline(files["views"].parent, "views")
    other = f"{files['views']} has other datacenters than are served: reload the code location"
    assert said_by(tick(settings, instance))["views"] == (False, other)
    assert said_by(tick(location_settings(), instance)) == {"views": (True, "It is served.")}


def test_the_only_file_is_an_asset_with_an_error_while_it_cannot_be_read(
    files: dict[str, Path], instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOTON_PIPELINES", str(files["views"]))
    files["views"].unlink()
    settings = location_settings()
    graph = build_defs(settings).get_repository_def().asset_graph
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {"pipeline_files/views"}
    (event,) = tick(settings, instance).asset_events
    assert isinstance(event, AssetCheckEvaluation)
    assert (event.passed, event.severity) == (False, AssetCheckSeverity.ERROR)
    assert "cannot be read" in (event.description or "")


def test_the_check_of_a_file_that_is_red_by_hand_is_green_at_the_next_tick_once_it_is_mended(
    files: dict[str, Path], settings: LocationSettings, instance: DagsterInstance
) -> None:
    tick(settings, instance)
    spoil(files["views"])
    selection = AssetSelection.checks(check_key("views"), check_key("clicks"))
    job = define_asset_job("checks", selection).resolve(
        asset_graph=build_defs(settings).resolve_asset_graph()
    )
    done = job.execute_in_process(instance=instance)
    found = {one.asset_key.path[-1]: one.passed for one in done.get_asset_check_evaluations()}
    assert found == {"views": False, "clicks": True}
    mend(files["views"])
    assert said_by(tick(settings, instance)) == {"views": (True, "It is served.")}


def test_a_file_that_is_spoilt_later_fails_its_own_ticks_alone(
    files: dict[str, Path], settings: LocationSettings, instance: DagsterInstance
) -> None:
    spoil(files["views"])
    with pytest.raises(PipelineError, match="flavour: unknown key"):
        shifts_asked_for(settings, instance, "views")
    for name in ("clicks", "orders"):
        assert shifts_asked_for(settings, instance, name) == ["east"]
    passed, said = said_by(tick(settings, instance))["views"]
    assert not passed
    assert str(files["views"]) in said


def test_a_run_of_another_pipeline_loads_its_location_beside_one_that_takes_its_name(
    files: dict[str, Path], settings: LocationSettings, instance: DagsterInstance
) -> None:
    files["orders"].write_text(files["orders"].read_text().replace("name: orders", "name: clicks"))
    served = location_settings()
    assert [one.name for one in served.served] == ["clicks", "views"]
    passed, said = said_by(tick(settings, instance))["orders"]
    assert not passed
    assert f"{files['orders']} is not served: names have to differ" in said
