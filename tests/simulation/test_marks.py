"""Each verb and each shift marks what it did in the points of a datacenter. A mark fails no command."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from photon.dispatcher.shift.lease import LOCK_FILE, DatacenterLock, Lease
from photon.registry.id_registry import IdRegistry
from photon.registry.view import View, current_register
from photon.state import points
from photon.state.points import POINTS, mark
from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
from photon.upkeep.hold import HoldPlan
from photon.upkeep.refill import plan_refill
from photon.upkeep.reshard import plan_reshard
from photon.upkeep.retire import plan_retire
from tests.simulation import picky_adapter
from tests.simulation.reading import asking
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all
from tests.simulation.world import NOON_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two datacenters that have joined the same two events."""
    world = World(tmp_path, ["east", "west"])
    world.everywhere("c1", "c2")
    for name in world.pipeline.datacenters:
        world.join(name)
    return world


def marks(world: World, datacenter: str = "east") -> list[dict[str, Any]]:
    """The marks in a datacenter's lake."""
    table = POINTS.between(world.pipeline, datacenter, 0, 2 * NOON_US, ["at", "mark", "says"])
    table = table.set_column(0, "at", table["at"].cast(pa.int64()))
    return [row for row in table.to_pylist() if row["mark"] is not None]


def kinds(world: World, datacenter: str = "east") -> list[str]:
    """The kinds of the marks in a datacenter's lake."""
    return [row["mark"] for row in marks(world, datacenter)]


def is_killed(world: World, at_us: int) -> int:
    """Have a process of east die after this sign of life; return when, by the kernel's clock."""
    lock = DatacenterLock(world.state(), "east", Lease.of_this_process("", at_us, None))
    lock.beat(at_us)
    lock._file.close()  # as the kernel does
    return (world.state() / LOCK_FILE).stat().st_ctime_ns // 1_000


def test_a_shift_tells_that_the_process_before_it_was_killed_and_when(world: World) -> None:
    died_us = is_killed(world, NOON_US - 5_000_000)
    world.join()
    (killed,) = marks(world)
    assert (killed["mark"], killed["at"]) == ("killed", died_us)
    assert f"process {os.getpid()} " in killed["says"]
    world.join()
    assert kinds(world) == ["killed"]


def test_a_new_epoch_says_why(world: World) -> None:
    shutil.rmtree(world.state())
    world.join()
    (begun,) = marks(world)
    assert (begun["mark"], begun["says"]) == ("new epoch", "epoch 2 begins: there is no state")


def test_a_hold_and_its_end_have_marks_and_one_that_changes_nothing_has_none(world: World) -> None:
    for is_held, is_new in ((True, True), (True, False), (False, True), (False, False)):
        HoldPlan(world.pipeline, world.ledgers, "east", is_held, is_new, ()).apply()
    assert sorted(kinds(world)) == ["hold", "resume"]


def test_a_retired_datacenter_has_a_mark(world: World) -> None:
    plan_retire(world.pipeline, world.reader(), "east").apply()
    assert (kinds(world), kinds(world, "west")) == (["retired"], [])


def test_a_reshard_has_a_mark_in_every_lake(world: World) -> None:
    with asking(world):
        plan_reshard(world.pipeline, world.reader(), 4).apply()
    assert [marks(world, name)[0]["says"] for name in ("east", "west")] == [
        "4 ledgers from now on, before: 2"
    ] * 2


def test_a_refill_that_puts_something_back_has_a_mark_in_every_lake(world: World) -> None:
    def refill() -> None:
        unread = IdRegistry(world.ledgers, View(current_register(world.ledgers), "refill"))
        plan_refill(world.pipeline, unread).apply()

    before = world.ledgers.copy()
    world.clicks(("d1", "q1"))
    world.join()
    refill()
    assert kinds(world) == []
    world.ledgers.put_back(before)
    refill()
    assert kinds(world) == kinds(world, "west") == ["refill"]


def test_a_rebuild_has_a_mark_and_a_dry_run_has_none(world: World) -> None:
    rebuild(world, dry_run=True)
    assert kinds(world) == []
    rebuild(world)
    assert kinds(world) == ["rebuild"]


def test_a_recovery_has_a_mark_where_it_has_left_orders(world: World) -> None:
    recover_all(world)
    assert kinds(world) == []
    a_row_is_removed(world)
    recover_all(world)
    (recovered,) = marks(world)
    assert recovered["mark"] == "recovered"
    assert recovered["says"].startswith("1 record is to be looked at again: 1 ")


def test_dead_letters_that_are_taken_up_again_have_a_mark(tmp_path: Path) -> None:
    world = World(tmp_path, more=f"adapter: {picky_adapter.NAME}:join")
    world.queries("q1")
    world.log("east", "clicks", {"click": "c1", "query": "q1", "at": NOON_US, "asks": "fail"})
    world.join()
    plan_recovery_of_letters(world.pipeline, "east").apply()
    assert kinds(world) == ["recovered"]


def test_a_datacenter_that_never_joined_gets_no_lake_by_a_mark(tmp_path: Path) -> None:
    world = World(tmp_path)
    mark(world.pipeline, ["east"], "hold", "planned work")
    assert not world.pipeline.datacenters["east"].lake.exists()


def test_a_lake_that_takes_no_mark_fails_no_command(world: World, caplog: pytest.LogCaptureFixture) -> None:
    in_the_way = POINTS.folder(world.pipeline, "east")
    assert isinstance(in_the_way, Path)
    shutil.rmtree(in_the_way)
    in_the_way.write_text("no folder")
    mark(world.pipeline, ["east", "west"], "hold", "planned work")
    assert "graphs of east lack the mark of this hold" in caplog.text
    assert kinds(world, "west") == ["hold"]


def test_a_lake_that_hangs_keeps_no_command_waiting(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "MARK_SECONDS", 0.0)  # no disk is as fast
    mark(world.pipeline, ["east"], "hold", "planned work")
    assert "its lake does not answer" in caplog.text
