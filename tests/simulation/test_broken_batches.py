"""Batches without one of their rules (protocol A): a story finds each. See `tests.simulation.catching`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from photon.dispatcher import completion, leftovers
from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.waiting_repair import WaitingRepair
from photon.join import candidates
from photon.join.joiner import Joiner
from photon.state.failing import AdapterCalls
from photon.state.lifecycle import Attempts
from photon.state.waiting.segments import INDEX, RECORDS
from photon.storage.output_files import OutputFile
from photon.storage.tables import LastCommit, OutputTable, app_id
from photon.storage.tokens import PlanKey
from tests.simulation import adapter_stories, failing_adapter
from tests.simulation import batch_stories as stories
from tests.simulation.catching import caught_by_story, search
from tests.simulation.runners import Hangs, KillsTheDriver, PoisonedRunner
from tests.simulation.test_random_losses import problem_of
from tests.simulation.world import World
from tests.support.shares import a_share

Patch = pytest.MonkeyPatch


def test_a_commit_that_is_known_by_its_number_alone_lets_two_copies_go_on(
    world: World, monkeypatch: Patch
) -> None:  # A15
    monkeypatch.setattr(LastCommit, "may_be", lambda self, other: self.batch == other.batch)
    story = partial(stories.a_batch_that_another_plan_commits_ends_the_process, world)
    caught_by_story(story, because="two copies go on under one name")


def test_rows_that_are_not_stored_before_they_are_registered_are_lost_with_their_log(
    world: World, monkeypatch: Patch
) -> None:  # A14
    monkeypatch.setattr(leftovers, "candidate_files", lambda *_: [])
    monkeypatch.setattr(candidates, "own_candidate_files", lambda *_: [])
    story = stories.what_is_claimed_is_joined_though_its_log_is_gone
    caught_by_story(partial(story, world, "clicks", "claim.after"), because="an id is claimed and has no row")


@pytest.mark.parametrize("runner", a_share([KillsTheDriver, Hangs], 0))
def test_attempts_that_are_not_counted_run_one_record_again_and_again(
    world: World, monkeypatch: Patch, runner: type[PoisonedRunner]
) -> None:  # A17
    monkeypatch.setattr(Attempts, "why_no_more", lambda self, is_piece: None)
    story = partial(stories.a_record_that_never_lets_its_batch_end_is_a_dead_letter, world, runner(world))
    caught_by_story(story, because="one record is run again and again")


def test_a_side_table_that_is_compared_by_its_version_alone_loses_what_the_second_run_finds(
    world: World, monkeypatch: Patch
) -> None:  # A12
    def by_version(
        self: OutputTable, files: Sequence[OutputFile], datacenter: str, plan: PlanKey, earlier: object
    ) -> None:
        app = app_id(datacenter, plan.epoch, self.name)
        if self.version_of(app) < plan.batch:
            self.commit(files, app, plan.batch, None, plan.plan_id)

    monkeypatch.setattr(OutputTable, "commit_missing", by_version)
    story = partial(stories.dead_letters_that_only_the_second_run_finds_are_recorded, world)
    caught_by_story(story, because="a dead letter is not recorded once")


@pytest.mark.parametrize("suffix", a_share([RECORDS, INDEX], 0))
def test_a_bad_waiting_segment_that_is_not_made_again_stops_the_datacenter(
    world: World, monkeypatch: Patch, suffix: str
) -> None:  # A19
    monkeypatch.setattr(WaitingRepair, "mend", lambda self, segment, files: "not mended")
    story = partial(stories.records_of_a_bad_segment_are_found_again, world, "cut short", suffix)
    caught_by_story(story, because="a bad waiting segment stops the datacenter")


def test_random_losses_find_that_what_has_no_row_is_not_freed(
    tmp_path: Path, monkeypatch: Patch
) -> None:  # A7
    monkeypatch.setattr(candidates, "own_candidate_files", lambda *_: [])
    monkeypatch.setattr(leftovers, "candidate_files", lambda *_: [])
    monkeypatch.setattr(BatchCloses, "_rowless", lambda self: lambda at, one: np.zeros(len(one.hashes), bool))
    search(partial(problem_of, tmp_path), range(8), "an id is claimed and has no row", "random losses")


# -- an adapter that fails on most of its pairs (A21)


@pytest.fixture
def failing_world(tmp_path: Path) -> World:
    return World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")


def test_a_batch_that_goes_on_whatever_its_adapter_fails_on_is_noticed(
    failing_world: World, monkeypatch: Patch
) -> None:  # A21
    monkeypatch.setattr(Joiner, "_count", count_alone)
    monkeypatch.setattr(completion, "check_adapter", lambda *_: None)
    story = adapter_stories.what_the_adapter_fails_on_is_joined_once_it_is_mended
    caught_by_story(partial(story, failing_world, monkeypatch), because="leaves 60 dead letters")


def count_alone(self: Joiner, calls: AdapterCalls) -> None:
    self.verdicts.adapter_calls += calls
