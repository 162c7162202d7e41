"""Records of one event in two tasks of a batch: the row of one of them is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from photon.join.left_out import leave_out
from photon.join.messages import JoinResult
from photon.registry.lookups import claimant_of
from photon.state.outcomes import HeldRecord
from photon.storage.candidate_files import list_of
from photon.storage.delta import LakeUnavailable
from photon.storage.tokens import Occurrence
from tests.unit.join_world import NOON_US, PLAN, JoinWorld, claimed, ids_at_home

DAY_US = 24 * 3600 * 1_000_000
ONE, TWO, THREE = ids_at_home("east", 3)
ELSEWHERE = Occurrence(9, 9)  # the record of the other task


@pytest.fixture
def world(tmp_path: Path) -> JoinWorld:
    world = JoinWorld(tmp_path)
    world.queries("q1", "q2", "q3")
    return world


def left_out(world: JoinWorld, result: JoinResult, *ids: str) -> JoinResult:
    """The result without the rows of these events."""
    places = {str(world.places[one][0]) for one in ids}
    assert result.claims is not None
    claims = zip(result.claims.files.tolist(), result.claims.offsets_bytes.tolist(), strict=True)
    which = np.array([str(Occurrence(*place)) in places for place in claims], bool)
    return leave_out(result, which, [ELSEWHERE] * len(ids), world.context)


def test_what_is_left_out_has_no_row_and_no_claim(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"), (THREE, "q3"))
    result = left_out(world, world.run(), TWO)
    assert {row["_event_id"] for row in world.rows(result)} == {ONE, THREE}
    assert claimed(result.claims, ONE, THREE)


def test_its_record_is_a_duplicate_of_the_one_that_joins(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"), (TWO, "q1"))
    result = left_out(world, world.run(), TWO)
    assert result.classes == {"joined": 1, "duplicates": 2}
    held = HeldRecord(TWO, world.places[TWO][0], claimant_of(PLAN), ELSEWHERE)
    assert result.joined_by_another_task == (held,)


def test_the_file_with_its_row_is_needed_no_more_and_the_others_are(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), at_us=NOON_US - DAY_US)
    world.clicks((TWO, "q2"), (THREE, "q3"), file="b.jsonl")
    before = world.run()
    result = left_out(world, before, TWO)
    gone = {file.path for file in before.files} - {file.path for file in result.files}
    assert set(result.unneeded_files) == gone | {list_of(file) for file in before.files}
    assert len(gone) == 1
    assert {row["_event_id"] for row in world.rows(result)} == {ONE, THREE}


def test_a_task_without_another_row_has_no_file(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q9"))
    result = left_out(world, world.run(), ONE)
    assert result.files == ()
    assert result.classes == {"duplicates": 1}


def test_other_files_of_the_task_stay(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"))
    world.held.boundary_us = NOON_US - DAY_US
    world.clicks((TWO, "q2"), at_us=NOON_US - 2 * DAY_US)
    result = left_out(world, world.run(), ONE)
    assert [file.table for file in result.files] == ["too_old"]


def test_a_row_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(world: JoinWorld) -> None:
    world.clicks((ONE, "q1"), (TWO, "q2"))
    result = world.run()
    (file,) = result.files
    (world.context.folders.lake / "joined_events" / file.path).unlink()  # type: ignore[union-attr]
    with pytest.raises(LakeUnavailable):
        left_out(world, result, ONE)
