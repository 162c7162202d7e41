"""Recovery, verification and rebuild without one of their rules (protocol E): a story finds each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from photon.dispatcher.dispatcher import Dispatcher
from photon.dispatcher.table_answers import TableAnswers
from photon.logs import ranges
from photon.logs.files import TrackedFile
from photon.logs.ranges import Stretch
from photon.storage import replacing
from photon.storage.replacing import PlannedReplacement
from photon.storage.tables import OutputTable
from photon.verification import scope
from tests.simulation import recovery_stories as stories
from tests.simulation import test_rebuild
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


def test_a_row_is_made_again_beside_one_that_is_there(world: World, monkeypatch: Patch) -> None:  # E8
    monkeypatch.setattr(TableAnswers, "_rows", lambda self, own: {})
    story = partial(stories.a_row_that_is_there_is_not_made_again, world)
    caught_by_story(story, because="an event has two rows")


def test_what_an_earlier_plan_holds_without_a_row_counts_as_joined(
    world: World, monkeypatch: Patch
) -> None:  # A8
    monkeypatch.setattr(TableAnswers, "_may_free", lambda self, records: ())
    story = partial(stories.what_is_lost_is_found_and_made_again, world, stories.a_row_is_removed)
    caught_by_story(story, because="the rows are of")


def test_what_was_given_up_is_never_joined(tmp_path: Path, monkeypatch: Patch) -> None:  # E7
    monkeypatch.setattr(Dispatcher, "_take_order", lambda self, now_us: False)
    world = World(tmp_path, more=stories.GIVES_UP_SOON)
    story = stories.what_was_given_up_is_joined_once_its_primary_is_there
    caught_by_story(partial(story, world, "until_idle"), because="an event that was given up has no row")


def test_a_rebuild_that_replaces_whatever_is_there_drops_what_came_meanwhile(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # E3
    commit = replacing._commit

    def replace_all(
        table: OutputTable, handle: DeltaTable, wanted: PlannedReplacement, actions: object
    ) -> None:
        everything = replace(wanted, gone=frozenset(replacing.data_files(handle)))
        commit(table, handle, wanted, everything.actions(table, handle))

    monkeypatch.setattr(replacing, "_commit", replace_all)
    story = partial(test_rebuild.test_rows_that_are_appended_meanwhile_are_neither_lost_nor_doubled, tmp_path)
    caught_by_story(story, because="dict_keys")


def test_a_window_that_goes_as_far_as_the_logs_calls_missing_what_is_not_read_yet(
    world: World, monkeypatch: Patch
) -> None:  # E5
    stretches = scope.stretches_of

    def to_the_end(tracked: TrackedFile, *more: Any) -> Iterable[Stretch]:
        log = world.pipeline.datacenters["east"].logs / tracked.file.path
        return stretches(replace(tracked, offset_bytes=log.stat().st_size), *more)

    monkeypatch.setattr(scope, "stretches_of", to_the_end)
    monkeypatch.setattr(ranges, "_is_the_file", lambda *_: True)
    story = partial(stories.what_is_not_read_yet_is_not_missing, world)
    caught_by_story(story, because="what nobody has read yet is a finding")
