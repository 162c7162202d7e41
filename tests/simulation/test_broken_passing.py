"""Batches are passed over without one of the rules (protocol A25): a story finds each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import Transaction

from photon.dispatcher import committing, startup
from photon.dispatcher.claiming_rounds import ClaimingRounds
from photon.dispatcher.committing import Committing
from photon.dispatcher.completion import Superseded
from photon.dispatcher.recovery import holders, passing
from photon.registry.view import View
from photon.state.lifecycle import Attempts
from photon.storage.tables import CommitConflict, LastCommit, OutputTable, passed_app
from tests.simulation import passing_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.put_back_stories import Copied

Patch = pytest.MonkeyPatch


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    return stories.two_that_have_joined(tmp_path)


def caught(story: Callable[..., None], because: str, *more: Any) -> None:
    caught_by_story(partial(story, *more), because)


def test_side_tables_that_no_survivor_raises_take_late_rows(world: Copied, monkeypatch: Patch) -> None:
    monkeypatch.setattr(passing, "raise_side_tables", lambda *_: None)
    caught(stories.side_rows_come_late, "a side row came late", world, "")


def test_side_tables_that_their_own_process_does_not_raise_take_late_rows(
    world: Copied, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(Committing, "raise_side_tables", lambda self, batch: None)
    caught(stories.side_rows_come_late, "a side row came late", world, "recover.after_passed")


def test_a_batch_that_is_known_by_its_plan_alone_begins_a_new_epoch(
    world: Copied, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(LastCommit, "passes_over", lambda self, before: False)
    with suppress(Superseded):
        caught(stories.a_silent_datacenter_goes_on_where_it_was, "west begins epoch 2", world)


def test_the_last_number_in_place_of_a_count_is_no_count(world: Copied, monkeypatch: Patch) -> None:
    def write(self: Any, handle: Any, files: Any, app: str, batch: int, plan_id: Any, *counts: Any) -> None:
        numbers = [type(one)(one.app_id, batch) for one in counts]
        _write(self, handle, files, app, batch, plan_id, *numbers)

    _write = OutputTable._write
    monkeypatch.setattr(OutputTable, "_write", write)
    caught(stories.a_silent_datacenter_goes_on_where_it_was, "west begins epoch 2|was not passed", world)


def test_a_batch_that_is_closed_by_a_snapshot_of_before_loses_its_rows(
    world: Copied, monkeypatch: Patch
) -> None:
    rowless, made = holders.rowless_unless_taken, list[Any]()

    def pass_over(lake: Any, *more: Any) -> Any:
        made.append(made[0] if made else rowless(OutputTable(lake, "joined_events"), lambda: False))
        return passing.pass_over(lake, *more)

    monkeypatch.setattr(holders, "pass_over", pass_over)
    monkeypatch.setattr(holders, "rowless_unless_taken", lambda *_: made[0])
    caught(stories.rows_come_right_before_the_batch_is_passed_over, "joined", world)


def test_a_lake_that_lacks_more_than_the_open_batch_passes_for_the_right_one(
    world: Copied, monkeypatch: Patch
) -> None:
    def step_for(claimed: int, closed: int, table: LastCommit, is_fenced: bool) -> passing.Step:
        return "pass" if table.batch < claimed else "raise"

    def pass_over(self: OutputTable, app: str, batch: int) -> None:
        handle = self.writable()
        count = Transaction(passed_app(app), self._reached(handle, app).passed + 1)
        self._write(handle, [], app, batch, "passed", count)

    monkeypatch.setattr(passing, "step_for", step_for)
    monkeypatch.setattr(OutputTable, "pass_over", pass_over)
    caught(stories.a_survivor_meets_a_lake_put_back, "joined|verification", world)


def test_who_does_not_look_what_ledgers_call_closed_goes_on_in_an_older_lake(
    world: Copied, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(View, "closed_through", lambda self, epoch: 0)
    caught(stories.a_lake_put_back, "it goes on for ever|goes on with a lake", world)


def test_who_does_not_look_at_side_tables_goes_on_in_an_older_lake(world: Copied, monkeypatch: Patch) -> None:
    for module in (committing, startup):
        monkeypatch.setattr(module, "furthest_side", lambda *_: 0)
    caught(stories.a_part_of_a_lake_put_back, "goes on with a lake", world)


def test_attempts_that_are_forgotten_are_made_for_ever(world: Copied, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Attempts, "again", lambda self: Attempts())
    caught(stories.each_return_dies_of_the_same_work, "attempts are forgotten", world)


def test_a_void_batch_that_ends_its_process_is_noticed(world: Copied, monkeypatch: Patch) -> None:
    claim = ClaimingRounds._claim

    def ends(self: Any, claims: Any) -> Any:
        try:
            return claim(self, claims)
        except CommitConflict as error:
            raise Superseded(str(error)) from error

    monkeypatch.setattr(ClaimingRounds, "_claim", ends)
    caught(stories.a_void_claim_ends_nobody, "its process ends", world)


def test_a_process_whose_beat_alone_counts_is_passed_over_again_and_again(
    world: Copied, monkeypatch: Patch
) -> None:
    look = holders.SilenceWatch.look

    def beats_alone(self: Any, signs: Any, now_us: int) -> None:
        look(self, {epoch: beat for epoch, (beat, _) in signs.items()}, now_us)

    monkeypatch.setattr(holders.SilenceWatch, "look", beats_alone)
    caught(stories.a_new_batch_has_its_own_silence, "is passed over at once", world)
