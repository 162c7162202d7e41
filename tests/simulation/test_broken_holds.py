"""Holds without one of their rules (protocol A16, E1, E6): a story finds each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher.recovery import holders
from photon.join import deciding
from photon.registry import closing
from photon.registry.lookups import Hold
from photon.state.outcomes import Verdict
from photon.storage.tables import OutputTable
from tests.simulation import hold_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], stories.HOME)


def test_what_is_held_and_counts_as_joined_is_lost_with_its_datacenter(
    world: World, monkeypatch: Patch
) -> None:  # A16
    verdicts = deciding._VERDICT_OF.copy()
    verdicts[Hold.ELSEWHERE] = Verdict.JOINED_ELSEWHERE
    monkeypatch.setattr(deciding, "_VERDICT_OF", verdicts)
    story = stories.what_a_dead_datacenter_registered_is_joined_within_a_minute
    caught_by_story(partial(story, world), because="an event has no row")


def test_a_close_that_frees_nothing_calls_joined_what_has_no_row(
    world: World, monkeypatch: Patch
) -> None:  # A7, L4
    monkeypatch.setattr(closing, "_frees", lambda *_: iter(()))
    story = partial(stories.what_is_freed_later_was_not_called_joined, world)
    caught_by_story(story, because="an event is called joined, and has no row")


@pytest.mark.parametrize(
    "story",
    [
        stories.a_datacenter_that_was_taken_for_dead_commits_no_more,
        stories.a_datacenter_that_is_retired_in_the_middle_of_a_batch_commits_no_more,
    ],
)
def test_an_end_without_a_fence_lets_a_late_commit_through(
    world: World, monkeypatch: Patch, story: Callable[[World], None]
) -> None:  # E1
    monkeypatch.setattr(OutputTable, "fence", lambda self, app: None)
    caught_by_story(partial(story, world), because="an event has two rows")


def test_what_nobody_recovers_has_no_row(world: World, monkeypatch: Patch) -> None:  # E6
    monkeypatch.setattr(holders.Holders, "tend", lambda self, count_held: False)
    monkeypatch.setattr(holders.Holders, "wait_for_others", property(lambda self: True))
    story = stories.what_a_dead_datacenter_registered_is_joined_within_a_minute
    caught_by_story(partial(story, world), because="an event has no row")
