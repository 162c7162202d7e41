"""A fill joins what its window lacks, once, whoever else is at work (protocol E4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.shift.lease import LeaseStatus
from photon.process.clock import MICROSECONDS, SystemClock
from photon.upkeep.backfill.fill import Filled, fill_until_whole, plan_fill
from photon.upkeep.plans import carry_out
from photon.verification.days import DAY_US, Window
from photon.verification.report import DatacenterReport, Example, Finding
from tests.simulation.reading import asking
from tests.simulation.rebuilding import DAY
from tests.simulation.recovery_stories import BOTH_LOOKED_BEFORE, HOME, assert_sound
from tests.simulation.verifying import verify
from tests.simulation.world import NOON_US, World

NEXT_DAY = Window(DAY.start_us + DAY_US, DAY.end_us + DAY_US)
EVENTS = ["late", "next", "noon", "other"]
Lose = Callable[[World, str], None]


def two_days(world: World) -> World:
    """Two events of one day, and two of the next; each datacenter has them."""
    world.clock.advance(2 * DAY_US / MICROSECONDS)
    for name in world.pipeline.datacenters:
        world.events("noon", datacenter=name)
        world.clicks(("late", "q1"), datacenter=name, at_us=DAY.end_us - 1)
        world.clicks(("next", "q1"), datacenter=name, at_us=DAY.end_us)
        world.clicks(("other", "q1"), datacenter=name, at_us=NOON_US + DAY_US)
    for name in world.pipeline.datacenters:
        world.join(name)
    assert world.joined_ids() == EVENTS
    return world


def registered(world: World, event_id: str) -> None:
    """Take the row away; the id stays joined."""
    for name in world.pipeline.datacenters:
        if world.table(name).exists():
            world.table(name).load().delete(f"_event_id = '{event_id}'")


def free(world: World, event_id: str) -> None:
    """Take the row away, and all that knows of it."""
    registered(world, event_id)
    world.free(event_id)


losses = pytest.mark.parametrize("lose", [registered, free])


def fill(
    world: World,
    datacenter: str = "east",
    window: Window = DAY,
    meanwhile: Callable[[], object] = lambda: None,
    dry_run: bool = False,
    live: bool = False,
) -> Filled:
    """A fill; `meanwhile` comes between what it sees and what it orders. `live`: a shift takes orders up."""

    def look() -> DatacenterReport:
        report = verify(world, [datacenter], window)[datacenter]
        meanwhile()
        return report

    class Shift(SystemClock):
        def sleep(self, seconds: float) -> None:
            world.join(datacenter)

    locked = mock.patch(
        "photon.upkeep.backfill.fill.lease_status_of", return_value=LeaseStatus(is_locked=live)
    )
    with asking(world), locked:
        plan = partial(plan_fill, world.pipeline, datacenter, look, clock=Shift())
        if live:
            return fill_until_whole(world.pipeline, plan, clock=Shift())
        return carry_out(plan, dry_run)


def join_all(world: World) -> None:
    for name in world.pipeline.datacenters:
        world.join(name)


@losses
def test_a_fill_of_a_day_joins_what_that_day_lacks_and_nothing_else(world: World, lose: Lose) -> None:
    two_days(world)
    for event_id in ("late", "next", "other"):
        lose(world, event_id)
    done = fill(world)
    join_all(world)
    assert world.joined_ids() == ["late", "noon"], f"a fill of a day joined {world.joined_ids()}"
    assert (done.recovered.ordered, dict(done.left_by_day)) == (1, {str(*DAY.days()): 1})
    assert fill(world, window=NEXT_DAY).recovered.ordered == 2
    join_all(world)
    assert world.joined_ids() == EVENTS
    assert_sound(world)


@losses
def test_two_fills_of_a_day_join_once(world: World, lose: Lose) -> None:
    two_days(world)
    before = world.join().counts.as_dict()
    lose(world, "late")
    assert fill(world).recovered.ordered == 1
    with BOTH_LOOKED_BEFORE:
        assert fill(world).recovered.ordered == 1
    again = fill(world)
    assert (again.recovered.ordered, again.left, again.is_whole) == (0, 1, False), "it waits already"
    join_all(world)
    assert fill(world).recovered.ordered == 0
    join_all(world)
    assert world.joined_ids() == EVENTS, "an event has two rows, or none"
    assert world.join().counts.as_dict() == before, "a record counts twice"
    assert_sound(world)


@losses
def test_fills_of_two_datacenters_at_once_join_once(tmp_path: Path, lose: Lose) -> None:
    world = World(tmp_path, ["east", "west"], HOME)
    two_days(world)
    lose(world, "late")
    west: list[Filled] = []
    east = fill(world, "east", meanwhile=lambda: west.append(fill(world, "west")))
    ordered = {"east": east.recovered.ordered, "west": west[0].recovered.ordered}
    # The owner of a registered id joins it; a free one is anybody's, and the registry lets one.
    assert sum(ordered.values()) == (1 if lose is registered else 2), f"{ordered} were ordered"
    join_all(world)
    join_all(world)
    assert world.joined_ids() == EVENTS, f"the rows are of {world.joined_ids()}"
    assert_sound(world)


@losses
def test_a_fill_beside_a_shift_waits_until_it_has_joined(world: World, lose: Lose) -> None:
    two_days(world)
    lose(world, "late")

    def go_on() -> None:
        world.clicks((f"live{len(world.rows())}", "q1"), at_us=DAY.start_us)
        world.join()

    done = fill(world, meanwhile=go_on, live=True)
    assert (done.recovered.ordered, done.waits, done.report.findings) == (1, "", ())
    assert done.rounds == 2, "it did not look again"
    assert set(EVENTS) < set(world.joined_ids())
    assert len(set(world.joined_ids())) == len(world.joined_ids()), "an event has two rows"
    assert_sound(world)


def test_a_dry_run_orders_nothing(world: World) -> None:
    two_days(world)
    free(world, "late")
    assert fill(world, dry_run=True).recovered.ordered == 1
    assert waiting_orders(world.state()) == []


def test_a_fill_tells_of_broken_promises_and_of_no_other_finding_of_all_times(world: World) -> None:
    """Broken variant: records of other days that conflict are named by the fill of a day."""
    gone = Finding("table_gone", 1, (Example("all rows", "lake/east/joined_events"),))
    report = DatacenterReport(findings=(Finding("conflicting", 3), gone))
    assert plan_fill(world.pipeline, "east", lambda: report).report.findings == (gone,)
