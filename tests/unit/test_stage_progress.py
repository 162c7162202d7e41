"""A watch of Spark's stages says how far a step is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from photon.jobs.stage_progress import RunningStages, StageWatch, reporting_stages


def watched(*looks: tuple[set[int], int, int, float]) -> list[str]:
    """Return the lines said after these looks, each with ids of stages, tasks done, all tasks, seconds."""
    said: list[str] = []
    watch = StageWatch(said.append)
    watch.step("reading logs")
    for ids, done, total, seconds in looks:
        watch.see(RunningStages(frozenset(ids), done, total), seconds)
    return said


def test_a_stage_is_told_with_its_rate_and_the_time_left() -> None:
    said = watched(({1}, 0, 200, 100.0), ({1}, 50, 200, 110.0))
    assert said == ["reading logs", "reading logs: 25 % of 200 tasks, 5 tasks/s, 30 s left"]


def test_a_stage_is_told_of_at_each_tenth_alone() -> None:
    looks = [({1}, done, 1_000, float(done)) for done in range(0, 1_000, 7)]
    assert len(watched(*looks)) == 1 + 9


def test_other_stages_begin_with_a_clock_of_their_own() -> None:
    said = watched(({1}, 0, 10, 0.0), ({2}, 0, 10, 50.0), ({2}, 5, 10, 52.0))
    assert said[1:] == ["reading logs: 50 % of 10 tasks, 2 tasks/s, 2 s left"]


def test_a_stage_of_a_few_tasks_is_over_before_anybody_reads_of_it() -> None:
    assert watched(({1}, 0, 2, 0.0), ({1}, 1, 2, 2.0)) == ["reading logs"]


def test_nothing_is_told_while_no_stage_runs() -> None:
    assert watched((set(), 0, 0, 0.0), (set(), 0, 0, 2.0)) == ["reading logs"]


def test_the_thread_that_looks_has_ended_with_the_block() -> None:
    tracker: Any = SimpleNamespace(getActiveStageIds=list, getStageInfo=lambda stage: None)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    said: list[str] = []
    with reporting_stages(session, said.append) as say:
        say("reading logs")
    assert said == ["reading logs"]
