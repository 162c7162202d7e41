"""What another datacenter has registered, and not joined yet (protocol A16, E1, E6)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from photon.dispatcher.batch import BatchExecution
from photon.faults import RECOVERY_FAULT_POINTS
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.marks import Mark
from photon.registry.interface import Claim
from photon.shift.status import status_of
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, OutputTable
from tests.simulation import hold_stories as stories
from tests.simulation.world import World, counts_of


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], stories.HOME)


def test_what_a_dead_datacenter_registered_is_joined_by_the_survivor(world: World) -> None:
    stories.what_a_dead_datacenter_registered_is_joined_within_a_minute(world)


@pytest.mark.parametrize("point", RECOVERY_FAULT_POINTS)
def test_a_survivor_that_dies_while_it_recovers_goes_on_after_its_next_start(
    world: World, point: str
) -> None:
    both = stories.both_have
    both(world, "c1", "c2")
    assert world.join_with_a_crash("task.after_register", "west")
    assert world.join_with_a_crash(point, "east")
    assert world.join("east").counts.adds_up
    world.join("west")
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("point", RECOVERY_FAULT_POINTS)
def test_of_two_survivors_the_second_ends_what_the_first_began(tmp_path: Path, point: str) -> None:
    world = World(tmp_path, ["east", "west", "south"], stories.HOME)
    stories.both_have(world, "c1", "c2")
    assert world.join_with_a_crash("task.after_register", "west")
    assert world.join_with_a_crash(point, "east")
    for name in ("south", "east", "west"):
        assert world.join(name).counts.adds_up
    assert world.joined_ids() == ["c1", "c2"]


def test_a_fence_that_meets_another_commit_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence, met = OutputTable.fence, list[str]()

    def meet_another(table: OutputTable, app: str) -> None:
        met.append(app)
        if len(met) == 1:
            raise CommitConflict("another survivor was faster")
        fence(table, app)

    monkeypatch.setattr(OutputTable, "fence", meet_another)
    stories.what_a_dead_datacenter_registered_is_joined_within_a_minute(world)
    assert len(met) > 1


def test_a_datacenter_that_was_taken_for_dead_commits_no_more(world: World) -> None:
    stories.a_datacenter_that_was_taken_for_dead_commits_no_more(world)


def test_a_datacenter_that_was_taken_for_dead_waits_for_its_lake_before_it_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: its process ends, for the store failed at that moment."""
    was_taken_for_dead, asked = BatchExecution.was_taken_for_dead, list[str]()

    def fails_once(execution: BatchExecution) -> bool:
        asked.append(execution.epoch)
        if len(asked) == 1:
            raise LakeUnavailable("the store is busy")
        return was_taken_for_dead(execution)

    monkeypatch.setattr(BatchExecution, "was_taken_for_dead", fails_once)
    stories.a_datacenter_that_was_taken_for_dead_commits_no_more(world)
    assert len(asked) == 2


def test_what_is_released_later_was_not_called_joined(world: World) -> None:
    stories.what_is_released_later_was_not_called_joined(world)


def test_what_can_not_be_recovered_here_stays_pending_until_it_can(world: World) -> None:
    stories.what_can_not_be_recovered_here_stays_pending(world)


def test_what_is_published_is_joined_elsewhere_at_the_first_look(world: World) -> None:
    stories.both_have(world, "c1", "c2")
    world.join("west")
    counts = world.join("east").counts
    assert counts_of(counts, "joined_elsewhere", "pending") == {"joined_elsewhere": 2, "pending": 0}
    with closing(world.read_state("east")) as state:
        assert state.completed == 1


def test_what_is_not_published_yet_is_joined_elsewhere_a_second_later(world: World) -> None:
    stories.both_have(world, "c1")
    world.registered_elsewhere("c1", published=False)
    began_us = world.clock.now_us()
    reports: list[int] = []

    def publish(_: object) -> None:
        reports.append(world.clock.now_us())
        world.registry.marks.publish("e", Mark(1))

    callbacks = stories.Callbacks(on_batch=publish)
    counts = world.join("east", callbacks=callbacks).counts
    assert counts_of(counts, "joined_elsewhere", "pending") == {"joined_elsewhere": 1, "pending": 0}
    assert len(reports) == 2
    assert reports[1] - began_us < 2_000_000


def test_a_cleared_event_is_joined_elsewhere_though_nothing_is_published(world: World) -> None:
    stories.both_have(world, "c1")
    world.registered_elsewhere("c1", published=False)
    world.registry.clear([Claim(EventKey("c1"), "west:e:1#p:1:0")])
    assert world.join("east").counts.of("joined_elsewhere") == 1


def test_status_says_what_to_do_about_a_datacenter_that_is_silent(world: World) -> None:
    stories.both_have(world, "c1")
    assert world.join_with_a_crash("task.after_register", "west")
    lake = world.pipeline.datacenters["west"].lake
    lake.rename(world.folder / "aside")
    world.join("east")
    status = status_of(world.pipeline, "east", world.clock)
    assert status.waiting == {"held": 1}
    (problem,) = [one for one in status.problems if "held" in one]
    assert "1 records are held: datacenter west registered their events and is silent" in problem
    assert f"there is no table {lake / 'joined_events'}" in problem
    assert "start datacenter west again" in problem
    (world.folder / "aside").rename(lake)
    world.join("east")
    assert not [one for one in status_of(world.pipeline, "east", world.clock).problems if "held" in one]
