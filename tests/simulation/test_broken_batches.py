"""Batches without one of their rules (protocol A): a story finds each. See `tests.simulation.catching`."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from photon.storage.tables import LastCommit, OutputTable
from tests.simulation import batch_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


def test_a_commit_that_is_known_by_its_number_alone_lets_two_copies_go_on(
    world: World, monkeypatch: Patch
) -> None:  # A15
    monkeypatch.setattr(LastCommit, "may_be", lambda self, other: self.batch == other.batch)
    story = partial(stories.a_batch_that_another_plan_commits_ends_the_process, world)
    caught_by_story(story, because="two copies go on under one name")


def test_rows_that_are_found_by_their_batch_alone_leave_an_event_without_one(
    world: World, monkeypatch: Patch
) -> None:  # A15
    rows_of_batches = OutputTable._rows_of_batches

    def without_plans(self: OutputTable, *which: object) -> pa.Table:
        rows = rows_of_batches(self, *which)  # type: ignore[arg-type]
        return rows.set_column(rows.column_names.index("_plan"), "_plan", pa.nulls(len(rows), pa.string()))

    monkeypatch.setattr(OutputTable, "_rows_of_batches", without_plans)
    story = partial(stories.an_event_of_a_cloned_state_is_joined, world, "task.after_register")
    caught_by_story(story, because="an event has no row")
