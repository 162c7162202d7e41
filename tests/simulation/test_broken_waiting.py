"""Leave out one rule of waiting records (protocol A22, C5, D4), and a story finds it."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from photon.dispatcher import planning
from photon.pipeline.sections import Retry
from photon.state.dispatcher_state import DispatcherState
from photon.state.waiting.states import WaitingState
from photon.state.waiting.waiting_list import WaitingList
from tests.simulation import test_waiting
from tests.simulation import waiting_stories as stories
from tests.simulation.catching import caught_by_story
from tests.simulation.world import World

Patch = pytest.MonkeyPatch


def test_retries_that_stay_in_their_segment_wait_twice(world: World, monkeypatch: Patch) -> None:  # A22
    mark = WaitingList.mark

    def keep(self: WaitingList, retries: object, state: WaitingState) -> None:
        if state is not WaitingState.GONE:
            mark(self, retries, state)  # type: ignore[arg-type]

    monkeypatch.setattr(WaitingList, "mark", keep)
    story = partial(stories.a_record_is_in_one_segment_at_a_time, world)
    caught_by_story(story, because="the classes don't add up")  # a record waits in two segments


def test_an_event_whose_age_is_that_of_its_time_is_given_up_at_once(
    world: World, monkeypatch: Patch
) -> None:  # C5
    may_be_given_up = planning.may_be_given_up

    def by_its_own_time(
        attempts: npt.NDArray[np.integer],
        first_seen_us: npt.NDArray[np.int64],
        primary_us: npt.NDArray[np.int64],
        now_us: int,
        watermark_us: int | None,
        retry: Retry,
    ) -> npt.NDArray[np.bool_]:
        return may_be_given_up(attempts, primary_us, primary_us, now_us, watermark_us, retry)

    monkeypatch.setattr(planning, "may_be_given_up", by_its_own_time)
    story = partial(stories.an_event_of_last_year_waits_for_its_primary, world)
    caught_by_story(story, because="an event of last year is given up")


def test_what_a_complete_run_gave_up_and_a_later_one_does_not_take_up_is_never_joined(
    world: World, monkeypatch: Patch
) -> None:  # D4
    monkeypatch.setattr(DispatcherState, "reopen_unjoinable", lambda self: 0)
    monkeypatch.setattr(WaitingList, "wake", lambda self, new_hashes: 0)
    story = test_waiting.test_an_event_given_up_in_a_complete_run_is_looked_for_again_by_a_later_one
    caught_by_story(partial(story, world), because="assert \\[\\] == ")
