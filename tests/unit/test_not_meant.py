"""What nobody can have meant by a join, told from its counts and its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.join.outcomes import OUTCOME_CLASSES
from photon.pipeline.file import load_pipeline
from photon.shift.meant import LogSeen, look_at_logs, not_meant

LOGS = (LogSeen("primary", "logs/q/*.csv", 3, None), LogSeen("foreign", "logs/c/*.csv", 2, None))


def told(logs: tuple[LogSeen, ...] = LOGS, **counts: int) -> list[str]:
    none = dict.fromkeys([*OUTCOME_CLASSES, "foreign", "primary", "primary_dead_letters"], 0)
    return not_meant("p.yaml", {**none, **counts}, logs)


@pytest.mark.parametrize(
    "counts",
    [
        {"foreign": 9, "primary": 9, "joined": 1, "unjoinable": 8},
        {"foreign": 9, "primary": 9, "joined_elsewhere": 1, "unjoinable": 8},
        {"foreign": 9, "primary": 9, "dead_letters": 8, "filtered": 1},
        {"foreign": 0, "primary": 9},
    ],
    ids=["joined", "joined elsewhere", "some dead letters", "no click yet"],
)
def test_a_join_that_may_be_meant_is_told_nothing_of(counts: dict[str, int]) -> None:
    assert told(**counts) == []


def test_foreign_lines_that_are_all_dead_letters_are_told_with_who_has_the_reasons() -> None:
    (only,) = told(foreign=100, dead_letters=100, primary=9)
    assert "all 100 foreign lines" in only
    assert "photon dead-letters p.yaml" in only
    assert "`foreign` in p.yaml" in only


def test_primary_lines_that_are_all_dead_letters_are_told_too() -> None:
    (only,) = told(primary_dead_letters=7, foreign=5, unjoinable=5)
    assert "all 7 primary lines" in only


def test_keys_that_never_match_are_told_with_the_command_that_says_which_do() -> None:
    (only,) = told(foreign=5, unjoinable=5, primary=4)
    assert "no key matches: 5 foreign events" in only
    assert "photon init --dry-run" in only


def test_a_glob_that_matches_nothing_and_a_folder_that_is_missing_are_named(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: a\ndatacenters: {here: {logs: logs}}\n"
        'primary: {files: "q/*.csv", format: csv, id: q, time: at}\n'
        'foreign: {files: "c/*.csv", format: csv, id: c, key: q, time: at}\n'
    )
    pipeline = load_pipeline(file)
    missing = told(look_at_logs(pipeline, "here"))
    assert all("not a folder that can be read" in one for one in missing)
    (tmp_path / "logs" / "q").mkdir(parents=True)
    (tmp_path / "logs" / "q" / "a.csv").write_text("q,at\n")
    (only,) = told(look_at_logs(pipeline, "here"))
    assert f"no file matches {tmp_path}/logs/c/*.csv; look at `foreign.files`" in only
