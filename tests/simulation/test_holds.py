"""Another datacenter holds an event that it has not joined yet (protocol A16, E1, E6)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from photon.dispatcher.batch_tools import BatchTools
from photon.health.status import status_of
from photon.process.faults import RECOVERY_FAULT_POINTS, watched
from photon.registry.closing import Closing
from photon.registry.epochs import begin_epoch
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, fence_epoch
from tests.simulation import hold_stories as stories
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], stories.HOME)


def test_what_a_dead_datacenter_registered_is_joined_by_the_survivor(world: World) -> None:
    stories.what_a_dead_datacenter_registered_is_joined_within_a_minute(world)


@pytest.mark.parametrize("point", RECOVERY_FAULT_POINTS)
def test_a_survivor_that_dies_while_it_recovers_goes_on_after_its_next_start(
    world: World, point: str
) -> None:
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    assert world.join_with_a_crash(point, "east")
    world.join("east")
    world.join("west")
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("point", RECOVERY_FAULT_POINTS)
def test_of_two_survivors_the_second_ends_what_the_first_began(tmp_path: Path, point: str) -> None:
    world = World(tmp_path, ["east", "west", "south"], stories.HOME)
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    assert world.join_with_a_crash(point, "east")
    for name in ("south", "east", "west"):
        world.join(name)
    assert world.joined_ids() == ["c1", "c2"]


def test_a_fence_that_meets_another_commit_is_tried_again(world: World) -> None:
    met = list[object]()

    def meet_another(point: str, place: object) -> None:
        if point == "lake.before_commit" and str(place).endswith("west/joined_events") and not met:
            met.append(place)
            raise CommitConflict("another survivor was faster")

    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    with watched(meet_another):
        world.join("east")
    assert met
    assert world.joined_ids() == ["c1"]


def test_a_datacenter_that_was_taken_for_dead_commits_no_more(world: World) -> None:
    stories.a_datacenter_that_was_taken_for_dead_commits_no_more(world)


def test_a_process_whose_epoch_was_fenced_waits_for_its_lake_before_it_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: its process ends, for the store failed at that moment."""
    may_begin_anew, asked = BatchTools.may_begin_anew, list[str]()

    def fails_once(tools: BatchTools) -> bool:
        asked.append(tools.epoch)
        if len(asked) == 1:
            raise LakeUnavailable("the store is busy")
        return may_begin_anew(tools)

    monkeypatch.setattr(BatchTools, "may_begin_anew", fails_once)
    world.everywhere("c1")
    lake = world.pipeline.datacenters["west"].lake
    with at("commit.before_main", lambda: fence_epoch(lake, "west", "1")):
        world.join("west")
    assert world.read_state("west").epoch == "2"
    assert world.joined_ids() == ["c1"]
    assert len(asked) == 2


def test_what_is_freed_later_was_not_called_joined(world: World) -> None:
    """A16: west commits a batch without the row of what it claimed, and east looks before its close."""
    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    west = world.pipeline.datacenters["west"]
    (world.folder / "logs" / "west" / "queries" / "a.jsonl").unlink()
    for stored in (west.lake / "joined_events").glob("_event_date=*/*.parquet"):
        stored.unlink()
    looks: list[int] = []

    def look() -> None:
        east = world.join("east", callbacks=stories.stop_after_one_batch()).counts
        looks.append(east.of("joined_elsewhere"))

    with at("complete.before_transaction", look):
        world.join("west", callbacks=stories.stop_after_one_batch())
    assert looks == [0], "an event is called joined, and its id is freed"
    assert not world.is_join("c1"), "an event is called joined, and has no row"
    world.join("east")
    assert world.joined_ids() == ["c1"], "an event has no row"


def test_what_can_not_be_recovered_here_stays_pending_until_it_can(world: World) -> None:
    """E6: the dead datacenter's lake can't be read. Its events wait, and are joined once it is back."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    lake, aside = world.pipeline.datacenters["west"].lake, world.folder / "aside"
    lake.rename(aside)
    for mode in ("until_idle", "complete"):
        counts = world.join("east", mode=mode).counts  # type: ignore[arg-type]
        assert_counts(counts, foreign=2, pending=2)
    assert world.joined_ids() == []
    aside.rename(lake)
    assert world.join("east").counts.of("pending") == 0
    assert world.joined_ids() == ["c1", "c2"], "an event has no row"


def test_what_is_closed_is_joined_elsewhere_at_the_first_look(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    counts = world.join("east").counts
    assert_counts(counts, joined_elsewhere=2, pending=0)
    with closing(world.read_state("east")) as state:
        assert state.completed == 1


def test_what_is_not_closed_yet_is_joined_elsewhere_moments_after_its_close(world: World) -> None:
    world.everywhere("c1")
    claimant = world.registered_elsewhere("c1", is_closed=False)
    began_us = world.clock.now_us()
    reports: list[int] = []

    def close(_: object) -> None:
        reports.append(world.clock.now_us())
        closes = Closing(claimant.epoch, claimant.batch, lambda at, one: np.zeros(len(one.hashes), bool))
        world.reader().close(closes)

    counts = world.join("east", callbacks=stories.Callbacks(on_batch=close)).counts
    assert_counts(counts, joined_elsewhere=1, pending=0)
    assert len(reports) == 2
    assert reports[1] - began_us < 3_000_000


def test_an_epoch_that_was_fenced_and_not_closed_is_ended_by_any_process_that_sees_it(
    tmp_path: Path,
) -> None:
    """South holds nothing back, and meets none of these events."""
    world = World(tmp_path, ["east", "west", "south"], stories.HOME)
    world.events("c1")
    world.events("c1", datacenter="west")
    assert world.join_with_a_crash("claim.after", "west")
    assert world.join_with_a_crash("recover.after_passed", "east")
    reader = world.reader()
    begin_epoch(reader, "west", 0, reader.register.tables["west"])  # west's process dies here
    assert world.holder("c1") is not None
    world.queries("q1", datacenter="south")
    world.join("south")
    assert world.holder("c1") is None
    world.join("east")
    assert world.joined_ids() == ["c1"]


def test_status_says_what_to_do_about_a_datacenter_that_is_silent(world: World) -> None:
    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    lake = world.pipeline.datacenters["west"].lake
    lake.rename(world.folder / "aside")
    world.join("east")
    status = status_of(world.pipeline, "east", world.clock)
    assert status.waiting == {"held": 1}
    (problem,) = [one for one in status.problems if " held: west" in one]
    assert "1 event is held: west is silent" in problem
    assert f"there is no table {lake / 'joined_events'}" in problem
    assert "start datacenter west again" in problem
    (world.folder / "aside").rename(lake)
    world.join("east")
    assert not [
        one for one in status_of(world.pipeline, "east", world.clock).problems if " held: west" in one
    ]
