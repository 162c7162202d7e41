"""A dry run of a compaction changes nothing, and says what is done afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.upkeep.compact import plan_compaction
from tests.simulation.world import World

BATCHES = 4


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Some batches, whose rows lie in a file each."""
    world = World(tmp_path)
    for number in range(BATCHES):
        world.queries(f"q{number}")
        world.clicks((f"c{number}", f"q{number}"))
        world.join()
    return world


def files_of(world: World) -> set[str]:
    lake = Path(str(world.pipeline.datacenters["east"].lake))
    return {str(path) for path in lake.rglob("*") if path.is_file()}


def test_a_compaction_says_what_it_would_rewrite(world: World) -> None:
    before = files_of(world)
    would = plan_compaction(world.pipeline, "east", world.clock, least_files=2).expected
    assert files_of(world) == before
    assert plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply() == would
    assert would["joined_events"].rows == BATCHES - 1, "the last batch stays, its plan may be open"
