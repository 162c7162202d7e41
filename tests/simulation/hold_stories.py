"""Histories in which a datacenter registers events and dies (protocol A16, E1, E6).

They are told of the product by the tests of what is held.
"""

from __future__ import annotations

from photon.dispatcher.retrying import BatchReport, Callbacks
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at

A_MINUTE_US = 60_000_000
HOME = "home: {takeover_delay: 0s}"


def what_a_dead_datacenter_registered_is_joined_within_a_minute(world: World, point: str = "") -> None:
    """A16: west registers events and dies. East joins them, whatever happens to it meanwhile."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    died_us = world.clock.now_us()
    if point:
        assert world.join_with_a_crash(point, "east")
    world.join("east")
    assert world.joined_ids() == ["c1", "c2"], "an event has no row"
    assert world.clock.now_us() - died_us < A_MINUTE_US
    world.join("west")
    assert world.joined_ids() == ["c1", "c2"], "an event has two rows"


def a_datacenter_that_was_taken_for_dead_commits_no_more(world: World) -> None:
    """A25: west stands still right before its commit, for as long as east needs to take over."""
    world.everywhere("c1")
    with at("commit.before_main", lambda: joins(world, "east")):
        counts = world.join("west").counts
    assert world.joined_ids() == ["c1"], "an event has two rows"
    assert_counts(counts, foreign=1, joined_elsewhere=1)
    assert world.ledgers.register.epochs["west"] == 1, "it begins a new epoch"
    assert world.read_state("west").passed == 1


def joins(world: World, datacenter: str) -> None:
    """Run one shift of a datacenter."""
    world.join(datacenter)


def stop_after_one_batch() -> Callbacks:
    """Have a shift end after its first batch."""
    done: list[BatchReport] = []
    return Callbacks(should_stop=lambda: bool(done), on_batch=done.append)
