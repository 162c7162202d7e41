"""Mended dead letters without one of their rules (protocol E4, docs/adr/0047): a story finds each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher import taking_orders
from photon.dispatcher.reading_again import SecondReading
from photon.storage.mended_letters import mended_letters
from photon.upkeep.backfill import records_at
from photon.verification import scope
from photon.verification.classes import Evidence, class_of
from photon.verification.tasks import TaskScope
from tests.simulation import failing_adapter, verifying
from tests.simulation import mending_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_verification_reads_the_line_of_the_log(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(TaskScope, "mended_in", lambda *_: {})
    caught_by_story(
        partial(stories.a_mended_line_is_joined_in_its_place, world), because="verification finds"
    )


def test_the_lake_is_not_told_of_what_is_taken_up(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(taking_orders, "add_mended", lambda *_: None)
    caught_by_story(
        partial(stories.a_mended_line_is_joined_in_its_place, world), because="verification finds"
    )


def test_a_letter_that_was_taken_up_stays_one(tmp_path: Path, monkeypatch: Patch) -> None:
    fails: list[str] = []
    monkeypatch.setattr(failing_adapter, "fails_on", fails)
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    monkeypatch.setattr(scope, "mended_letters", lambda *_: {})
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    story = partial(stories.a_letter_that_is_looked_at_again_and_dropped_is_filtered, world, fails)
    caught_by_story(story, because="verification finds")


def test_a_letter_that_waits_counts_as_one(world: World, monkeypatch: Patch) -> None:
    def as_before(evidence: Evidence) -> object:
        is_letter = evidence & (Evidence.BAD_LINE | Evidence.DEAD_LETTER)
        return class_of(evidence & ~Evidence.PENDING if is_letter else evidence)

    monkeypatch.setattr(verifying, "class_of", as_before)
    story = partial(stories.a_mended_line_is_joined_in_its_place, world, ("order.after_taken",))
    caught_by_story(story, because="verification finds")


def test_a_letter_that_is_about_to_be_taken_up_counts_as_none(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(scope, "mended_letters", lambda *args: mended_letters(*args[:3]))
    story = partial(stories.a_mended_line_is_joined_in_its_place, world, ("order.after_mended",))
    caught_by_story(story, because="'missing'")


def test_a_record_that_is_read_again_is_read_from_the_log(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(SecondReading, "mended", lambda self: {})
    story = partial(stories.a_mended_record_waits_with_its_own_line, world, damaged=True)
    caught_by_story(story, because="a mended record is lost")


def test_a_row_of_a_mended_record_is_made_of_the_log(world: World, monkeypatch: Patch) -> None:
    monkeypatch.setattr(SecondReading, "mended", lambda self: {})
    story = partial(stories.a_row_of_a_mended_record_is_made_again, world)
    caught_by_story(story, because="does not come back")


def test_a_rebuild_makes_the_row_of_the_line_of_the_log(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(records_at, "as_mended", lambda lines, *_: lines)
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:echo")
    story = partial(stories.a_rebuild_makes_the_row_of_the_mended_line, world)
    caught_by_story(story, because="of the line of the log")
