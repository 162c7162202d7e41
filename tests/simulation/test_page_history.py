"""What the live page tells of how it went, of datacenters that have joined."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.retrying import Callbacks
from photon.page import history as page_history
from photon.page.history import History, budget_told
from photon.page.now import Now
from photon.page.points import Points
from photon.page.registry import RegistrySeen
from photon.process.clock import MICROSECONDS
from photon.state.points import POINTS, mark_row
from photon.verification.availability.budget import MINUTE_US
from photon.verification.availability.stored import MINUTES
from photon.verification.stored_reports import REPORTS
from tests.simulation.reading import asking
from tests.simulation.world import World

HOUR_US = 3_600 * MICROSECONDS


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ("east", "west"))


def run_for(world: World, seconds: float, datacenter: str = "east") -> None:
    """Have a datacenter join for so long."""
    ends_us = world.clock.now_us() + round(seconds * MICROSECONDS)
    callbacks = Callbacks(should_stop=lambda: world.clock.now_us() >= ends_us)
    world.join(datacenter, mode="stop", callbacks=callbacks)


def history(world: World, from_us: int | None = None, to_us: int | None = None) -> dict[str, Any]:
    """What the page is told now."""
    points = {name: Points(world.pipeline, name, world.clock) for name in world.pipeline.datacenters}
    registry = RegistrySeen(world.pipeline, world.clock)
    now = Now(world.pipeline, registry, points, world.clock, lambda text: [])
    with asking(world):
        return asyncio.run(History(world.pipeline, now, points, world.clock).answer(from_us, to_us))


def test_both_datacenters_share_one_axis(world: World) -> None:
    world.everywhere("c1", "c2")
    for name in world.pipeline.datacenters:
        run_for(world, 27, name)
    told = history(world)
    east, west = (told["datacenters"][name] for name in ("east", "west"))
    assert east["at_us"] == west["at_us"]
    assert any(east["joined_per_second"])
    assert all(len(values) == len(east["at_us"]) for values in east.values() if isinstance(values, list))


def test_marks_and_broken_verifications_are_told_with_their_datacenter(world: World) -> None:
    world.events("c1")
    run_for(world, 65)
    now_us = world.clock.now_us()
    POINTS.append(world.pipeline, "east", [mark_row("hold", "for a new disk", now_us)])
    report = '{"violations": [{"kind": "missing", "count": 3, "says": "missing"}]}'
    REPORTS.append(world.pipeline, "east", [{"at": now_us, "run": "r", "report": report}])
    world.clock.advance(60)
    told = [(one["datacenter"], one["kind"], one["says"]) for one in history(world)["marks"]]
    assert ("east", "hold", "for a new disk") in told
    assert ("east", "verification", "a verification found 3 missing") in told


def test_a_wait_is_told_as_a_span_with_what_was_waited_for(world: World) -> None:
    world.events("c1")
    run_for(world, 65)
    world.clock.advance(3_600)
    now_us = world.clock.now_us()
    rows = [
        {"at": now_us - us, "seconds": 60.0, "activity": "waiting", "waits_for": "the registry is away"}
        for us in (120 * MICROSECONDS, 60 * MICROSECONDS)
    ]
    POINTS.append(world.pipeline, "east", rows)
    (wait,) = (one for one in history(world)["marks"] if one["kind"] == "waits")
    assert wait["says"] == "the registry is away"
    assert wait["until_us"] - wait["at_us"] == 120 * MICROSECONDS


def test_a_month_has_no_more_points_than_an_hour(world: World) -> None:
    world.events("c1")
    run_for(world, 65)
    world.clock.advance(30 * 24 * 3_600)
    now_us = world.clock.now_us()
    told = history(world, now_us - 31 * 24 * HOUR_US, now_us)
    assert len(told["datacenters"]["east"]["at_us"]) <= 400
    assert any(told["datacenters"]["east"]["activity"])
    assert {span["state"] for span in told["strips"]["east"]} == {"at rest"}


def test_a_datacenter_without_any_point_is_unknown_and_no_error(world: World) -> None:
    told = history(world)
    assert [span["state"] for span in told["strips"]["west"]] == ["unknown"]
    assert told["datacenters"]["west"]["problem"] == ""
    assert told["budget"]["west"]["share_left"] is None


def test_a_lake_that_can_not_be_read_is_named_and_the_state_tells_the_last_hour(world: World) -> None:
    world.events("c1")
    run_for(world, 65)
    for entry in (world.folder / "lake/east/points/_delta_log").iterdir():
        entry.write_bytes(b"spoilt")
    told = history(world)["datacenters"]["east"]
    assert "points" in told["problem"]
    assert any(told["activity"])


def judged(world: World, datacenter: str, bad: int) -> None:
    """Judge an hour. Its first minutes were bad."""
    first_us = world.clock.now_us() - HOUR_US
    rows = [
        {"minute": first_us + number * MINUTE_US, "joinable": 10, "readable": 0 if number < bad else 10}
        | {"without_row": 0, "by_arrival": 0, "by_commit": 10, "slowest_us": 1, "at": first_us}
        for number in range(60)
    ]
    MINUTES.append(world.pipeline, datacenter, rows)


def test_an_error_budget_is_told_over_its_days(world: World) -> None:
    judged(world, "east", bad=20)
    told = budget_told(world.pipeline, "east")
    assert (told["shares"][0], told["shares"][-2]) == (1.0, 1.0)
    assert told["shares"][-1] == told["share_left"] == pytest.approx(1 - 20 / 403)
    assert "20 bad minutes in 28 days, of 403 allowed" in told["says"]


def test_a_lake_that_hangs_hides_no_other_error_budget(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("east", "west"):
        judged(world, name, bad=20)
    table = MINUTES.folder(world.pipeline, "west")
    assert isinstance(table, Path)
    (data,) = table.glob("*.parquet")
    data.unlink()
    os.mkfifo(data)  # it keeps its reader waiting, as a dead mount does
    monkeypatch.setattr(page_history, "ANSWER_SECONDS", 2.0)
    try:
        told = history(world)["budget"]
    finally:
        os.close(os.open(data, os.O_RDWR | os.O_NONBLOCK))  # lets the reader go
    assert told["east"]["share_left"] == pytest.approx(0.95, abs=0.01)
    assert told["west"]["says"] == "west: NOT KNOWN: the lake of west: no answer within 2 s"


def test_a_strip_ends_with_who_is_at_work_before_its_first_point(world: World) -> None:
    """Broken variant: dead from the kill on until the new shift's first point."""
    world.events("c1")
    run_for(world, 65)
    killed_us = world.clock.now_us()
    POINTS.append(world.pipeline, "east", [mark_row("killed", "process 1 was killed", killed_us)])
    world.clock.advance(100)
    begun_us = world.clock.now_us()
    told: list[dict[str, Any]] = []

    def look_once() -> bool:
        if world.clock.now_us() > begun_us + 4 * MICROSECONDS:
            told.extend(history(world)["strips"]["east"])
        return bool(told)

    world.join(mode="stop", callbacks=Callbacks(should_stop=look_once))
    assert [span["state"] for span in told[-3:]] == ["live", "dead", "live"]
    assert told[-1]["from_us"] == pytest.approx(begun_us, abs=MICROSECONDS)
