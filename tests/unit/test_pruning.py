"""Pruning removes runs from Dagster's history: tables of runs, and which of them go."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from photon.assets.run_history import EndedRun, RunKind, prunable

SHIFT = RunKind("shift", frozenset(), "SUCCESS")
KINDS = [
    SHIFT,
    RunKind("shift", frozenset(), "FAILURE"),
    RunKind("verification", frozenset(), "SUCCESS"),
    RunKind("__ASSET_JOB", frozenset({"clicks/joined_events"}), "SUCCESS"),
    RunKind("__ASSET_JOB", frozenset({"clicks/verification_report"}), "SUCCESS"),
]
BEFORE_US = 2_000


def run(run_id: str, ended_us: int = 1_000, kind: RunKind = SHIFT) -> EndedRun:
    return EndedRun(run_id, kind, ended_us)


PRUNED: dict[str, tuple[Sequence[EndedRun], Collection[RunKind], Sequence[str]]] = {
    "only the newest stays": ([run("b", 11), run("newest", 12), run("a", 10)], [], ["a", "b"]),
    "the newest goes too where there is a newer one": ([run("a"), run("b")], [SHIFT], ["a", "b"]),
    "a run that ended lately stays": ([run("a", BEFORE_US)], [SHIFT], []),
    "each job, choice and status keeps its newest": (
        [run(f"{age}{number}", age, kind) for number, kind in enumerate(KINDS) for age in (10, 20)],
        [],
        [f"10{number}" for number in range(len(KINDS))],
    ),
}


@pytest.mark.parametrize(("runs", "outlived", "pruned"), PRUNED.values(), ids=PRUNED.keys())
def test_runs_that_ended_long_ago_go_but_the_newest_of_each_kind(
    runs: Sequence[EndedRun], outlived: Collection[RunKind], pruned: Sequence[str]
) -> None:
    assert prunable(runs, BEFORE_US, outlived) == pruned


def test_two_runs_that_ended_at_once_do_not_both_go() -> None:
    assert len(prunable([run("a"), run("b")], BEFORE_US, ())) == 1
