"""A state or a lake is lost or put back: events have one row each, and the new epoch counts each of them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.simulation.world import World, assert_counts


def join_some(world: World, *clicks: str) -> None:
    world.queries(*(f"q-{click}" for click in clicks))
    world.clicks(*((click, f"q-{click}") for click in clicks))
    world.join()


def test_after_a_lost_state_events_count_as_joined_once_and_their_repetitions_as_duplicates(
    world: World,
) -> None:
    join_some(world, "c1", "c2")
    world.clicks(("c1", "q-c1"))
    before = world.join(mode="complete").counts
    shutil.rmtree(world.state())
    counts = world.join(mode="complete").counts
    # Nobody knows any more which of both records of c1 joined, so neither is compared with it.
    assert counts == replace(before, not_compared=1)
    assert world.joined_ids() == ["c1", "c2"]
    # Met again they are duplicates, and so is what the new epoch has joined itself.
    join_some(world, "c3")
    world.clicks(("c1", "q-c1"), ("c3", "q-c3"), file="b.jsonl")
    later = world.join(mode="complete").counts
    assert_counts(later, joined=3, duplicates=3)


@pytest.mark.parametrize("point", ["claim.after", "commit.after_main", "complete.before_transaction"])
def test_a_crash_does_not_count_inherited_events_twice(world: World, point: str) -> None:
    join_some(world, "c1", "c2")
    before = world.join(mode="complete").counts
    shutil.rmtree(world.state())
    join_some_crashed = world.join_with_a_crash(point, mode="complete")
    assert join_some_crashed or point == "claim.after"  # nothing is claimed: all have their rows
    assert world.join(mode="complete").counts == before


@pytest.mark.parametrize("taken", [["east"], ["west"], ["east", "west"]])
def test_a_lost_state_takes_no_event_from_another_datacenter(tmp_path, taken: list[str]) -> None:
    world = World(tmp_path, ["east", "west"])
    world.everywhere(*(f"c{n}" for n in range(20)))
    for name in ("east", "west"):
        world.join(name, mode="complete")
    for name in taken:
        shutil.rmtree(world.state(name))
    for name in ("west", "east"):
        counts = world.join(name, mode="complete").counts
        assert counts.of("joined") + counts.of("joined_elsewhere") == 20
    assert world.joined_ids() == sorted(f"c{n}" for n in range(20))
