"""`--safe-to-delete` never names a file that a waiting record needs, whatever the clocks say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from photon.health.status import status_of
from photon.process.clock import MICROSECONDS
from photon.state.database import STATE_FILE
from tests.simulation.world import NOON_US, World
from tests.support.manual_clock import ManualClock

DAY_SECONDS = 86_400
WRONG_DAYS = [-400, -2, 2, 400]


def safe(world: World) -> tuple[set[str], set[str]]:
    """The primary and the foreign files that are named."""
    status = status_of(world.pipeline, "east", world.clock)
    return set(status.primary.safe_to_delete), set(status.foreign.safe_to_delete)


def under_a_clock(world: World, wrong_days: int) -> None:
    world.clock = ManualClock(NOON_US + wrong_days * DAY_SECONDS * MICROSECONDS)


@pytest.mark.parametrize("days", WRONG_DAYS)
def test_a_file_with_a_waiting_record_is_not_named_after_a_join_under_a_wrong_clock(
    world: World, days: int
) -> None:
    world.events("c1")
    world.clicks(("waits", "q2"), file="b.jsonl")
    world.clicks(("c3", "q1"), file="c.jsonl", at_us=NOON_US + MICROSECONDS)
    under_a_clock(world, days)
    world.join()
    under_a_clock(world, 800)
    assert "clicks/b.jsonl" not in safe(world)[1]
    world.queries("q2", file="late.jsonl")
    world.join()
    under_a_clock(world, 1_600)
    world.join()
    assert "clicks/b.jsonl" in safe(world)[1], "it is never named, so that the test shows nothing"


@pytest.mark.parametrize("at_days", [-400, 0, 400])
def test_the_primary_file_of_a_record_that_is_held_is_not_named_whatever_its_time(
    tmp_path: Path, at_days: int
) -> None:
    world = World(tmp_path, ("east", "west"), more="home: {takeover_delay: 0s}")
    world.registered_elsewhere("held", is_closed=False)
    world.queries("q1")
    world.queries("other", file="b.jsonl")
    world.clicks(("held", "q1"), at_us=NOON_US + at_days * DAY_SECONDS * MICROSECONDS)
    world.clicks(("c2", "other"), file="b.jsonl", at_us=NOON_US + 500 * DAY_SECONDS * MICROSECONDS)
    world.clock.advance(500 * DAY_SECONDS)
    world.join()
    world.clock.advance(300 * DAY_SECONDS)
    assert status_of(world.pipeline, "east", world.clock).waiting == {"held": 1}
    primary, foreign = safe(world)
    assert "queries/a.jsonl" not in primary
    assert "clicks/a.jsonl" not in foreign


def test_no_primary_file_is_named_while_its_index_has_to_be_made_again(world: World) -> None:
    world.events("c1")
    world.join()
    world.clock.advance(2 * DAY_SECONDS)
    assert safe(world) == ({"queries/a.jsonl"}, {"clicks/a.jsonl"})
    with closing(sqlite3.connect(world.state() / STATE_FILE)) as db:
        db.execute("INSERT INTO meta VALUES ('index_lost', '1')")
        db.commit()
    assert safe(world) == (set(), {"clicks/a.jsonl"})


def test_the_file_of_a_plan_that_is_open_is_not_named_after_a_clock_was_wrong(world: World) -> None:
    world.events("c1")
    under_a_clock(world, -400)
    world.join()
    world.clicks(("c2", "q1"), file="b.jsonl")
    assert world.join_with_a_crash("commit.before_main")
    under_a_clock(world, 800)
    assert "clicks/b.jsonl" not in safe(world)[1]
