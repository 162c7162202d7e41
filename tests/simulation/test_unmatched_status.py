"""A status tells of runs for unmatched primaries that are due, and of logs that wait for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.health.status import DatacenterStatus, status_of
from photon.health.unmatched import LATE
from photon.health.verdict import Level, worst
from tests.simulation.reading import asking
from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UnmatchedWorld


@pytest.fixture
def world(tmp_path: Path) -> UnmatchedWorld:
    """A day and an hour have passed since q1 and q2 were logged."""
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(DAY_US + HOUR_US)
    return world


def status(world: UnmatchedWorld, datacenter: str = "east") -> DatacenterStatus:
    from photon.dispatcher.shift.people import decisions_of

    with asking(world):
        return status_of(world.pipeline, datacenter, world.clock, decisions_of(world.pipeline))


def lag(world: UnmatchedWorld) -> Level:
    return worst(status(world).verdicts["lag"]).level


def test_a_run_that_does_not_happen_is_told_with_the_command_once_it_is_late(world: UnmatchedWorld) -> None:
    assert lag(world) == "ok"
    world.clock.advance(LATE.warn.total_seconds() + 60)
    (late,) = [one for one in status(world).broken if "unmatched" in one.says]
    assert late.level == "warn"
    assert "east: unmatched primaries are due since 2023-11-1" in late.says
    assert f"photon unmatched {world.pipeline.typed}" in late.remedy
    world.clock.advance(LATE.error.total_seconds())
    assert lag(world) == "error"
    world.look()
    assert lag(world) == "ok"


def test_while_nothing_new_is_due_a_run_may_be_old(world: UnmatchedWorld) -> None:
    """No event comes: nothing says that the logs go on."""
    world.look()
    world.clock.advance(10 * LATE.error.total_seconds())
    assert lag(world) == "ok"


def test_a_log_of_others_stays_until_the_owner_has_looked_for_what_came_late(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path, ("east", "west"))

    def west_may_delete() -> bool:
        return "queries/late.jsonl" in status(world, "west").primary.safe_to_delete

    for name in ("east", "west"):
        world.queries("q1", datacenter=name)
    world.go_on()
    world.look()
    world.queries("late", datacenter="west", file="late.jsonl")
    world.go_on(4 * DAY_US)
    assert not west_may_delete()
    world.queries("late", datacenter="east", file="late.jsonl")
    world.go_on(6 * DAY_US)
    world.look()
    assert "late" in world.unmatched_ids()
    assert west_may_delete(), "it never may, so that the test shows nothing"


def test_the_status_says_how_far_unmatched_primaries_are_written(world: UnmatchedWorld) -> None:
    world.look()
    told = status(world).as_dict()["unmatched"]
    assert (told["run"], told["counts"]["unmatched"], told["due_since_us"]) == (1, 1, None)
    assert told["up_to_us"] == world.progress().up_to_us
