"""Which runs of Dagster's history may go."""

from __future__ import annotations

from assets.run_history import EndedRun, Kind, prunable

SHIFT = Kind("shift", frozenset(), "east", "SUCCESS")
LONG_AGO_US, BEFORE_US = 1_000, 2_000


def run(run_id: str, kind: Kind = SHIFT, ended_us: int = LONG_AGO_US) -> EndedRun:
    return EndedRun(run_id, kind, ended_us)


def test_of_runs_that_ended_long_ago_only_the_newest_stays() -> None:
    runs = [run("b", ended_us=11), run("newest", ended_us=12), run("a", ended_us=10)]
    assert prunable(runs, BEFORE_US, ()) == ["a", "b"]


def test_the_newest_goes_too_where_there_is_a_newer_one() -> None:
    assert prunable([run("a"), run("b")], BEFORE_US, [SHIFT]) == ["a", "b"]


def test_a_run_that_ended_lately_stays() -> None:
    assert prunable([run("a", ended_us=BEFORE_US)], BEFORE_US, [SHIFT]) == []


def test_each_partition_job_choice_and_status_keeps_its_newest_run() -> None:
    kinds = [
        SHIFT,
        Kind("shift", frozenset(), "west", "SUCCESS"),
        Kind("shift", frozenset(), "east", "FAILURE"),
        Kind("verification", frozenset(), "", "SUCCESS"),
        Kind("__ASSET_JOB", frozenset({"clicks/joined_events"}), "east", "SUCCESS"),
        Kind("__ASSET_JOB", frozenset({"clicks/verification_report"}), "", "SUCCESS"),
    ]
    runs = [run(f"{age}{number}", kind, age) for number, kind in enumerate(kinds) for age in (10, 20)]
    assert prunable(runs, BEFORE_US, ()) == [f"10{number}" for number in range(len(kinds))]


def test_two_runs_that_ended_at_once_do_not_both_go() -> None:
    assert len(prunable([run("a"), run("b")], BEFORE_US, ())) == 1
