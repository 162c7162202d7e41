"""Histories in which a datacenter registers events and dies (protocol A16, E1, E6).

They are told of the product by the tests of what is held.
"""

from __future__ import annotations

from photon.dispatcher.completion import Superseded
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.process.faults import arm, disarm
from photon.registry.errors import RetiredDatacenter
from photon.upkeep.retire import plan_retire
from tests.simulation.world import World, counts_of

A_MINUTE_US = 60_000_000
HOME = "home: {takeover_delay: 0s}"


def both_have(world: World, *clicks: str) -> None:
    """Each datacenter has the primary, and these clicks."""
    for name in world.pipeline.datacenters:
        world.queries("q1", datacenter=name)
        world.clicks(*((click, "q1") for click in clicks), datacenter=name)


def what_a_dead_datacenter_registered_is_joined_within_a_minute(world: World, point: str = "") -> None:
    """A16: west registers events and dies. East joins them, whatever happens to it meanwhile."""
    both_have(world, "c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    died_us = world.clock.now_us()
    if point:
        assert world.join_with_a_crash(point, "east")
    counts = world.join("east").counts
    assert world.joined_ids() == ["c1", "c2"], "an event has no row"
    assert world.clock.now_us() - died_us < A_MINUTE_US
    assert counts.adds_up
    world.join("west")
    assert world.joined_ids() == ["c1", "c2"], "an event has two rows"


def a_datacenter_that_was_taken_for_dead_commits_no_more(world: World) -> None:
    """E1: west stands still right before its commit, for as long as east needs to take over."""
    both_have(world, "c1")
    arm("commit.before_main", lambda: joins(world, "east"))
    try:
        counts = world.join("west").counts
    finally:
        disarm()
    assert world.joined_ids() == ["c1"], "an event has two rows"
    assert counts_of(counts, "foreign", "joined_elsewhere") == {"foreign": 1, "joined_elsewhere": 1}
    assert world.ledgers.register.epochs["west"] == 2, "it goes on in its old epoch"
    assert world.read_state("west").epoch == "2"


def joins(world: World, datacenter: str) -> None:
    """One shift of it."""
    world.join(datacenter)


def what_is_freed_later_was_not_called_joined(world: World) -> None:
    """A16: west commits a batch without the row of what it claimed, and east looks before its close."""
    both_have(world, "c1")
    assert world.join_with_a_crash("claim.after", "west")
    west = world.pipeline.datacenters["west"]
    (world.folder / "logs" / "west" / "queries" / "a.jsonl").unlink()
    for stored in (west.lake / "joined_events").glob("*.parquet"):
        stored.unlink()
    looks: list[int] = []

    def look() -> None:
        east = world.join("east", callbacks=stop_after_one_batch()).counts
        looks.append(east.of("joined_elsewhere"))

    arm("complete.before_transaction", look)
    try:
        world.join("west", callbacks=stop_after_one_batch())
    finally:
        disarm()
    assert looks == [0], "an event is called joined, and its id is freed"
    assert not world.is_join("c1"), "an event is called joined, and has no row"
    world.join("east")
    assert world.joined_ids() == ["c1"], "an event has no row"


def stop_after_one_batch() -> Callbacks:
    """Have a shift end after its first batch."""
    done: list[BatchReport] = []
    return Callbacks(should_stop=lambda: bool(done), on_batch=done.append)


def what_can_not_be_recovered_here_stays_pending(world: World) -> None:
    """E6: the dead datacenter's lake can't be read. Its events wait, and are joined once it is back."""
    both_have(world, "c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    lake, aside = world.pipeline.datacenters["west"].lake, world.folder / "aside"
    lake.rename(aside)
    for mode in ("until_idle", "complete"):
        counts = world.join("east", mode=mode).counts  # type: ignore[arg-type]
        assert counts_of(counts, "foreign", "pending") == {"foreign": 2, "pending": 2}
        assert counts.adds_up
    assert world.joined_ids() == []
    aside.rename(lake)
    assert world.join("east").counts.of("pending") == 0
    assert world.joined_ids() == ["c1", "c2"], "an event has no row"


def a_datacenter_that_is_retired_in_the_middle_of_a_batch_commits_no_more(world: World) -> None:
    """E1, E2: west is retired right before its commit, and east joins what it had registered."""
    both_have(world, "c1")

    def retire_and_join() -> None:
        plan_retire(world.pipeline, world.reader(), "west").apply()
        world.join("east")

    arm("commit.before_main", retire_and_join)
    try:
        world.join("west")
    except (Superseded, RetiredDatacenter):
        world.forget()
    finally:
        disarm()
    assert world.joined_ids() == ["c1"], "an event has two rows"
