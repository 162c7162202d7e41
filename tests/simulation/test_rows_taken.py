"""Rows that others took stay away until recovery orders them, whatever is read or closed meanwhile (E12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.dispatcher import batch_tools, startup
from photon.dispatcher.completion import OwnHold
from photon.dispatcher.recovery import holders
from photon.dispatcher.table_answers import TableAnswers
from photon.pipeline.location import Location
from photon.releases.foreign_commits import others_took_rows
from photon.storage import followed_table
from photon.storage.delta import open_table
from photon.storage.joined_rows import CommittedRows
from photon.upkeep import retire
from tests.simulation import foreign_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.hold_stories import HOME
from tests.simulation.recovery_stories import a_row_is_removed, assert_sound
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World

Story = Callable[[World], None]
STORIES = [
    (stories.a_duplicate_brings_no_row_back, batch_tools),
    (stories.a_new_epoch_brings_no_row_back, batch_tools),
    (stories.a_start_closes_and_brings_no_row_back, startup),
    (stories.a_close_after_a_restart_brings_no_row_back, batch_tools),
    (stories.a_survivor_brings_no_row_back, holders),
    (stories.a_retirement_brings_no_row_back, retire),
]
EACH = pytest.mark.parametrize(("story", "asks"), STORIES, ids=lambda one: one.__name__.split(".")[-1])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], HOME)


@EACH
def test_no_row_comes_back_by_itself_and_recovery_brings_it_back(
    world: World, story: Story, asks: object
) -> None:
    story(world)
    assert any(report.violations for report in verify(world).values()), "nobody misses it"
    running = sorted({"east", "west"} - set(world.ledgers.register.given_up))
    for name in running:  # west begins a new epoch, to which its order goes
        world.join(name)
    recover_all(world)
    for name in running:
        world.join(name)
    assert world.joined_ids() == ["c1", "c2"]
    assert_sound(world)


@EACH
def test_who_does_not_ask_brings_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch, story: Story, asks: object
) -> None:
    monkeypatch.setattr(asks, "others_took_rows", lambda *_: False)
    caught_by_story(partial(story, world), because=stories.BACK)


def test_who_asks_again_opens_no_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.events("c1", "c2")
    world.join()
    opened: list[object] = []

    def counted(folder: Location) -> DeltaTable:
        opened.append(folder)
        return open_table(folder)

    monkeypatch.setattr(followed_table, "open_table", counted)
    table = world.table()
    CommittedRows(table)
    assert not others_took_rows(world.pipeline, "east", table)
    a_row_is_removed(world)  # opens it for itself
    found = [others_took_rows(world.pipeline, "east", table) for _ in range(3)]
    assert (found, len(opened)) == ([True] * 3, 2)


def test_a_row_that_goes_just_before_rows_are_read_stays_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_holds = TableAnswers._own_holds

    def taken_first(self: TableAnswers, ids: Sequence[str]) -> Mapping[str, OwnHold]:
        a_row_is_removed(world)
        return own_holds(self, ids)

    world.events("c1", "c2")
    world.join()
    monkeypatch.setattr(TableAnswers, "_own_holds", taken_first)
    world.clicks(("c1", "q1"))
    world.join()
    assert world.joined_ids() == ["c2"], stories.BACK


def test_a_row_that_is_taken_once_more_stays_away_too(world: World) -> None:
    stories.a_duplicate_brings_no_row_back(world)
    recover_all(world)
    world.join()
    a_row_is_removed(world)
    world.clicks(("c1", "q1"))
    world.join()
    assert world.joined_ids() == ["c2"], stories.BACK
