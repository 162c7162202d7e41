"""Histories in which something is lost for the promises, and recovery mends it (protocol E4, E7, E8).

Tests tell them of the product, and `test_broken_recovery` of a product without the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from photon.dispatcher.dispatcher import Mode
from photon.join.tasks import LocalRunner
from photon.state.waiting.waiting_list import WaitingList
from photon.storage.tables import OutputTable
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World, assert_counts

Plant = Callable[[World], None]
A_MINUTE_SECONDS = 60.0
GIVES_UP_SOON = "retry: {unjoinable_after: 1m, allowed_lateness: 1s}\n"
# A second recovery that does not see the order of the first: it looked before that was written.
BOTH_LOOKED_BEFORE = mock.patch("photon.upkeep.recovery.already_ordered", return_value={})
HOME = "home: {takeover_delay: 0s}\n"


def joined_world(world: World) -> World:
    """Two events are joined; of c1 there are two records, the second of them a duplicate."""
    world.events("c1", "c2", "c1")
    world.join()
    assert_sound(world)
    return world


# -- faults to plant, all of event c1


def a_row_is_removed(world: World, event: str = "c1") -> None:
    """Remove the row of an event; its id stays joined."""
    for place in world.pipeline.datacenters.values():
        table = OutputTable(place.lake, "joined_events")
        if table.exists():
            table.load().delete(f"_event_id = '{event}'")


def a_row_is_removed_and_its_id_free(world: World) -> None:
    """Remove the row of c1 and free its id, so that nobody knows of the event."""
    a_row_is_removed(world)
    world.free("c1")


FAULTS: dict[str, Plant] = {
    "row removed": a_row_is_removed,
    "row removed and id free": a_row_is_removed_and_its_id_free,
}


# -- what follows


def what_is_lost_is_found_and_made_again(world: World, plant: Plant, points: tuple[str, ...] = ()) -> None:
    """Verification finds it, recovery orders it, the dispatcher joins it, verification is content."""
    joined_world(world)
    before = world.join().counts.as_dict()
    plant(world)
    found = verify(world)["east"]
    assert found.violations, "the fault is not found"
    assert all("photon recover" in one.meaning.remedy for one in found.violations)
    recover_all(world)
    for point in points:
        world.join_with_a_crash(point)
    after = world.join().counts.as_dict()
    assert world.joined_ids() == ["c1", "c2"], f"the rows are of {world.joined_ids()}"
    assert after == before, f"the counts were {before} and are {after}"
    assert_sound(world)


def assert_sound(world: World) -> None:
    """Verification finds nothing, and the classes that the dispatchers have counted."""
    for name, report in verify(world).items():
        assert not report.findings, f"{name}: {report.as_dict()}"


def what_was_given_up_is_joined_once_its_primary_is_there(world: World, mode: Mode) -> None:
    """E7: two events are given up, and the primary of one comes unnoticed. Two people recover."""
    world.queries("q2")
    world.clicks(("c1", "q1"), ("c2", "q2"), ("c3", "never"))
    give_up(world, mode)
    assert_counts(world.join().counts, joined=1, unjoinable=2)
    with mock.patch.object(WaitingList, "wake", return_value=0):
        world.queries("q1")
        world.join()
    assert world.joined_ids() == ["c2"]
    (found,) = verify(world)["east"].findings
    assert found.kind.startswith("unjoinable_but_joinable")
    assert "photon recover" in found.meaning.remedy
    recover_all(world)
    with BOTH_LOOKED_BEFORE:
        recover_all(world)
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"], "an event that was given up has no row"
    assert counts.of("joined") == 2, f"an order counts twice: {counts.as_dict()}"
    assert counts.of("unjoinable") == 1
    assert_sound(world)


def give_up(world: World, mode: Mode) -> None:
    """Declare the inputs complete; or let an event wait until nobody looks for it any more."""
    if mode == "complete":
        world.join(mode="complete")
        return
    for _ in range(5):
        world.queries("later", at_us=world.clock.now_us() + 10_000_000)
        world.join()
        world.clock.advance(A_MINUTE_SECONDS)


def a_row_that_is_there_is_not_made_again(world: World) -> None:
    """E8: a report says that a row is gone, and by the time of the order it is back."""
    joined_world(world)
    before = world.join().counts.as_dict()
    table = world.table()
    version = table.load().version()
    a_row_is_removed(world)
    recover_all(world)
    table.load().restore(version)
    after = world.join().counts.as_dict()
    assert world.joined_ids() == ["c1", "c2"], "an event has two rows"
    assert after == before, f"the counts were {before} and are {after}"


def of_four_workers(world: World) -> LocalRunner:
    """Make a runner whose tasks all decide before any of them writes, as parallel tasks may."""
    runner = LocalRunner(world.clock)
    runner.workers = 4
    return runner


def what_is_not_read_yet_is_not_missing(world: World) -> None:
    """A verification looks at what is committed, and events come on (E5)."""
    world.events("c1")
    world.join()
    world.clicks(("c2", "q1"))
    assert not verify(world)["east"].findings, "what nobody has read yet is a finding"
