"""A day's counts have each record once, whatever became of it since (`photon.upkeep.backfill.days`)."""

from __future__ import annotations

import shutil

from photon.upkeep.backfill.days import DayCounts, counts_by_day
from tests.simulation.rebuilding import DAY
from tests.simulation.world import World


def day(world: World) -> DayCounts:
    (counts,) = counts_by_day(world.pipeline, "east", DAY).values()
    return counts


def test_a_record_that_was_given_up_and_is_kept_for_a_later_run_is_unjoinable_once(world: World) -> None:
    world.events("c1")
    world.clicks(("orphan", "never"))
    world.join(mode="complete")
    assert day(world) == DayCounts(rows=1, unjoinable=1)


def test_a_record_that_waits_again_after_it_was_given_up_is_pending_alone(world: World) -> None:
    world.clicks(("orphan", "never"))
    world.join(mode="complete")
    assert world.join_with_a_crash("plan.before_store", mode="complete")
    assert day(world) == DayCounts(pending=1)


def test_a_record_that_was_given_up_in_each_of_two_epochs_is_unjoinable_once(world: World) -> None:
    world.clicks(("orphan", "never"))
    world.join(mode="complete")
    shutil.rmtree(world.state())
    world.forget()
    world.join(mode="complete")
    assert day(world) == DayCounts(unjoinable=1)
