"""A person launches assets from the graph, and sets what the run's configuration allows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster import AssetKey, DagsterInstance, JobDefinition
from dagster._config import ConfigType, ConfigTypeKind
from dagster._core.execution.api import create_execution_plan
from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.test.utils import execute_dagster_graphql

from photon.assets.logs import LOGS
from tests.orchestration.location import Location

PROJECT = Path(__file__).parents[2]
SETTINGS = """
owners: [ads@example.com, "team:clicks"]
links: {runbook: "https://wiki.example.com/clicks"}
registry: {keep_days: 30}
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return Location(tmp_path_factory.mktemp("clicks"), more=SETTINGS)


def settable(config_type: ConfigType, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The keys of a configuration that take a value."""
    fields: Mapping[str, Any] = getattr(config_type, "fields", {})
    for name, field in fields.items():
        yield from settable(field.config_type, (*path, name))
    if not fields and config_type.kind is not ConfigTypeKind.ANY:
        yield ".".join(path)


def settable_in(job: JobDefinition) -> set[str]:
    return set(settable(job.run_config_schema.config_type))


def test_a_runs_configuration_shows_what_a_person_may_set_and_nothing_else(location: Location) -> None:
    found = {
        job.name: {key.removeprefix(f"ops.{job.name}.config.") for key in settable_in(job)}
        for job in location.defs.get_repository_def().get_all_jobs()
        if job.name.startswith("clicks__")
    }
    days, gc, reshard = (
        f"ops.clicks__{name}.config." for name in ("daily_joins", "garbage_collection", "resharding")
    )
    assert {name: keys for name, keys in found.items() if keys} == {
        "clicks__gc": {f"{gc}dry_run"},
        "clicks__reshard": {f"{reshard}ledgers", f"{reshard}dry_run"},
        "clicks__compact": {"ops.clicks__compaction.config.dry_run"},
        "clicks__recover": {"ops.clicks__recovery.config.dry_run"},
        "clicks__hold": {"datacenter", "dry_run"},
        "clicks__resume": {"datacenter", "dry_run"},
        "clicks__retirement": {"datacenter", "lake_is_gone", "dry_run"},
        "clicks__acknowledgement": {"datacenter", "dry_run"},
        "clicks__days": {f"{days}do", f"{days}dry_run"},
    }


def defaults(config_type: ConfigType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The keys of a configuration that have a default, each with it."""
    fields: Mapping[str, Any] = getattr(config_type, "fields", {})
    for name, field in fields.items():
        if field.default_provided and not getattr(field.config_type, "fields", {}):
            yield name, field.default_value
        yield from defaults(field.config_type, (*path, name))


def test_every_run_does_what_its_job_is_called_unless_it_is_told_to_be_dry(location: Location) -> None:
    dry = {
        job.name: value
        for job in location.defs.get_repository_def().get_all_jobs()
        for name, value in defaults(job.run_config_schema.config_type)
        if name == "dry_run"
    }
    assert {"clicks__hold", "clicks__retirement", "clicks__days", "clicks__gc", "prune_run_history"} <= set(
        dry
    )
    assert set(dry.values()) == {False}


ENDPOINTS = "registry:\n  endpoints: [{url: 'http://a'}, {url: 'http://b'}, {url: 'http://c'}]\n"


@pytest.mark.parametrize(
    ("job", "datacenters", "more", "is_offered"),
    [
        ("repair", ("east", "west"), ENDPOINTS, True),
        ("repair", ("east", "west"), "", False),
        ("gc", ("east",), "registry: {keep_days: 30}\n", True),
        ("gc", ("east",), "", False),
        ("reshard", ("east", "west"), "", True),
        ("reshard", ("east",), ENDPOINTS, True),
        ("reshard", ("east",), "", False),
        ("reshard", ("east", "west"), "registry: {resharding: {policy: 'off'}}\n", False),
        ("retirement", ("east", "west"), "", True),
        ("retirement", ("east",), "", False),
    ],
)
def test_a_job_is_offered_only_where_it_can_work(
    tmp_path: Path, job: str, datacenters: tuple[str, ...], more: str, is_offered: bool
) -> None:
    location = Location(tmp_path, datacenters, more=more)
    repository = location.defs.get_repository_def()
    name = location.served.job_name(job)
    assert (name in {one.name for one in repository.get_all_jobs()}) == is_offered
    scheduled = {schedule.job_name for schedule in repository.schedule_defs}
    assert is_offered or name not in scheduled


LAUNCH = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) { __typename ... on PythonError { message } }
}
"""


def materializable(location: Location, group: str) -> Sequence[AssetKey]:
    """Return the assets that "Materialize all" of a group in the graph selects."""
    graph = location.defs.get_repository_def().asset_graph
    return [node.key for node in graph.asset_nodes if node.group_name == group and node.is_materializable]


@pytest.mark.parametrize("group", ["clicks", "clicks__upkeep"])
def test_no_asset_of_a_group_needs_a_configuration(location: Location, group: str) -> None:
    keys = materializable(location, group)
    assert keys
    job = location.defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=set(keys))
    assert create_execution_plan(job, run_config={}).step_keys_to_execute


@pytest.mark.slow
def test_materialize_all_of_the_data_launches_every_shift_and_then_the_days(
    location: Location, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ask as the UI does: partitions of several kinds are a backfill. Nobody here launches its runs."""
    monkeypatch.setenv("PHOTON_PIPELINES", str(location.file))
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    settings["run_launcher"] = {"module": "dagster._core.test_utils", "class": "MockedRunLauncher"}
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    keys = [{"path": list(key.path)} for key in materializable(location, "clicks")]
    target = ModuleTarget("photon.orchestration.definitions", None, str(PROJECT), "photon")
    with (
        DagsterInstance.from_config(str(home)) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        params = {"assetSelection": keys, "allPartitions": True}
        answer = execute_dagster_graphql(workspace.create_request_context(), LAUNCH, {"params": params})
        assert answer.data["launchPartitionBackfill"]["__typename"] == "LaunchBackfillSuccess", answer
        problems = [each for each in execute_backfill_iteration(workspace, logging.getLogger()) if each]
        assert problems == []
        launched = {(*sorted(key.path[-1] for key in run.asset_selection or ()), run.tags[PARTITION_NAME_TAG])
                    for run in instance.get_runs()}  # fmt: skip
    assert launched == {("joined_events", "east"), ("joined_events", "west")}


def test_observe_says_of_each_datacenter_how_much_of_its_logs_is_unread(
    location: Location, instance: DagsterInstance
) -> None:
    keys = [location.served.asset_key(log) for log in LOGS]
    job = location.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=keys)
    events = [
        event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()
    ]
    found = {event.asset_key: {name: one.value for name, one in event.metadata.items()} for event in events}
    assert set(found) == set(keys)
    for said in found.values():
        assert said["east_unread_bytes"] == said["east_bytes"] > 0
        assert said["west_unread_bytes"] == said["west_bytes"] > 0


def test_every_asset_names_its_owners_its_pipeline_and_where_to_look(location: Location) -> None:
    graph = location.defs.get_repository_def().asset_graph
    nodes = [node for node in graph.asset_nodes if node.key.path[0] == "clicks"]
    for node in nodes:
        assert list(node.owners) == ["ads@example.com", "team:clicks"]
        assert node.tags["photon/pipeline"] == "clicks"
        assert node.metadata["runbook"].value == "https://wiki.example.com/clicks"
        assert node.kinds
    of_code = [node for node in nodes if not node.is_external]
    for node in of_code:
        (reference,) = node.metadata["dagster/code_references"].code_references
        assert Path(reference.file_path).parent.name == "assets"
