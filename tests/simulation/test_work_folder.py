"""Index segments and waiting records lie in `datacenters.NAME.work`, also after the setting changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from photon.event_store.interface import index_folder
from photon.pipeline.location import Location
from photon.state.waiting import segments
from photon.storage.store import store_of
from tests.simulation.world import World

pytestmark = pytest.mark.usefixtures("copies")


def use(world: World, work: Location | None) -> None:
    """Change the setting."""
    east = world.pipeline.datacenters["east"].model_copy(update={"work": work})
    world.pipeline = world.pipeline.model_copy(update={"datacenters": {"east": east}})
    world.forget()


def files(work: Location) -> set[str]:
    return {*store_of(index_folder(work)).names(), *store_of(work / segments.FOLDER).names()}


def epoch(world: World) -> str:
    state = world.read_state()
    found = state.epoch
    state.close()
    assert found is not None
    return found


def wait_for_a_query(world: World) -> None:
    """A click waits, a query is indexed, and the click's log goes."""
    world.queries("q1")
    world.clicks(("c2", "q2"))
    world.join()
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").unlink()


def test_segments_and_waiting_records_lie_where_the_pipeline_says(world: World, folder: Location) -> None:
    use(world, folder)
    wait_for_a_query(world)
    assert {name.rpartition(".")[2] for name in files(folder / epoch(world))} == {
        "segment",
        "files",
        "records",
        "index",
    }
    assert not files(world.state())
    world.queries("q2", file="b.jsonl")
    world.clicks(("c1", "q1"), file="b.jsonl")
    world.join()
    assert world.joined_ids() == ["c1", "c2"]
    world.join()
    assert not list(store_of(folder / epoch(world) / segments.FOLDER).names())


def test_what_was_elsewhere_is_moved_by_the_next_start_and_nothing_is_lost(
    world: World, folder: Location
) -> None:
    wait_for_a_query(world)
    use(world, folder)
    world.join()
    assert not files(world.state())
    use(world, None)
    world.queries("q2", file="b.jsonl")
    world.clicks(("c1", "q1"), file="b.jsonl")
    world.join()
    assert not files(folder / epoch(world))
    assert world.joined_ids() == ["c1", "c2"]


def test_a_move_that_a_crash_has_ended_is_made_again(world: World, tmp_path: Path) -> None:
    wait_for_a_query(world)
    use(world, tmp_path / "shared")
    crashes = 0
    while world.join_with_a_crash(f"disk.before_write:{crashes + 1}"):
        crashes += 1
    assert crashes >= len(files(tmp_path / "shared" / epoch(world))) > 0
    world.queries("q2", file="b.jsonl")
    world.join()
    assert world.joined_ids() == ["c2"]


def test_a_new_epoch_removes_what_the_one_before_had(world: World, folder: Location) -> None:
    use(world, folder)
    wait_for_a_query(world)
    before = epoch(world)
    assert files(folder / before)
    shutil.rmtree(world.state())
    world.queries("q2", file="b.jsonl")
    world.join()
    assert epoch(world) != before
    assert files(folder / epoch(world))
    assert not files(folder / before)
