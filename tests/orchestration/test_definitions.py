"""The code location serves what definitions.json lists, so that no change of it goes unseen.

After a change on purpose, renew the file and look at its diff:

    .venv/bin/python -m tests.orchestration.test_definitions
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    DailyPartitionsDefinition,
    Definitions,
    FreshnessPolicy,
    HourlyPartitionsDefinition,
    MultiPartitionsDefinition,
    PartitionsDefinition,
)
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from examples.demo.traffic import Traffic
from photon.assets.attributes import ROLE_TAG, ROLES, WITHOUT_CHECKS
from photon.orchestration.code_location import build_defs
from photon.resources.environment import LocationSettings, location_settings
from photon.storage.columns import BATCH_TABLES, TABLE_COLUMNS

SNAPSHOT = Path(__file__).with_name("definitions.json")
PROJECT = Path(__file__).parents[2]


# With these every asset and every job can work.
EVERYTHING = """\
registry: {keep_days: 30, endpoints: [{url: http://a}, {url: http://b}, {url: http://c}]}
unmatched: {}
"""
LAND = 'land: [{kafka: {servers: "k:9092", topic: clicks}, into: clicks}]'


def served(folder: Path, **more: str) -> LocationSettings:
    """The settings of a location that serves a pipeline of two datacenters."""
    file = Traffic(1).write_pipeline(folder / "search-clicks", "search-clicks", EVERYTHING, {"east": LAND})
    file.write_text(file.read_text().replace("/**/", "/*/"))
    return location_settings({"PHOTON_PIPELINES": str(file), **more})


def test_what_has_no_checks_leads_to_those_that_tell_of_it(tmp_path: Path) -> None:
    graph = build_defs(served(tmp_path)).get_repository_def().asset_graph
    for node in (graph.get(key) for key in graph.get_all_asset_keys()):
        leads = [word for word in (node.description or "").split("](/assets/") if "?view=checks" in word]
        name = node.key.path[-1]
        told = [AssetKey(one.partition("?")[0].split("/")).path[-1] for one in leads]
        assert told == (["health", "verification_report"] if ROLES.get(name) in WITHOUT_CHECKS else []), name
        assert {AssetKey(one.partition("?")[0].split("/")) for one in leads} <= {*graph.get_all_asset_keys()}


def partitions(of: PartitionsDefinition[Any] | None) -> Any:
    """Return the keys of partitions; for days and hours, which become more, their definition."""
    if isinstance(of, MultiPartitionsDefinition):
        return {dimension.name: partitions(dimension.partitions_def) for dimension in of.partitions_defs}
    if isinstance(of, (DailyPartitionsDefinition, HourlyPartitionsDefinition)):
        return str(of)
    return list(of.get_partition_keys()) if of else None


def stale(policy: FreshnessPolicy | None) -> Any:
    """Return the hours after which a freshness policy warns and fails."""
    if not isinstance(policy, TimeWindowFreshnessPolicy) or policy.warn_window is None:
        return None
    return [window.to_timedelta() / timedelta(hours=1) for window in (policy.warn_window, policy.fail_window)]


def snapshot(defs: Definitions) -> dict[str, Any]:
    """Return those properties of definitions that matter to their users."""
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    return {
        "assets": {
            node.key.to_user_string(): {
                "description": node.description,
                "group": node.group_name,
                "external": node.is_external,
                "partitions": partitions(node.partitions_def),
                "parents": sorted(key.to_user_string() for key in node.parent_keys),
                "kinds": sorted(node.kinds or ()),
                "stale": stale(node.freshness_policy),
                "checks": sorted(check.name for check in node.check_keys),
            }
            for node in graph.asset_nodes
        },
        "jobs": {
            job.name: {"description": job.description, "executor": job.executor_def.name}
            for job in repository.get_all_jobs()
        },
        "sensors": {
            sensor.name: {
                "description": sensor.description,
                "seconds": sensor.minimum_interval_seconds,
                "status": sensor.default_status.value,
                "jobs": sorted(target.job_name for target in sensor.targets),
            }
            for sensor in repository.sensor_defs
        },
        "schedules": {
            schedule.name: {
                "description": schedule.description,
                "cron": schedule.cron_schedule,
                "timezone": schedule.execution_timezone,
                "status": schedule.default_status.value,
                "job": schedule.job_name,
            }
            for schedule in repository.schedule_defs
        },
        "resources": sorted(defs.resources or ()),
    }


def as_text(defs: Definitions, folder: Path) -> str:
    """Return the snapshot as it is stored, without the place of the pipeline file."""
    return json.dumps(snapshot(defs), indent=2, sort_keys=True).replace(f"{folder}/", "") + "\n"


def test_the_definitions_are_those_of_the_snapshot(tmp_path: Path) -> None:
    found = as_text(build_defs(served(tmp_path)), tmp_path)
    expected = SNAPSHOT.read_text()
    if found != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), found.splitlines(), "stored", "found", lineterm=""
        )
        message = ["definitions.json differs; how to renew it is in this test's module:", *lines]
        pytest.fail("\n".join(message), pytrace=False)


def test_a_location_of_one_datacenter_knows_no_other(tmp_path: Path) -> None:
    found = snapshot(build_defs(served(tmp_path, PHOTON_DATACENTERS="west")))
    of_datacenters = [name for name in found["sensors"] if name.count("__") == 2]
    assert sorted(of_datacenters) == ["search_clicks__west__closed_days", "search_clicks__west__sensor"]
    assert found["assets"]["search_clicks/joined_events"]["partitions"] == ["west"]


def test_a_table_says_where_each_datacenter_has_it_and_what_its_columns_mean(tmp_path: Path) -> None:
    graph = build_defs(served(tmp_path)).get_repository_def().asset_graph
    for name in BATCH_TABLES:
        metadata = graph.get(AssetKey(["search_clicks", name])).metadata
        columns = metadata["dagster/column_schema"].value.columns
        assert [column.name for column in columns] == TABLE_COLUMNS[name].names
        assert all(column.description for column in columns)
        assert metadata["west_table"] == str(tmp_path / "search-clicks" / "lake" / "west" / name)


def test_a_log_says_which_columns_the_pipeline_file_names_and_what_for(tmp_path: Path) -> None:
    graph = build_defs(served(tmp_path)).get_repository_def().asset_graph
    schema = graph.get(AssetKey(["search_clicks", "foreign_log"])).metadata["dagster/column_schema"].value
    assert {column.name: column.description for column in schema.columns} == {
        "click_id": "identifies the event",
        "query_id": "names the primary event",
        "time": "when the event was, in iso8601",
    }


def test_every_asset_of_a_pipeline_is_found_by_its_role(tmp_path: Path) -> None:
    graph = build_defs(served(tmp_path)).get_repository_def().asset_graph
    roles = {
        node.key.path[-1]: node.tags.get(ROLE_TAG)
        for node in graph.asset_nodes
        if node.key.path[0] == "search_clicks"
    }
    assert roles == ROLES


def test_what_lies_on_s3_says_so(tmp_path: Path) -> None:
    file = Traffic(1).write_pipeline(tmp_path, "clicks")
    text = file.read_text()
    for name in ("east", "west"):
        text = text.replace(f"logs: logs/{name}", f"logs: s3://logs/{name}, lake: s3://lakes/{name}")
    file.write_text(text)
    found = snapshot(build_defs(location_settings({"PHOTON_PIPELINES": str(file)})))["assets"]
    assert found["clicks/primary_log"]["kinds"] == ["json", "s3"]
    assert found["clicks/joined_events"]["kinds"] == ["deltalake", "pyspark", "s3"]
    assert found["clicks/unjoined"]["kinds"] == ["deltalake", "s3"]


def test_a_location_may_serve_nothing() -> None:
    assert list(snapshot(build_defs(LocationSettings()))["sensors"]) == ["pipeline_files"]


def location_process(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, whose environment names a pipeline."""
    file = Traffic(1).write_pipeline(folder)
    environ = {**os.environ, "PHOTON_PIPELINES": str(file), "DAGSTER_HOME": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=PROJECT, check=False)


def test_loading_the_location_warns_of_nothing(tmp_path: Path) -> None:
    load = "from photon.orchestration.definitions import defs; defs.get_repository_def()"
    done = location_process(tmp_path, sys.executable, "-W", "error", "-c", load)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_dagster_finds_nothing_wrong_with_the_definitions(tmp_path: Path) -> None:
    done = location_process(tmp_path, str(Path(sys.executable).with_name("dg")), "check", "defs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All definitions loaded successfully" in done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        SNAPSHOT.write_text(as_text(build_defs(served(folder)), folder))
