"""A device counts from 1 after each boot: of the primaries with one id the nearest joins (protocol F14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.process.clock import MICROSECONDS
from tests.simulation.verifying import verify
from tests.simulation.world import NOON_US, World

HOUR_US = 3_600 * MICROSECONDS
SECOND_US = MICROSECONDS
WINDOW = "retry: {lookup_window: 30m}"


def world_of_boots(folder: Path, more: str = "") -> World:
    world = World(folder, ("east",), more)
    world.clock.advance(6 * HOUR_US / MICROSECONDS)  # all of it was
    return world


def boot(world: World, number: int, *ids: str) -> None:
    """Log commands of one boot, in a file of its own, with other content than those of another one."""
    at_us = NOON_US + number * HOUR_US
    lines = ({"query": each, "at": at_us, "text": f"{each} of boot {number}"} for each in ids)
    world.log("east", "queries", *lines, file=f"boot-{number}.jsonl")


def commands(world: World) -> dict[str, int]:
    """Which boot's command each joined row names."""
    return {
        row["_event_id"]: round((row["_primary_time"].timestamp() * MICROSECONDS - NOON_US) / HOUR_US)
        for row in world.rows()
    }


@pytest.mark.parametrize("more", ["", WINDOW], ids=["without a window", "with a window"])
@pytest.mark.parametrize("in_turn", [False, True], ids=["in one batch", "a boot in each batch"])
def test_each_answer_joins_the_command_of_its_own_boot(tmp_path: Path, more: str, in_turn: bool) -> None:
    world = world_of_boots(tmp_path, more)
    for number in range(3):
        boot(world, number, "1", "2")
        at_us = NOON_US + number * HOUR_US + SECOND_US
        world.clicks((f"a{number}", "1"), (f"b{number}", "2"), at_us=at_us)
        if in_turn:
            world.join()
    world.join(mode="complete")
    assert commands(world) == {f"{side}{number}": number for side in "ab" for number in range(3)}
    assert verify(world)["east"].findings == ()


def test_an_answer_before_any_command_joins_the_earliest_behind_it(tmp_path: Path) -> None:
    world = world_of_boots(tmp_path)
    for number in (1, 2):
        boot(world, number, "1")
    world.clicks(("early", "1"), at_us=NOON_US)
    world.join(mode="complete")
    assert commands(world) == {"early": 1}


def test_an_orphan_joins_no_command_of_another_boot_where_a_window_is_set(tmp_path: Path) -> None:
    world = world_of_boots(tmp_path, WINDOW)
    boot(world, 0, "1")
    world.clicks(("orphan", "1"), at_us=NOON_US + 5 * HOUR_US)
    assert world.join(mode="complete").counts.of("unjoinable") == 1
    assert verify(world)["east"].findings == ()


def test_copies_of_one_command_in_two_files_are_one(tmp_path: Path) -> None:
    world = world_of_boots(tmp_path)
    for file in ("a.jsonl", "b.jsonl"):
        world.queries("1", file=file)
    world.clicks(("c1", "1"))
    world.join(mode="complete")
    assert commands(world) == {"c1": 0}
