"""Releases that joins make read the same through real rebuilds of their days, killed at any point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from photon import read
from photon.process.faults import BACKFILL_FAULT_POINTS
from photon.upkeep.compact import plan_compaction
from tests.simulation.rebuilding import rebuild, rebuild_with_a_crash, set_adapter
from tests.simulation.world import World

LOUD = """
from photon.adapters import per_event

@per_event
def adapter(foreign, primary):
    if foreign["click"] == "c3":
        return None
    return {"click": foreign["click"], "primary_text": primary["text"].upper()}
"""


def joined_world(folder: Path) -> World:
    """Eight clicks of one datacenter in four batches, and a release after each."""
    world = World(folder, ("east",))
    world.queries("q0", "q1", "q2")
    for first in range(0, 8, 2):
        world.clicks(*((f"c{number}", f"q{number % 3}") for number in (first, first + 1)))
        world.join()
    return world


def texts(world: World, number: int) -> dict[str, Any]:
    found = read.joined(world.pipeline, release=number).to_table(columns=["_event_id", "primary_text"])
    assert len(set(found["_event_id"].to_pylist())) == len(found)
    return dict(zip(found["_event_id"].to_pylist(), found["primary_text"].to_pylist(), strict=True))


def all_texts(world: World) -> dict[int, dict[str, Any]]:
    return {one.number: texts(world, one.number) for one in read.releases(world.pipeline)}


@pytest.mark.parametrize("point", ["rebuild.after_listed:2", "rebuild.after_commit"])
def test_older_releases_read_the_same_though_a_rebuild_is_killed_and_run_again(
    tmp_path: Path, point: str
) -> None:
    releases_stay_through_a_killed_rebuild(tmp_path, point)


@pytest.mark.long
@pytest.mark.parametrize("point", BACKFILL_FAULT_POINTS[1:])
def test_they_read_the_same_wherever_it_is_killed(tmp_path: Path, point: str) -> None:
    releases_stay_through_a_killed_rebuild(tmp_path, point)


def releases_stay_through_a_killed_rebuild(folder: Path, point: str) -> None:
    world = joined_world(folder)
    before = all_texts(world)
    assert [len(rows) for rows in before.values()] == [2, 4, 6, 8]
    set_adapter(world, f"loud_{point.replace('.', '_').replace(':', '_')}", LOUD)
    assert rebuild_with_a_crash(world, point)
    assert all_texts(world) == before
    plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    rebuild(world)
    plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    world.clicks(("late", "q0"))
    world.join()
    after = all_texts(world)
    assert {number: after[number] for number in before} == before
    newest = after[max(after)]
    assert newest.keys() == {"c0", "c1", "c2", "c4", "c5", "c6", "c7", "late"}
    assert newest["c4"] == "TEXT OF Q1"
    assert [note.change for note in read.releases(world.pipeline)[-1].notes] == ["rebuilt"]


def test_rows_that_somebody_deletes_before_a_rebuild_are_named_beside_it(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    DeltaTable(str(world.table().folder)).delete("_event_id = 'c0'")
    set_adapter(world, "loud_after_a_delete", LOUD)
    rebuild(world)
    world.clicks(("late", "q0"))
    world.join()
    notes = {note.change: note.says for note in read.releases(world.pipeline)[-1].notes}
    assert notes.keys() == {"rebuilt", "changed by others"}
    assert "DELETE" in notes["changed by others"]
