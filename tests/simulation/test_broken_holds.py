"""Holds without one of their rules (protocol A16, E1, E6): a story finds each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher.batch import BatchExecution
from photon.dispatcher.completion import Results
from photon.dispatcher.log_reader import LogReader
from photon.join import deciding
from photon.recovery import holders
from photon.state.plan import Plan
from photon.storage.tables import OutputTable
from tests.simulation import hold_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], stories.HOME)


def test_what_is_registered_and_counts_as_joined_is_lost_with_its_datacenter(
    world: World, monkeypatch: Patch
) -> None:  # A16
    monkeypatch.setattr(deciding, "is_published", lambda holder, published: True)
    story = stories.what_a_dead_datacenter_registered_is_joined_within_a_minute
    caught_by_story(partial(story, world), because="an event has no row")


def test_a_mark_before_the_release_calls_joined_what_is_released(
    world: World, monkeypatch: Patch
) -> None:  # A16
    complete = BatchExecution._complete

    def publish_and_complete(
        self: BatchExecution, plan: Plan, reader: LogReader, results: Results
    ) -> Counter[str]:
        self.announcer.completed(plan.key.batch)
        self.announcer.finish()  # at once
        return complete(self, plan, reader, results)

    monkeypatch.setattr(BatchExecution, "_complete", publish_and_complete)
    story = partial(stories.what_is_released_later_was_not_called_joined, world)
    caught_by_story(story, because="an event is called joined, and its id is released")


@pytest.mark.parametrize(
    "story",
    [
        stories.a_datacenter_that_was_taken_for_dead_commits_no_more,
        stories.a_datacenter_that_is_retired_in_the_middle_of_a_batch_commits_no_more,
    ],
)
def test_a_release_without_a_fence_lets_a_late_commit_through(
    world: World, monkeypatch: Patch, story: Callable[[World], None]
) -> None:  # E1
    row_status_of = OutputTable.row_status_of

    def without_undecided(self, tokens):  # type: ignore[no-untyped-def]
        status = row_status_of(self, tokens)
        return {token: "no row" if one == "undecided" else one for token, one in status.items()}

    monkeypatch.setattr(OutputTable, "fence", lambda self, app: None)
    monkeypatch.setattr(OutputTable, "row_status_of", without_undecided)
    caught_by_story(partial(story, world), because="an event has two rows")


def test_what_nobody_recovers_has_no_row(world: World, monkeypatch: Patch) -> None:  # E6
    monkeypatch.setattr(holders.Holders, "tend", lambda self, count_held: False)
    monkeypatch.setattr(holders.Holders, "wait_for_others", property(lambda self: True))
    story = stories.what_a_dead_datacenter_registered_is_joined_within_a_minute
    caught_by_story(partial(story, world), because="an event has no row")
