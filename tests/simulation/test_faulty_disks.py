"""Disks that are full, broken, slow or without power: a batch waits or is run again, and nothing is lost."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from photon.process.faults import FAULT_POINTS
from photon.storage import sync
from tests.simulation.world import World
from tests.support.faulty_disk import BROKEN, FULL, DiskPoint, FaultyDisk
from tests.support.shares import a_share

IDS = [f"c{number}" for number in range(6)]


@pytest.fixture
def disk(world: World) -> FaultyDisk:
    world.queries("q1")
    world.clicks(*((each, "q1") for each in IDS), ("orphan", "nowhere"))
    return FaultyDisk(world.folder, world.clock)


@pytest.mark.parametrize(
    ("point", "nth", "error"),
    [("disk.before_write", 1, FULL), ("disk.before_sync", 2, BROKEN), ("lake.before_commit", 4, FULL)],
)
def test_a_join_waits_for_a_disk_that_fails_and_goes_on(
    world: World, disk: FaultyDisk, point: DiskPoint, nth: int, error: int
) -> None:
    world.join()  # makes the tables
    world.queries("q2")
    world.clicks(("late", "q2"), ("late too", "nowhere"))
    disk.fail(point, error, nth)
    with disk.in_use():
        waits = world.join_and_mend(disk.mend)
    assert bool(waits) == bool(disk.failed)
    assert world.joined_ids() == [*IDS, "late"]


def test_a_state_folder_that_can_not_take_the_list_of_log_files_is_waited_for(
    world: World, disk: FaultyDisk
) -> None:
    disk.fail()  # the list is the first file that a batch writes
    with disk.in_use():
        waits = world.join_and_mend(disk.mend)
    assert [reason for reason in waits if f"cannot write to {world.state() / 'index'}" in reason]
    assert world.joined_ids() == IDS


def test_a_commit_whose_answer_is_lost_is_found_in_the_table(world: World, disk: FaultyDisk) -> None:  # A6
    disk.fail("lake.after_commit", errno.EIO, times=1)
    with disk.in_use():
        world.join()
    assert disk.failed == 1
    assert world.joined_ids() == IDS


def test_a_stalled_disk_only_takes_time(world: World, disk: FaultyDisk) -> None:
    disk.stall_seconds = 20.0
    began_us = world.clock.now_us()
    with disk.in_use():
        world.join()
    assert world.clock.now_us() - began_us > 100_000_000
    assert world.joined_ids() == IDS


def cut_power_at(world: World, disk: FaultyDisk, point: str, seed: int) -> None:
    """Die there with the power, in a later shift than the first."""
    world.join_with_a_crash("plan.before_store")  # tables and state are there
    disk.sync_all()
    with disk.in_use():
        world.join_with_a_crash(point)
        disk.cut_power(chance=random.Random(seed))
        world.join(mode="complete")
    assert world.joined_ids() == IDS, "an event has no row, or two"
    assert world.ledgers.register.epochs == {"east": 1}, "the state was ahead of the table"


@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 1, of=6))
def test_a_power_cut_loses_no_event(world: World, disk: FaultyDisk, point: str) -> None:  # A18
    cut_power_at(world, disk, point, seed=len(point))


def test_a_table_that_is_never_synced_is_behind_its_state_after_a_power_cut(
    world: World, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:  # A18
    monkeypatch.setattr("photon.storage.store.sync", lambda path: None)
    with pytest.raises(AssertionError, match="the state was ahead of the table"):
        cut_power_at(world, disk, "complete.after_transaction", seed=1)


def test_the_folders_of_a_new_lake_outlast_a_power_cut(world: World, disk: FaultyDisk) -> None:  # A18
    with disk.in_use():
        world.join_with_a_crash("complete.after_transaction")
        disk.cut_power()
        world.join(mode="complete")
    assert world.joined_ids() == IDS


def test_a_power_cut_takes_what_was_not_synced_and_leaves_the_rest(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with disk.in_use():
        sync.write_synced(tmp_path / "nameless", lambda sink: None)
        sync.write_synced(tmp_path / "kept", lambda sink: (sink.write(b"synced"), None)[1])
        sync.sync(tmp_path)
        with (tmp_path / "kept").open("ab") as file:
            file.write(b" and more")
        sync.write_synced(tmp_path / "late", lambda sink: None)
    assert sorted(disk.cut_power()) == [tmp_path / "kept", tmp_path / "late"]
    assert (tmp_path / "kept").read_bytes() == b"synced"
    assert (tmp_path / "nameless").exists()
