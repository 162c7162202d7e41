"""Settings that change while a pipeline lives: refused, or what was not joined is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.other_settings import SettingsChanged
from photon.dispatcher.planning import MIN_ATTEMPTS
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.process.faults import START_FAULT_POINTS
from photon.state.database import STATE_FILE
from tests.simulation.world import NOON_US, World, assert_counts


def change(world: World, old: str, new: str) -> None:
    """Edit the pipeline file, as a person does; its registry and its clock stay."""
    path = world.pipeline.file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    world.pipeline = load_pipeline(path)


def epoch_of(world: World) -> str | None:
    with world.state_of("east") as state:
        return state.epoch


def log(world: World, kind: str, *records: dict[str, Any] | str, file: str = "a.jsonl") -> None:
    world.log("east", kind, *records, file=file)


def test_a_key_that_is_mended_mid_life_joins_what_was_unjoinable(world: World) -> None:
    for number in range(20):
        log(world, "queries", {"query": f"q{number}", "uid": f"u{number}", "at": NOON_US})
        log(world, "clicks", {"click": f"c{number}", "query": f"q{number}", "uid": "?", "at": NOON_US})
    world.join(mode="complete")
    change(world, "id: query", "id: uid")
    change(world, "key: query", "key: uid")
    for number in range(20):
        log(world, "clicks", {"click": f"d{number}", "uid": f"u{number}", "at": NOON_US})
    counts = world.join(mode="complete").counts
    assert len(world.joined_ids()) == len(set(world.joined_ids())) == 40
    assert_counts(counts, joined=40, unjoinable=0, pending=0)


def test_a_state_that_remembers_no_settings_is_not_taken_for_one_of_these(world: World) -> None:
    log(world, "queries", {"query": "q1", "uid": "u1", "at": NOON_US})
    log(world, "clicks", {"click": "c1", "query": "?", "uid": "u1", "at": NOON_US})
    world.join(mode="complete")
    with closing(sqlite3.connect(world.state() / STATE_FILE)) as db:
        assert db.execute("DELETE FROM meta WHERE key = 'settings'").rowcount
        db.commit()
    change(world, "id: query", "id: uid")
    change(world, "key: query", "key: uid")
    world.join(mode="complete")
    assert world.joined_ids() == ["c1"]
    epoch = epoch_of(world)
    world.join(mode="complete")
    assert epoch_of(world) == epoch


def test_a_unit_of_primary_times_that_is_mended_moves_the_watermark_of_what_was_read_before(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, more="retry: {unjoinable_after: 10m}")
    world.clicks(("orphan", "never"))
    log(world, "queries", {"query": "q1", "at": NOON_US // MICROSECONDS + 60})  # us: in 1970
    for _ in range(3):
        world.clock.advance(3_600)
        assert world.join().counts.of("pending") == 1
    change(world, "id: query, time: at, time_unit: us", "id: query, time: at, time_unit: s")
    for _ in range(MIN_ATTEMPTS):
        world.join()
        world.clock.advance(3_600)
    assert world.join().counts.of("unjoinable") == 1


def test_another_delimiter_reads_the_logs_again(tmp_path: Path) -> None:
    world = World(tmp_path, format_="csv")
    log(world, "queries", f"query,at\nq1,{NOON_US}\n", file="a.csv")
    log(world, "clicks", f"click;query;at\nc1;q1;{NOON_US}\n", file="a.csv")
    world.join(mode="complete")
    assert world.joined_ids() == []
    change(
        world,
        'foreign: {files: "clicks/*.csv", format: csv',
        'foreign: {files: "clicks/*.csv", format: csv, delimiter: ";"',
    )
    world.join(mode="complete")
    assert world.joined_ids() == ["c1"]


def test_other_settings_read_all_again_though_new_epochs_read_from_now(tmp_path: Path) -> None:
    world = World(tmp_path, more="new_epoch_reads_from: now")
    log(world, "queries", {"query": "q1", "at": NOON_US})
    log(world, "clicks", {"click": "c1", "query": "x", "q": "q1", "at": NOON_US})
    world.join(mode="complete")
    change(world, "key: query", "key: q")
    world.join(mode="complete")
    assert world.joined_ids() == ["c1"]


@pytest.mark.parametrize("point", START_FAULT_POINTS)
def test_a_crash_in_the_middle_of_beginning_anew_loses_nothing(tmp_path: Path, point: str) -> None:
    world = World(tmp_path, more="new_epoch_reads_from: now")
    log(world, "queries", {"query": "q1", "at": NOON_US})
    log(world, "clicks", {"click": "c1", "query": "x", "q": "q1", "at": NOON_US})
    world.join(mode="complete")
    change(world, "key: query", "key: q")
    assert world.join_with_a_crash(point, mode="complete")
    world.join(mode="complete")
    assert world.joined_ids() == ["c1"]


def test_a_glob_that_finds_more_is_no_new_epoch(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    epoch = epoch_of(world)
    (world.folder / "logs" / "east" / "more").mkdir()
    change(world, 'files: "clicks/*.jsonl"', 'files: "[cm]*/*.jsonl"')
    log(world, "more", {"click": "c2", "query": "q2", "at": NOON_US})
    world.join()
    assert (epoch_of(world), world.joined_ids()) == (epoch, ["c1", "c2"])
    change(world, 'files: "[cm]*/*.jsonl"', 'files: "clicks/*.jsonl"')
    counts = world.join().counts
    assert epoch_of(world) != epoch, "a file that is known counts no more"
    assert (counts.foreign, counts.lost_bytes) == (1, 0)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("id: click", "id: other", 'foreign.id is ["other"] and was ["click"]'),
        (
            "key: query, time: at, time_unit: us",
            "key: query, time: at, time_unit: ms",
            "foreign.time_unit is ms and was us",
        ),
    ],
)
def test_what_makes_ids_others_is_refused_with_both_values_and_the_remedy(
    world: World, old: str, new: str, named: str
) -> None:
    world.events("c1")
    world.join()
    change(world, old, new)
    with pytest.raises(SettingsChanged) as refused:
        world.join()
    assert named in str(refused.value)
    assert "rm -rf" in str(refused.value)
    change(world, new, old)
    world.join()
    assert world.joined_ids() == ["c1"]


@pytest.mark.parametrize(
    "more",
    [
        "limits: {batch_events: 10}",
        "retry: {unjoinable_after: 1h}",
        "primary_prefix",
        "tailing: {idle_after: 1m}",
    ],
)
def test_settings_on_which_nothing_stored_depends_change_freely(world: World, more: str) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"), ("waits", "q2"))
    world.join()
    epoch = epoch_of(world)
    if more == "primary_prefix":
        change(world, "primary: {files", "primary: {prefix: p_, files")
    else:
        world.pipeline.file.write_text(f"{world.pipeline.file.read_text()}\n{more}\n")
        world.pipeline = load_pipeline(world.pipeline.file)
    world.queries("q2")
    world.join()
    assert (epoch_of(world), world.joined_ids()) == (epoch, ["c1", "waits"])


def test_waiting_records_whose_logs_are_gone_are_told_before_they_go(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").rename(world.folder / "kept")
    world.join()
    change(world, "id: query", "id: q")
    world.join()
    assert "2 waiting records go with the state, for want of logs" in caplog.text
    (world.folder / "kept").rename(world.folder / "logs" / "east" / "clicks" / "a.jsonl")
    log(world, "queries", {"q": "q1", "at": NOON_US}, {"q": "q2", "at": NOON_US})
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


def test_a_start_that_does_not_compare_settings_leaves_events_without_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(world, "queries", {"query": "q1", "at": NOON_US})
    log(world, "clicks", {"click": "c1", "query": "x", "q": "q1", "at": NOON_US})
    world.join(mode="complete")
    change(world, "key: query", "key: q")
    monkeypatch.setattr("photon.dispatcher.startup.why_begun_anew", lambda *_: None)
    assert world.join(mode="complete").counts.of("unjoinable") == 1
