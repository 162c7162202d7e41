"""Primaries with times that no clock that is right gives (protocol C6)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher import completion
from photon.event_store.indexing import EVER, PlausibleTimes
from photon.process.clock import MICROSECONDS
from tests.simulation.catching import caught_by_story
from tests.simulation.world import NOON_US, World, assert_counts

YEAR_2100_US = 4_102_444_800 * MICROSECONDS
SETTINGS = "retry: {unjoinable_after: 1m, allowed_lateness: 1m}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A datacenter that gives up soon."""
    return World(tmp_path, more=SETTINGS)


def late_events_are_joined(world: World, wild_us: int) -> None:
    """A click waits for its query, which comes an hour after a query of a wild time."""
    world.queries("first", at_us=NOON_US)
    world.queries("wild", at_us=wild_us)
    world.clicks(("late", "q"), ("c", "wild"))
    for _ in range(6):
        world.join()
        world.clock.advance(600)
    assert_counts(world.join().counts, "an event was given up", joined=1, pending=1, unjoinable=0)
    world.queries("q", at_us=NOON_US)
    world.join()
    assert world.joined_ids() == ["c", "late"]


@pytest.mark.parametrize("wild_us", [YEAR_2100_US, 0])
def test_a_primary_of_a_wild_time_does_not_make_late_events_unjoinable(world: World, wild_us: int) -> None:
    late_events_are_joined(world, wild_us)


def test_a_wild_time_that_counts_gives_up_what_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # C6
    watermark_us = completion.watermark_us
    monkeypatch.setattr(PlausibleTimes, "at", lambda now_us, clock_tolerance_us: EVER)
    monkeypatch.setattr(completion, "watermark_us", lambda *known: watermark_us(*known[:4]))
    caught_by_story(partial(late_events_are_joined, world, YEAR_2100_US), because="an event was given up")


@pytest.mark.parametrize("file", ["a.jsonl", "of-its-own.jsonl"])
def test_a_primary_of_1970_does_not_hold_the_watermark_back(world: World, file: str) -> None:
    world.clicks(("orphan", "never"))
    world.queries("unset", at_us=0, file=file)
    for minute in range(8):
        world.queries(f"q{minute}", at_us=world.clock.now_us())
        world.join()
        world.clock.advance(60)
    assert_counts(world.join().counts, pending=0, unjoinable=1)
