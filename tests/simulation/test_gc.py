"""Gc in a world that joins: what lies below the boundary goes with its generation, and is not won again (C2).

Each event is joined once, whatever gc does meanwhile, and wherever it is killed.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from photon.process.clock import MICROSECONDS
from photon.process.faults import GC_FAULT_POINTS, ROLL_FAULT_POINTS
from photon.registry.entry import LedgerId
from photon.upkeep.gc import GcResult, plan_gc
from photon.verification.stored_reports import StoredReport
from tests.simulation.verifying import verify
from tests.simulation.world import NOON_US, World
from tests.support.crashes import at, dies_at

DAY_US = 86_400 * MICROSECONDS
KEEPS_A_DAY = "registry: {keep_days: 1}"
FULL = mock.patch("photon.upkeep.gc.GENERATION_BYTES", 1)  # any entry fills a generation


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three events of today are joined; then two days pass, and two more come."""
    world = World(tmp_path, ["east"], KEEPS_A_DAY)
    world.events("c1", "c2", "c3")
    world.join()
    return world


def collect(world: World, would: bool = False) -> GcResult:
    """Run one pass, by a verification of now."""
    now_us = world.clock.now_us()
    reports = {
        name: StoredReport(now_us, "run", 1.0, one.as_dict() | {"verified_until_us": now_us})
        for name, one in verify(world).items()
    }
    with FULL, mock.patch("photon.upkeep.gc.newest", return_value=reports):
        plan = plan_gc(world.pipeline, world.reader(), world.clock)
        return plan.expected if would else plan.apply()


def two_days_later(world: World) -> None:
    world.clock.sleep(2 * DAY_US / MICROSECONDS)
    at_us = NOON_US + 2 * DAY_US
    world.log("east", "queries", {"query": "q2", "at": at_us})
    world.clicks(("d1", "q2"), ("d2", "q2"), at_us=at_us)
    world.join()


def test_ids_of_old_events_go_with_their_generation_and_are_too_old_then(world: World) -> None:
    assert collect(world).rolled, "the generation is full, and nothing is old enough to go"
    two_days_later(world)
    would = collect(world, would=True)
    assert would.dropped == (0,)
    done = collect(world)
    assert done.dropped == (0,)
    assert (done.before.ids, done.after.ids) == (5, 2)
    assert done.boundary_us is not None
    assert NOON_US < done.boundary_us <= NOON_US + 2 * DAY_US
    assert LedgerId(0, 0) not in world.ledgers.values
    world.clicks(("c1", "q1"))  # logged again
    counts = world.join().counts
    assert (counts.of("too_old"), counts.adds_up) == (1, True)
    assert world.joined_ids() == ["c1", "c2", "c3", "d1", "d2"]


def test_where_nothing_is_old_enough_nothing_is_dropped_and_only_a_full_generation_ends(world: World) -> None:
    first, again = collect(world), collect(world)
    assert (first.rolled, first.dropped, first.generation) == (True, (), 1)
    assert (again.rolled, again.dropped, again.generation) == (True, (), 2), "a genesis is an entry too"


def test_nothing_is_done_where_ids_are_kept_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, ["east"])
    world.events("c1")
    world.join()
    before = world.ledgers.copy()
    done = collect(world)
    assert "keep_days is null" in done.because
    assert (done.rolled, done.dropped) == (False, ())
    assert world.ledgers.copy().values == before.values


def test_a_dry_run_changes_nothing(world: World) -> None:
    collect(world)
    two_days_later(world)
    before = world.ledgers.copy()
    found = collect(world, would=True)
    assert (found.dropped, found.before.ids, found.after.ids) == ((0,), 5, 2)
    assert world.ledgers.copy().values == before.values
    assert world.ledgers.register == before.register


def test_a_dry_run_tells_to_the_byte_what_the_run_leaves(world: World) -> None:
    assert collect(world, would=True) == collect(world)
    two_days_later(world)
    would = collect(world, would=True)
    assert would == collect(world)
    assert would.dropped == (0,)


def test_where_no_id_goes_run_and_dry_run_say_why(world: World) -> None:
    with mock.patch("photon.upkeep.gc.newest", return_value={}):
        done = plan_gc(world.pipeline, world.reader(), world.clock).apply()
    assert done.kept_because.startswith("generation 0 of ledgers is the newest: ids go once another one has")
    assert collect(world, would=True).kept_because.startswith(
        "generation 0 of ledgers has ids of events up to 2023-11-14 22:13:20.000000 UTC"
    )
    collect(world)
    two_days_later(world)
    assert collect(world).kept_because == "", "a generation is dropped"


def test_where_ids_are_kept_for_ever_the_reason_is_the_setting(tmp_path: Path) -> None:
    done = collect(World(tmp_path, ["east"]))
    assert done.kept_because == done.because == "registry.keep_days is null: ids are kept for ever"


@pytest.mark.parametrize("point", [*GC_FAULT_POINTS, *ROLL_FAULT_POINTS])
def test_a_pass_that_was_killed_is_simply_run_again(world: World, point: str) -> None:
    collect(world)
    two_days_later(world)
    with dies_at(point):
        collect(world)
    world.clicks(("d3", "q2"), at_us=NOON_US + 2 * DAY_US)
    world.join()
    collect(world)
    assert world.ledgers.register.generations[0].is_dropped
    assert LedgerId(0, 0) not in world.ledgers.values
    world.clicks(("c2", "q1"), ("d1", "q2"))
    world.join()
    assert world.joined_ids() == ["c1", "c2", "c3", "d1", "d2", "d3"]


def test_a_registry_that_does_not_answer_on_the_way_leaves_the_rest_to_the_next_pass(world: World) -> None:
    collect(world)
    two_days_later(world)

    with at("gc.after_boundary", lambda: setattr(world.ledgers, "is_full", True)):
        done = collect(world)
    world.ledgers.is_full = False
    assert not done.is_done
    assert done.dropped == ()
    assert collect(world).dropped == (0,)
