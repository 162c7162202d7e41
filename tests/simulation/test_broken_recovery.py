"""Recovery, verification and rebuild without one of their rules (protocol E): a story finds each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from photon.dispatcher import taking_orders
from photon.dispatcher.dispatcher import Dispatcher
from photon.dispatcher.recovery.orders import Order, OrderedRecord
from photon.dispatcher.table_answers import TableAnswers
from photon.logs import ranges
from photon.logs.files import TrackedFile
from photon.logs.ranges import Stretch
from photon.registry.entry import Claimant
from photon.registry.view import Holders
from photon.state.plan import PlanContent
from photon.state.waiting.retries import Retries
from photon.storage import replacing
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence
from photon.verification import recovery, scope
from tests.simulation import recovery_stories as stories
from tests.simulation import test_rebuild
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_row_that_is_gone_never_comes_back(world: World, monkeypatch: Patch) -> None:  # E8
    def all_have_rows(self: TableAnswers, own: Mapping[str, Claimant]) -> dict[str, Occurrence]:
        return dict.fromkeys(own, Occurrence(9, 0))

    monkeypatch.setattr(TableAnswers, "_rows", all_have_rows)
    story = partial(stories.what_is_lost_is_found_and_made_again, world, stories.a_row_is_removed)
    caught_by_story(story, because="the rows are of")


def test_a_row_is_made_again_beside_one_that_is_there(world: World, monkeypatch: Patch) -> None:  # E8
    monkeypatch.setattr(TableAnswers, "_rows", lambda self, own: {})
    story = partial(stories.a_row_that_is_there_is_not_made_again, world)
    caught_by_story(story, because="an event has two rows")


def test_two_tasks_make_the_row_of_one_event_again(world: World, monkeypatch: Patch) -> None:  # E8
    def one_plan(segment: str, records: pa.Table) -> list[PlanContent]:
        rows, places = np.arange(len(records)), (records["_file"].to_numpy(), records["_offset"].to_numpy())
        return [PlanContent(retries=(Retries.of(segment, rows, *places, rows < 0),))]

    monkeypatch.setattr(taking_orders, "_plans", one_plan)
    monkeypatch.setattr(Holders, "are_won", lambda self, claims: self.are_of(claims.claimant))
    story = partial(stories.many_records_of_lost_events_get_one_row_each, world)
    caught_by_story(story, because="an event has two rows")


def test_what_another_datacenter_has_registered_is_ordered_here(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # E8
    monkeypatch.setattr(recovery, "acts_on", lambda case, datacenter, retired: datacenter)
    world = World(tmp_path, ["east", "west"], stories.HOME)
    story = partial(stories.the_owner_alone_makes_a_row_again, world)
    caught_by_story(story, because="another than the owner makes a row again")


def test_an_order_that_is_taken_twice_counts_twice(tmp_path: Path, monkeypatch: Patch) -> None:  # E4
    def all_of_it(order: Order, *_: object) -> tuple[list[OrderedRecord], list[OrderedRecord]]:
        return list(order.records), []

    monkeypatch.setattr(taking_orders, "still_open", all_of_it)
    world = World(tmp_path, more=stories.GIVES_UP_SOON)
    story = partial(stories.what_was_given_up_is_joined_once_its_primary_is_there, world, "until_idle")
    caught_by_story(story, because="an order counts twice")


def test_what_was_given_up_is_never_joined(tmp_path: Path, monkeypatch: Patch) -> None:  # E7
    monkeypatch.setattr(Dispatcher, "_take_order", lambda self, now_us: False)
    world = World(tmp_path, more=stories.GIVES_UP_SOON)
    story = stories.what_was_given_up_is_joined_once_its_primary_is_there
    caught_by_story(partial(story, world, "until_idle"), because="an event that was given up has no row")


def test_a_rebuild_that_replaces_whatever_is_there_drops_what_came_meanwhile(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # E3
    commit = replacing._commit

    def replace_all(table: OutputTable, handle: DeltaTable, gone: object, *more: Any) -> None:
        commit(table, handle, replacing.data_files(handle), *more)

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
