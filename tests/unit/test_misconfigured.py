"""A join's counts and logs show settings that nobody can have meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.keys import columns_of_newest
from photon.dispatcher.shift.misconfigured import (
    JoinFindings,
    LogFound,
    look_at_logs,
    signs_in,
    signs_of_misconfiguration,
)
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.values import Format
from photon.process.clock import MICROSECONDS
from photon.state.outcomes import OUTCOME_CLASSES
from photon.state.view import view_state
from tests.simulation.world import NOON_US, World

LOGS = (LogFound("primary", "logs", "q/*.csv", 3, None), LogFound("foreign", "logs", "c/*.csv", 2, None))

CSV = {"format": "csv", "time": "at"}
PIPELINE = Pipeline(
    name="a",
    file=Path("p.yaml"),
    datacenters={
        "east": {"logs": Path("logs"), "lake": Path("my lake"), "state": Path("state/east")},
        "west": {"logs": Path("logs"), "lake": "s3://bucket/west", "state": Path("state/west")},
    },
    primary={"files": "q/*.csv", "id": "q", **CSV},
    foreign={"files": "c/*.csv", "id": "c", "key": "q", **CSV},
)


def told(
    logs: tuple[LogFound, ...] = LOGS,
    overdue: int = 0,
    pipeline: Pipeline = PIPELINE,
    adapter_skips: bool = False,
    is_complete: bool = False,
    is_cut_short: bool = False,
    columns: tuple[str, ...] = (),
    **counts: int,
) -> list[str]:
    none = dict.fromkeys([*OUTCOME_CLASSES, "foreign", "primary", "primary_dead_letters"], 0)
    found = JoinFindings(logs, overdue, adapter_skips, is_complete, is_cut_short, columns=columns)
    return signs_in(pipeline, {**none, **counts}, found)


@pytest.mark.parametrize(
    "counts",
    [
        {"foreign": 9, "primary": 9, "joined": 1, "unjoinable": 8},
        {"foreign": 9, "primary": 9, "joined_elsewhere": 1, "unjoinable": 8},
        {"foreign": 9, "primary": 9, "filtered": 1, "unjoinable": 8},
        {"foreign": 9, "primary": 9, "dead_letters": 8, "filtered": 1},
        {"foreign": 9, "primary": 9, "skipped": 8, "pending": 1},
        {"foreign": 0, "primary": 9},
    ],
    ids=[
        "joined",
        "joined elsewhere",
        "a pair that the adapter dropped",
        "some dead letters",
        "some without a key",
        "no click yet",
    ],
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
    assert "no key matches: 5 foreign events were given up" in only
    assert "photon init --dry-run 'logs/q/*.csv' 'logs/c/*.csv'" in only


def test_keys_are_told_before_anything_is_given_up() -> None:
    (only,) = told(overdue=5, foreign=7, pending=7, primary=4)
    assert "no key matches: 5 foreign events wait, though primary logs are read beyond; 4 primary" in only


@pytest.mark.parametrize(("click_at_seconds", "is_told"), [(5, True), (3_600, False)])
def test_a_click_waits_in_vain_only_where_queries_are_read_beyond_it(
    tmp_path: Path, click_at_seconds: int, is_told: bool
) -> None:
    world = World(tmp_path)
    at_us = NOON_US - 600 * MICROSECONDS
    world.queries("q1", at_us=at_us)
    world.queries("q2", at_us=NOON_US)
    world.clicks(("c1", "no query"), at_us=at_us + click_at_seconds * MICROSECONDS)
    world.join()
    counts = view_state(world.pipeline.datacenters["east"].state, NOON_US).counts
    assert counts.of("pending") == 1
    assert bool(signs_of_misconfiguration(world.pipeline, "east", counts.as_dict())) is is_told


def test_a_glob_that_matches_nothing_and_a_folder_that_is_missing_are_named(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: a\ndatacenters: {here: {logs: logs}}\n"
        'primary: {files: "q/*.csv", format: csv, id: q, time: at}\n'
        'foreign: {files: "c/*.csv", format: csv, id: c, key: q, time: at}\n'
    )
    pipeline = load_pipeline(file)
    (missing,) = told(look_at_logs(pipeline, "here"))
    assert f"the folder of logs {tmp_path}/logs is not a folder that can be read" in missing
    (tmp_path / "logs" / "q").mkdir(parents=True)
    (tmp_path / "logs" / "q" / "a.csv").touch()  # nothing in it is no mistake
    (only,) = told(look_at_logs(pipeline, "here"))
    assert f"no file matches {tmp_path}/logs/c/*.csv; look at `foreign.files`" in only
    assert only.endswith("The folder has q/a.csv")


def test_files_of_which_none_could_ever_be_read_are_told_of() -> None:
    (only,) = told((LOGS[0], replace(LOGS[1], unread=2)), primary=9)
    assert only.startswith("none of the files that match logs/c/*.csv could be read")
    assert only.endswith("Mend the files, or `foreign.files` in p.yaml")


def test_foreign_lines_of_which_none_has_a_key_are_told_with_the_command_that_says_which_match() -> None:
    (only,) = told(foreign=50, skipped=50, primary=9)
    assert "all 50 foreign lines that could be read were skipped: " in only
    assert "none has the key `q` (`foreign.key`)" in only
    assert "photon init --dry-run 'logs/q/*.csv' 'logs/c/*.csv'" in only
    assert "Mend `foreign.key` in p.yaml" in only


def test_lines_without_the_key_are_told_with_the_columns_that_they_have() -> None:
    (only,) = told(foreign=50, skipped=50, columns=("click", "query"))
    assert "(`foreign.key`); the newest lines have click, query; photon init --dry-run" in only


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_the_columns_of_the_newest_lines_are_read_where_no_line_has_the_key(
    tmp_path: Path, format_: Format
) -> None:
    world = World(tmp_path, format_=format_)
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join()
    place = world.pipeline.datacenters["east"]
    read = [one for one in view_state(place.state, NOON_US).files.values() if one.file.side == "foreign"]
    assert {"click", "query"} <= set(columns_of_newest(place.logs, world.pipeline.foreign, read))


def test_a_join_that_was_stopped_is_told_of_a_wrong_key_and_not_of_files_that_it_did_not_reach() -> None:
    unread = (replace(LOGS[0], unread=3), LOGS[1])
    assert told(unread, is_cut_short=True) == []
    (only,) = told(unread, is_cut_short=True, foreign=50, skipped=50)
    assert "none has the key `q`" in only


def test_beside_lines_without_a_key_dead_letters_are_told() -> None:
    (only,) = told(foreign=50, skipped=47, dead_letters=3, primary=9)
    assert "all 47 foreign lines that could be read were skipped, the other 3 are dead letters" in only


def test_an_adapter_that_may_have_skipped_all_is_named() -> None:
    (only,) = told(foreign=50, skipped=50, primary=9, adapter_skips=True)
    assert "or the adapter photon.adapters:merge_columns skips it" in only
    assert "Mend `foreign.key` or the adapter" in only


def test_a_log_without_a_line_is_told_of_once_no_line_may_come() -> None:
    assert told(foreign=0, primary=9) == []
    (only,) = told(foreign=0, primary=9, is_complete=True)
    assert only.startswith("not one line is in the files that match logs/c/*.csv")
    (only,) = told(foreign=9, pending=9, is_complete=True)
    assert only.startswith("not one line is in the files that match logs/q/*.csv")
    assert told(primary_dead_letters=1, primary=1, foreign=9, pending=9, is_complete=True) == []


def test_what_an_epoch_that_begins_now_has_passed_over_is_not_missed() -> None:
    begins_now = PIPELINE.model_copy(update={"new_epoch_reads_from": "now"})
    assert told(pipeline=begins_now, is_complete=True) == []


def test_the_command_that_begins_anew_names_the_folders_of_all_datacenters() -> None:
    (only,) = told(foreign=2, dead_letters=2)
    assert only.endswith(
        "then begin anew: rm -rf 'my lake' state/east state/west state/registry; "
        "remove all below s3://bucket/west; and join again"
    )


@pytest.mark.parametrize(
    "counts",
    [
        {"foreign": 50, "unjoinable": 50, "primary": 9},
        {"foreign": 50, "skipped": 50, "primary": 9},
        {"foreign": 50, "unjoinable": 50, "primary": 9, "primary_dead_letters": 9},
    ],
    ids=["no key matches", "no line has the key", "all primary lines are dead letters"],
)
def test_what_the_next_join_reads_anew_by_itself_costs_nobody_a_lake(counts: dict[str, int]) -> None:
    said = told(**counts)[0]
    assert "then join again: all logs are read anew" in said
    assert "rm -rf" not in said


def test_a_registry_of_ones_own_is_left_to_what_it_knows() -> None:
    endpoints = PIPELINE.registry.model_validate({"endpoints": [{"url": "http://127.0.0.1:8000"}]})
    (only,) = told(pipeline=PIPELINE.model_copy(update={"registry": endpoints}), foreign=2, dead_letters=2)
    assert "state/registry" not in only
    assert "give the pipeline a new `name`" in only
    assert "photon registry init p.yaml; and join again" in only


@pytest.mark.parametrize("name", ["b.CSV", "B.csv.gz.zst", "a.csv.bz2", "b.Csv.XZ"])
def test_files_that_are_called_nearly_as_a_log_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "c").mkdir()
    for each in ("a.csv", name, "a.csv.1", "notes.txt", ".c.CSV.swp"):
        (tmp_path / "c" / each).write_text("")
    place = PIPELINE.datacenters["east"].model_copy(update={"logs": tmp_path})
    pipeline = PIPELINE.model_copy(update={"datacenters": {"east": place}})
    (told,) = growth_of(pipeline, "east", NOON_US).beside
    assert told.startswith(f"`foreign.files`, c/*.csv, does not match c/{name}: nobody reads them")
    assert [found.beside for found in look_at_logs(pipeline, "east")] == [(), (told,)]
