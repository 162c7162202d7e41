"""Dry runs of upkeep: they change nothing, and say what is done afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from photon.upkeep.clear import PROGRESS_FILE, clear_output
from photon.upkeep.gc_dry_run import would_gc
from photon.upkeep.pipeline_gc import BoundaryLimit, MayGo, run_gc

from photon.upkeep import gc_dry_run, pipeline_gc
from photon.upkeep.compact import compact_tables
from photon.upkeep.compact_dry_run import would_compact
from tests.simulation.world import NOON_US, World

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


def stored(world: World) -> dict[Any, Any]:
    return dict(world.store.items)


def test_a_clearing_says_what_it_would_clear(world: World) -> None:
    before = stored(world)
    would = clear_output(world.pipeline, "east", world.registry, dry_run=True)
    assert stored(world) == before
    assert not (world.state() / PROGRESS_FILE).exists()
    assert clear_output(world.pipeline, "east", world.registry) == would
    assert would.ids == BATCHES


def test_a_compaction_says_what_it_would_rewrite(world: World) -> None:
    compaction = world.pipeline.compaction.model_copy(update={"least_files": 2})
    pipeline = world.pipeline.model_copy(update={"compaction": compaction})
    before = files_of(world)
    would = would_compact(pipeline, "east", world.clock)
    assert files_of(world) == before
    assert compact_tables(pipeline, "east", world.clock) == would
    assert would["joined_events"].rows == BATCHES - 1, "the last batch stays, its plan may be open"


def test_a_gc_says_what_it_would_delete(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address: Any = replace(world.address, endpoints=("memory",))

    def may_go(*_: object) -> MayGo:
        register = world.registry.register.read()
        return MayGo(address, world.registry, register, BoundaryLimit(NOON_US + 1, "a test"), False)

    for module in (gc_dry_run, pipeline_gc):
        monkeypatch.setattr(module, "may_go", may_go)
    before = stored(world)
    said: list[str] = []
    would = would_gc(world.pipeline, world.clock, said.append)
    assert said[-1].startswith("looks for old ids: all of ")
    assert stored(world) == before
    done = run_gc(world.pipeline, world.clock)
    deleted = [one.deleted for one in done.endpoints.values()]
    assert [one.deleted for one in would.endpoints.values()] == deleted
    assert [one.items for one in deleted] == [BATCHES]
    assert would.boundary_us == done.boundary_us == NOON_US + 1
