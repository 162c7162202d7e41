"""A release is made of commits that are on disk, and so is its copy: a power cut takes nothing back."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.process.faults import arm, disarm
from photon.releases import copies
from photon.storage.tables import OutputTable
from tests.simulation.test_power_cuts import some_of_each, synced_paths, unsynced, written
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def lake_of(world: World) -> Path:
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    return lake


def test_all_rows_of_a_release_are_on_disk_before_it_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[Path]] = []
    with synced_paths(monkeypatch) as synced:
        arm("release.before_offer", crash=lambda: found.append(unsynced(lake_of(world), synced)))
        some_of_each(world, 1)
        world.join(mode="complete")
        disarm()
    assert found == [[]]


def test_a_cut_that_is_made_before_its_commit_is_synced_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OutputTable, "sync", lambda table: None)
    with pytest.raises(AssertionError):
        test_all_rows_of_a_release_are_on_disk_before_it_is_made(world, monkeypatch)


def test_a_copy_of_a_release_is_on_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with synced_paths(monkeypatch) as synced:
        some_of_each(world, 1)
        world.join(mode="complete")
    folder = lake_of(world) / copies.FOLDER
    (copy,) = folder.iterdir()
    assert folder in synced
    assert written(copy, synced) == copy.stat().st_size
