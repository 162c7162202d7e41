"""A state or a lake is lost or put back: events have one row each, and the new epoch counts each of them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

import pytest

from photon.process.errors import FormatTooNew
from photon.state.database import SCHEMA, STATE_FILE, STATE_FORMAT
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


def test_a_state_of_before_is_refused_and_once_it_is_moved_away_nothing_joins_twice(world: World) -> None:
    """Broken variant: SQLite says that it has no such table, and nobody what to do."""
    join_some(world, "c1")
    world.join()
    with closing(sqlite3.connect(world.state() / STATE_FILE)) as database:
        database.execute("DROP TABLE unread_files")
        database.execute("UPDATE meta SET value = '1' WHERE key = 'format'")
        database.commit()
    with pytest.raises(FormatTooNew, match=f"move {world.state()} away: the next start begins a new epoch"):
        world.join()
    world.state().rename(world.state().with_name("before"))
    world.join(mode="complete")
    assert world.joined_ids() == ["c1"]


def test_another_schema_of_the_state_is_another_format() -> None:
    assert (STATE_FORMAT, sha256(SCHEMA.encode()).hexdigest()[:16]) == (3, "3f03e63f237ee2a2")
