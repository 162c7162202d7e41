"""After a claim `judge` says which tasks of a batch run again, and what the others leave out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from photon.dispatcher.claiming_rounds import LeftOut, concatenated, judge
from photon.registry.entry import Claimant, Claims, Epoch
from photon.storage.tokens import Occurrence

PLAN = Claimant(Epoch("east", 1), 7, "p")


def claims(*records: tuple[int, int]) -> Claims:
    """Claims of a task, each for an id, and of a record that is named by its offset."""
    many = len(records)
    hashes = np.array([(one % 3, one) for one, _ in records], np.uint64).reshape(-1, 2)
    offsets_bytes = np.array([offset for _, offset in records], np.int64)
    return Claims(PLAN, hashes, np.zeros(many, np.int64), np.ones(many, np.uint32), offsets_bytes)


def judged(tasks: Iterable[Claims], won: Iterable[bool]) -> tuple[list[int], dict[int, LeftOut]]:
    some = list(tasks)
    together = concatenated(some)
    assert together is not None
    found = judge([len(one) for one in some], together, np.array(list(won)))
    return found.again, found.left_out


def test_tasks_that_have_won_all_are_good_as_they_are() -> None:
    assert judged([claims((1, 0), (2, 9)), claims(), claims((3, 0))], [True] * 3) == ([], {})


def test_a_task_that_lost_to_somebody_else_runs_again() -> None:
    tasks = [claims((1, 0)), claims(), claims((2, 0), (3, 0)), claims((4, 0))]
    assert judged(tasks, [True, True, False, False]) == ([2, 3], {})


def test_of_an_event_that_another_task_of_the_batch_has_won_the_row_is_left_out() -> None:
    again, left_out = judged([claims((1, 0), (2, 9)), claims((5, 0), (2, 70))], [True, True, True, False])
    assert again == []
    assert left_out[1].which.tolist() == [False, True]
    assert left_out[1].joined_at == [Occurrence(1, 9)]
    assert left_out.keys() == {1}


def test_whoever_lost_to_another_task_and_to_somebody_else_runs_again_and_leaves_nothing_out() -> None:
    tasks = [claims((1, 0)), claims((1, 8), (2, 0)), claims((1, 9))]
    again, left_out = judged(tasks, [True, False, False, False])
    assert again == [1]
    assert left_out.keys() == {2}


@pytest.mark.parametrize("other", [4, 7])  # both have the upper half of the hash of 1
def test_an_id_is_told_by_its_whole_hash(other: int) -> None:
    assert judged([claims((1, 0)), claims((other, 0))], [True, False]) == ([1], {})


def test_claims_of_tasks_without_any_are_none() -> None:
    assert concatenated([claims(), claims()]) is None
