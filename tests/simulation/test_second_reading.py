"""Replay histories that showed the faults which a second reader of the dispatcher found."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.adapters import ROW_COLUMNS
from photon.process.clock import MICROSECONDS
from tests.simulation.world import NOON_US, World, assert_counts


@pytest.mark.parametrize("side", ["clicks", "queries"])
def test_a_log_column_with_the_name_of_one_of_photons_does_not_take_its_place(
    world: World, side: str
) -> None:
    world.events("c1")
    own = {name: "theirs" for name in ROW_COLUMNS.names}
    ids = {"clicks": {"click": "c2", "query": "q2"}, "queries": {"query": "q2"}}
    world.log("east", side, {**ids[side], "at": NOON_US, **own})
    world.queries("q2") if side == "clicks" else world.clicks(("c2", "q2"))
    world.join()
    assert world.joined_ids() == ["c1", "c2"]
    assert all(row["_datacenter"] == "east" for row in world.rows())


def test_a_big_idle_primary_log_that_is_read_in_part_holds_the_watermark(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        more="retry: {unjoinable_after: 1s, allowed_lateness: 1us}\n"
        "limits: {batch_foreign: 128B}\ntailing: {idle_after: 1s}",
    )
    world.clicks(("c1", "last"))
    world.join()
    world.queries(*(f"q{n}" for n in range(1_000)), "last", at_us=NOON_US + MICROSECONDS)
    world.clock.advance(60)
    counts = world.join().counts
    assert_counts(counts, joined=1, unjoinable=0)


@pytest.mark.parametrize("point", ["commit.before_main:2", "commit.after_main:2", "plan.after_store:2"])
def test_work_left_by_a_crashed_complete_run_joins_in_a_later_one(world: World, point: str) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "q2"))
    assert world.join_with_a_crash(point, mode="complete")
    world.join()
    world.queries("q2")
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, joined=2, pending=0, unjoinable=0)


def test_a_registry_that_is_down_at_the_start_is_waited_for(world: World) -> None:
    world.events("c1")
    world.ledgers.go_away()
    assert len(world.join_and_mend(world.ledgers.come_back)) == 1
    assert world.joined_ids() == ["c1"]
