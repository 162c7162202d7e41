"""`photon trace` where tables can't be read: what it tells all the same, and that nobody knows the rest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from photon.cli.trace import trace_text
from photon.storage.delta import LOG_FOLDER
from photon.tracing.report import Trace
from photon.upkeep.backfill.messages import REMOVED
from tests.simulation import failing_adapter
from tests.simulation.rebuilding import rebuild
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """West has joined c1; both datacenters have its record."""
    made = World(tmp_path, ("east", "west"), f"adapter: {failing_adapter.NAME}:join")
    made.everywhere("c1")
    made.join("west")
    return made


def table(world: World, name: str = "joined_events") -> Path:
    folder = world.pipeline.datacenters["west"].lake / name
    assert isinstance(folder, Path)
    return folder


def data_file(folder: Path) -> Path:
    (found,) = folder.glob("**/*.parquet")
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def assert_not_known(found: Trace, why: str) -> None:
    assert found.verdict.startswith("Not known whether it is joined, for the joined events of west can't be")
    assert why in found.verdict
    assert "no row" not in found.verdict
    assert "photon recover" not in found.what_to_do
    assert any(problem.startswith("datacenter west: ") and why in problem for problem in found.problems)


@pytest.mark.parametrize(("damage", "why"), [(cut, "can't be read: "), (Path.unlink, "is gone")])
def test_a_row_in_a_data_file_that_can_not_be_read_is_not_known(
    world: World, damage: Callable[[Path], None], why: str
) -> None:
    file = data_file(table(world))
    damage(file)
    found = world.trace("c1")
    assert_not_known(found, f"its data file {file} {why}")
    assert f"put {file} back from a copy of the lake" in found.what_to_do


def test_a_row_in_a_sound_file_is_told_beside_a_damaged_one(world: World) -> None:
    first = data_file(table(world))
    world.clicks(("c2", "q1"), datacenter="west")
    world.join("west")
    cut(first)
    found = world.trace("c2")
    assert found.verdict.startswith("Joined by datacenter west")
    assert found.what_to_do == ""
    assert f"NOT ASKED datacenter west: its data file {first} can't be read" in trace_text(found)


def test_a_table_with_a_damaged_log_is_not_known_to_have_no_row(world: World) -> None:
    log = table(world) / LOG_FOLDER
    cut(max(log.glob("*.json")))
    found = world.trace("c1")
    assert_not_known(found, "cannot read the table")
    assert f"put {log} back from a copy of the lake" in found.what_to_do


def test_a_lake_that_is_not_there_is_not_known_to_have_no_row(world: World) -> None:
    lake = world.pipeline.datacenters["west"].lake
    shutil.rmtree(lake)
    found = world.trace("c1")
    assert_not_known(found, f"no table joined_events in {lake}")
    assert f"put the lake folder {lake} back" in found.what_to_do


def test_a_datacenter_that_the_pipeline_file_lacks_may_have_the_row(world: World) -> None:
    east = {"east": world.pipeline.datacenters["east"]}
    world.pipeline = world.pipeline.model_copy(update={"datacenters": east})
    found = world.trace("c1")
    assert_not_known(found, f"{world.pipeline.file} does not name it")
    assert "put datacenter west back into the pipeline file" in found.what_to_do


def test_a_free_id_has_no_row_in_a_table_that_can_not_be_read(world: World) -> None:
    cut(data_file(table(world)))
    world.clicks(("c2", "q1"), datacenter="east")
    found = world.trace("c2")
    assert found.verdict.startswith("Not joined. east: it is in the log, not yet read, for")


def test_damaged_records_of_a_rebuild_do_not_keep_the_rest_from_being_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clicks(("c2", "q1"), datacenter="west")
    world.join("west")
    monkeypatch.setattr(failing_adapter, "drops", ["c2"])
    rebuild(world, datacenter="west")
    cut(data_file(table(world, REMOVED)))
    found = world.trace("c1")
    assert found.verdict.startswith("Joined by datacenter west")
    assert any("west: what rebuilds removed: " in problem for problem in found.problems)
