"""Three pipelines of one location, on one registry and Spark: one is spoilt, the others join and verify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    DagsterInstance,
    Definitions,
    ExecuteInProcessResult,
    RunRequest,
    build_schedule_context,
    build_sensor_context,
)

from orchestration.definitions import build_defs
from orchestration.demo.traffic import Traffic
from orchestration.schedules import schedules_of
from orchestration.sensors import shift_sensor
from photon.process.clock import SystemClock
from photon.read import joined
from photon.registry.opening import close_registries, endpoints_of
from photon.registry.stores.directory import Directory
from photon.state.view import view_state
from resources.environment import LocationSettings, ServedPipeline, location_settings

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1_200)]

SETTINGS = """
adapter: adapter_of_{name}:join
shift: {{idle: 2s}}
retry: {{unjoinable_after: 2s, allowed_lateness: 1s}}
tailing: {{idle_after: 1s}}
verification: {{cron: "{minute} * * * *"}}
"""
ADAPTER = """
from photon.adapters import per_event

@per_event
def join(foreign, primary):
    return {{**foreign, "pipeline": "{name}"}}
"""
ADAPTERS = {
    "spoilt": "raise RuntimeError('this adapter was never finished')\n",
    "clicks": ADAPTER.format(name="clicks"),
    "views": ADAPTER.format(name="views"),
}
ILLS = {"click_before_query": 3, "click_twice_same_file": 3, "click_twice_other_file": 3}
TRAFFIC = Traffic(11, ("east",), 50, 10, duration_seconds=5, ills=ILLS)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, shared_spark: None) -> Iterator[LocationSettings]:
    """Three pipeline files in one folder, over the very same logs: the same ids in each."""
    folder = tmp_path_factory.mktemp("pipelines")
    TRAFFIC.write_all(folder)
    for minute, (name, adapter) in enumerate(ADAPTERS.items()):
        places = {"east": f"lake: lake/{name}/east, state: state/{name}/east"}
        text = TRAFFIC.pipeline_text(name, SETTINGS.format(name=name, minute=minute), places)
        (folder / f"{name}.yaml").write_text(text)
        (folder / f"adapter_of_{name}.py").write_text(adapter)
    files = ":".join(str(folder / f"{name}.yaml") for name in ADAPTERS)
    yield location_settings({"PHOTON_PIPELINES": files})
    close_registries()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterInstance]:
    with DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as made:
        yield made


@pytest.fixture(scope="module")
def shifts(settings: LocationSettings, instance: DagsterInstance) -> dict[str, ExecuteInProcessResult]:
    """What came of the run that each pipeline's sensor asks for, the spoilt one first."""
    defs, ended = build_defs(settings), dict[str, ExecuteInProcessResult]()
    for one in settings.served:
        context = build_sensor_context(instance, definitions=defs)
        (request,) = shift_sensor(one, "east").evaluate_tick(context).run_requests or []
        assert request.partition_key == "east"
        ended[one.name] = run(defs, one, "shift", instance, "east")
    return ended


def run(
    defs: Definitions, one: ServedPipeline, job: str, instance: DagsterInstance, partition: str | None = None
) -> ExecuteInProcessResult:
    found = defs.resolve_job_def(one.job_name(job))
    return found.execute_in_process(instance=instance, partition_key=partition, raise_on_error=False)


def good(settings: LocationSettings) -> list[ServedPipeline]:
    return [one for one in settings.served if one.name != "spoilt"]


def test_the_others_join_every_event_once_each_by_its_own_adapter(
    settings: LocationSettings, shifts: dict[str, ExecuteInProcessResult]
) -> None:
    for one in good(settings):
        assert shifts[one.name].success
        rows = joined(one.pipeline, retired=()).to_table(columns=["_event_id", "pipeline"])
        ids = rows["_event_id"].to_pylist()
        assert (len(ids), len(set(ids))) == (TRAFFIC.expected_outcomes().joined_total,) * 2
        assert set(rows["pipeline"].to_pylist()) == {one.name}, "another pipeline's adapter made a row"
        counts = view_state(one.pipeline.datacenters["east"].state, 0).counts
        assert counts.adds_up
        assert counts.of("joined_elsewhere") == 0, "an id of another pipeline counts"


def test_the_spoilt_one_says_why_and_has_made_nothing(
    settings: LocationSettings, shifts: dict[str, ExecuteInProcessResult]
) -> None:
    (one,) = (one for one in settings.served if one.name == "spoilt")
    assert not shifts["spoilt"].success
    (failure,) = (event for event in shifts["spoilt"].all_node_events if event.is_step_failure)
    said = str(failure.event_specific_data)
    assert "adapter: module adapter_of_spoilt raised RuntimeError: this adapter was never finished" in said
    place = one.pipeline.datacenters["east"]
    assert isinstance(place.lake, Path)
    assert not place.state.exists()
    assert not place.lake.exists()


def test_all_of_them_share_one_store_in_which_each_has_its_own_table(
    settings: LocationSettings, shifts: dict[str, ExecuteInProcessResult]
) -> None:
    stores = {endpoints_of(one.pipeline) for one in settings.served}
    ((endpoint,),) = stores
    directory = Directory(endpoint, SystemClock())
    tables = {name: directory.tables_of(name) for name in ADAPTERS}
    assert [len(tables[name]) for name in ADAPTERS] == [0, 1, 1]
    assert not set(tables["clicks"]) & set(tables["views"])


def test_their_schedules_have_them_verified_and_all_checks_pass(
    settings: LocationSettings, shifts: dict[str, ExecuteInProcessResult], instance: DagsterInstance
) -> None:
    defs = build_defs(settings)
    for one in good(settings):
        (schedule,) = (each for each in schedules_of(one) if "verification" in each.name)
        asked = schedule.evaluate_tick(build_schedule_context(instance)).run_requests or []
        assert [type(each) for each in asked] == [RunRequest]
        verified = run(defs, one, "verification", instance)
        assert verified.success
        failed = [check for check in verified.get_asset_check_evaluations() if not check.passed]
        assert failed == []
