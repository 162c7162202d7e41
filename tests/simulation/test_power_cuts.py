"""A batch's files in the lake are on disk before its state is completed (protocol A18)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from photon.process.faults import arm, disarm
from photon.state.waiting import segments
from photon.storage.sync import UNFINISHED
from tests.simulation.world import World

TABLES = ("joined_events", "dead_letters", "unjoined")


@contextmanager
def synced_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, int]]:
    """Paths that were synced, each with its size or, for a folder, how many names it had then."""
    seen: dict[Path, int] = {}
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        seen[path] = _extent(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", note)
        yield seen


def _extent(path: Path) -> int:
    return len(os.listdir(path)) if path.is_dir() else path.stat().st_size


def unsynced(lake: Path, synced: dict[Path, int]) -> list[Path]:
    """List the paths of a lake's tables that a power cut could take."""
    there = [lake, *(path for name in TABLES for path in ((lake / name), *(lake / name).rglob("*")))]
    return [path for path in there if synced.get(path) != _extent(path)]


def some_of_each(world: World, number: int) -> None:
    world.queries(f"q{number}")
    world.log("east", "clicks", {"click": f"c{number}", "query": f"q{number}", f"new{number}": 1, "at": 1})
    world.clicks((f"orphan{number}", "nowhere"))
    world.log("east", "clicks", "{broken\n")


@pytest.fixture
def checked(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Path]]]:
    """Note the paths that were not on disk whenever a batch was about to be completed."""
    found: list[list[Path]] = []
    lake = world.pipeline.datacenters["east"].lake
    with synced_paths(monkeypatch) as synced:
        arm("commit.after_main", crash=lambda: found.append(unsynced(lake, synced)))
        try:
            yield found
        finally:
            disarm()


def test_all_that_a_batch_committed_is_on_disk_before_it_is_completed(
    world: World, checked: list[list[Path]]
) -> None:
    some_of_each(world, 1)
    world.join(mode="complete")
    assert checked == [[]]
    assert world.rows("unjoined")
    assert world.rows("dead_letters")


def test_waiting_segments_are_on_disk_before_their_batch_is_completed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, found = world.state() / segments.FOLDER, list[list[Path]]()

    def unsynced_segments(synced: dict[Path, int]) -> list[Path]:
        files = list(folder.iterdir())
        cut_off = [path for path in files if written(path, synced) != _extent(path)]
        return cut_off + [path for path in (folder, folder.parent) if path not in synced]

    with synced_paths(monkeypatch) as synced:
        arm("complete.before_transaction", crash=lambda: found.append(unsynced_segments(synced)))
        some_of_each(world, 1)
        world.join()
    assert found == [[]]
    assert len(list(folder.iterdir())) == 2


def written(path: Path, synced: Mapping[Path, int]) -> int | None:
    """Return how much of a file was synced under its writer's name for it; None: nothing."""
    names = (at for at in synced if at.parent == path.parent and at.name.startswith(f"{path.name}."))
    return next((synced[at] for at in names if at.name.endswith(UNFINISHED)), None)


def test_a_commit_whose_process_was_killed_is_synced_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_of_each(world, 1)
    assert world.join_with_a_crash("commit.after_main", mode="complete")
    folder = world.pipeline.datacenters["east"].lake / "joined_events" / "_delta_log"
    committed = max(folder.glob("*.json"))
    with synced_paths(monkeypatch) as synced:
        world.join(mode="complete")
    assert {committed, folder} <= synced.keys()


def test_rows_are_on_disk_before_their_ids_are_registered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # A14
    some_of_each(world, 1)
    folder = world.pipeline.datacenters["east"].lake / "joined_events"
    found: list[bool] = []
    with synced_paths(monkeypatch) as synced:

        def look() -> None:
            paths = [
                folder,
                *folder.glob("batch-*"),
                *folder.glob("_event_date=*"),
                *folder.glob("*/batch-*"),
            ]
            found.append(len(paths) == 4 and all(synced.get(path) == _extent(path) for path in paths))

        arm("claim.before", crash=look)
        try:
            world.join(mode="complete")
        finally:
            disarm()
    assert found == [True]
