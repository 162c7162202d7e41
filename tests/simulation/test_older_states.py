"""A state of an older Photon goes on: its waiting records become segments, and its plans refer to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from photon.state.waiting import segments
from tests.simulation.old_state import make_it_of_0_1_0, make_it_of_format_2
from tests.simulation.world import World, counts_of

Older = Callable[[Path], None]
OLDER: list[Older] = [make_it_of_0_1_0, make_it_of_format_2]


@pytest.mark.parametrize("make_it_older", OLDER)
def test_records_that_waited_in_the_spool_join_when_their_primaries_come(
    world: World, make_it_older: Older
) -> None:
    world.clicks(*((f"c{n}", f"q{n}") for n in range(5)))
    world.join()
    make_it_older(world.state())
    world.queries("q1", "q3")
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c3"]
    assert counts.adds_up
    assert counts.of("pending") == 3
    assert not (world.state() / "spool").exists()


@pytest.mark.parametrize("make_it_older", OLDER)
def test_events_that_were_given_up_are_looked_for_again(world: World, make_it_older: Older) -> None:
    world.clicks(("c1", "q1"))
    world.join(mode="complete")
    make_it_older(world.state())
    world.queries("q1")
    counts = world.join().counts
    assert world.joined_ids() == ["c1"]
    assert counts_of(counts, "foreign", "joined", "unjoinable") == {
        "foreign": 1,
        "joined": 1,
        "unjoinable": 0,
    }


@pytest.mark.parametrize("point", ["task.after_read", "commit.after_main"])
@pytest.mark.parametrize("make_it_older", OLDER)
def test_an_open_plan_finds_its_retries(world: World, make_it_older: Older, point: str) -> None:
    world.clicks(*((f"c{n}", "q1") for n in range(4)))
    world.join()
    world.queries("q1")
    assert world.join_with_a_crash(point)
    make_it_older(world.state())
    counts = world.join().counts
    assert world.joined_ids() == [f"c{n}" for n in range(4)]
    assert counts.adds_up
    assert counts.of("pending") == 0


def test_records_of_a_spool_file_that_is_gone_are_read_from_their_log(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    make_it_of_0_1_0(world.state())
    for path in (world.state() / "spool").iterdir():
        path.unlink()
    world.queries("q1")
    assert world.join().counts.of("lost") == 0
    assert world.joined_ids() == ["c1"]


def test_a_state_that_is_looked_at_before_it_is_taken_over_says_so(world: World) -> None:
    world.clicks(("c1", "q1"))
    world.join()
    make_it_of_0_1_0(world.state())
    assert world.read_state().counts().of("pending") == 1
    assert not (world.state() / segments.FOLDER).exists()
    assert not world.trace("c1", search_logs=False).datacenters["east"].waiting
