"""The bench of left outer joins: its logs have their ills, and no fault of a row goes unseen."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from bench.outer_measurement import DELAY_MINUTES, ILLS, LAST, Row, Step, judge, steps_of

STEP: Step = {
    "queries": ['{"query_id": "q1", "time": 1}', '{"query_id": "q2", "time": 2}'],
    "clicks": ['{"click_id": "c1", "query_id": "q1", "time": 3}'],
}
RIGHT: list[Row] = [("q1", "c1"), ("q2", None)]


@pytest.mark.parametrize(
    ("rows", "lost", "doubled", "wrong"),
    [
        (RIGHT, 0, 0, 0),
        ([*RIGHT, (LAST, None)], 0, 0, 0),
        ([("q1", "c1")], 1, 0, 0),
        ([*RIGHT, ("q1", "c1")], 0, 1, 0),
        ([*RIGHT, ("q2", None)], 0, 1, 0),
        ([*RIGHT, ("q1", None)], 0, 1, 0),  # matched and unmatched
        ([("q1", None), ("q2", None)], 0, 0, 1),
        ([*RIGHT, ("q1", "c2")], 0, 0, 1),  # no such click
        ([*RIGHT, ("q3", None)], 0, 0, 1),  # no such query
    ],
)
def test_each_fault_is_counted_as_what_it_is(rows: list[Row], lost: int, doubled: int, wrong: int) -> None:
    assert judge(rows, [STEP]) == {"lost": lost, "doubled": doubled, "wrong": wrong}


def latest_before(ill: str, name: str) -> list[int]:
    """How much older each line is than the newest of those before it."""
    times = [json.loads(line)["time"] for step in steps_of(ill, 2_000, seed=1) for line in step[name]]
    newest = [max(times[: number + 1]) for number in range(len(times))]
    return [before - time for before, time in zip(newest, times[1:], strict=False) if time < before]


def test_each_ill_is_in_the_logs_that_it_is_said_to_be_in() -> None:
    assert all(gap > DELAY_MINUTES * 60_000 for gap in latest_before("late", "clicks"))
    assert latest_before("late", "clicks")
    assert not latest_before("late", "queries")
    for name in ("queries", "clicks"):
        gaps = latest_before("reordered", name)
        assert min(gaps) < DELAY_MINUTES * 60_000 < max(gaps)
        assert not latest_before("idle", name)


@pytest.mark.parametrize("ill", ILLS)
def test_queries_go_on_to_the_end_and_clicks_do_unless_they_are_idle(ill: str) -> None:
    steps = steps_of(ill, 2_000, seed=1)
    assert all(LAST not in line for step in steps[:-1] for line in step["queries"])
    assert LAST in steps[-1]["queries"][-1]
    assert any(LAST in line for line in steps[-1]["clicks"]) == (ill != "idle")
    assert all(len(one["queries"]) for one, _ in pairwise(steps[:5]))
