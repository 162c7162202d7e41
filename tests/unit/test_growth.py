"""Growth shows whether a datacenter has something to do, without opening a log file."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from photon.dispatcher.shift.growth import Growth, LogSize, growth_of
from photon.health.status import status_of
from photon.state.database import STATE_FILE, StateReader
from photon.state.dispatcher_state import DispatcherState
from tests.simulation.world import NOON_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def look(world: World, after_seconds: float = 0) -> Growth:
    return growth_of(world.pipeline, "east", world.clock.now_us() + round(after_seconds * 1_000_000))


def test_a_datacenter_that_never_ran_has_everything_before_it(world: World) -> None:
    world.queries("q1")
    growth = look(world)
    assert growth.primary.files == 1
    assert growth.primary.unread_bytes == growth.primary.bytes > 0
    assert growth.foreign == LogSize(0, 0, 0)
    assert (growth.state.watermark_us, growth.lag_seconds, growth.problems) == (None, None, ())


def test_what_is_joined_is_not_unread(world: World) -> None:
    world.events("c1")
    world.join()
    growth = look(world, after_seconds=7)
    assert (growth.primary.unread_bytes, growth.foreign.unread_bytes) == (0, 0)
    assert (growth.due, growth.waiting) == (0, 0)
    assert growth.state.watermark_us is not None
    assert growth.lag_seconds == pytest.approx(7, abs=2)


def test_only_new_bytes_are_unread(world: World) -> None:
    world.queries("q1")
    world.join()
    before = look(world).primary.bytes
    world.queries("q2")
    growth = look(world)
    assert growth.primary.unread_bytes == growth.primary.bytes - before > 0


def test_a_renamed_file_is_not_unread(world: World) -> None:
    world.queries("q1")
    world.join()
    folder = world.folder / "logs" / "east" / "queries"
    (folder / "a.jsonl").rename(folder / "b.jsonl")
    assert look(world).primary.unread_bytes == 0


def test_a_compressed_file_that_was_read_is_not_unread(world: World) -> None:
    world.queries("q1")
    folder = world.folder / "logs" / "east" / "queries"
    (folder / "z.jsonl.gz").write_bytes(gzip.compress((folder / "a.jsonl").read_bytes() * 100))
    assert look(world).primary.unread_bytes == look(world).primary.bytes
    world.join()
    assert look(world).primary.unread_bytes == 0


def test_waiting_records_are_counted_and_due_when_their_time_has_come(world: World) -> None:
    world.queries("q1")
    world.clicks(("c1", "not there"))
    world.join()
    assert (look(world).waiting, look(world).due) == (1, 0)
    assert look(world, after_seconds=3600).due == 1


def test_the_signature_is_the_same_as_long_as_nothing_is_logged(world: World) -> None:
    world.queries("q1")
    before = look(world).signature
    assert look(world, after_seconds=100).signature == before


@pytest.mark.parametrize("change", ["grows", "appears", "goes", "is rewritten"])
def test_the_signature_changes_when_a_file(world: World, change: str) -> None:
    world.events("c1")
    path = world.folder / "logs" / "east" / "clicks" / "a.jsonl"
    before = look(world).signature
    match change:
        case "grows":
            world.clicks(("c2", "q1"))
        case "appears":
            world.clicks(("c2", "q1"), file="b.jsonl")
        case "goes":
            path.unlink()
        case "is rewritten":
            os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert look(world).signature != before


def test_a_missing_logs_folder_is_a_problem_that_is_named_once(world: World) -> None:
    (world.folder / "logs" / "east").rename(world.folder / "elsewhere")
    problems = look(world).problems
    assert len(problems) == 1
    assert "the logs folder cannot be read" in problems[0]


def test_a_state_that_is_just_being_made_is_no_state_yet(world: World) -> None:
    DispatcherState(world.state()).close()
    assert (look(world).due, look(world).problems) == (0, ())
    status = status_of(world.pipeline, "east", world.clock)
    assert status.needs_somebody[0] == "has never run"


def test_status_reads_the_open_plan_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.queries("q1")
    world.join()
    read, open_plan = [], StateReader.open_plan
    monkeypatch.setattr(StateReader, "open_plan", lambda state: read.append(state) or open_plan(state))
    status_of(world.pipeline, "east", world.clock)
    assert len(read) == 1


def test_a_state_of_a_newer_photon_is_a_problem_that_is_named(world: World) -> None:
    world.queries("q1")
    world.join()
    with closing(sqlite3.connect(world.state() / STATE_FILE)) as db, db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    assert "use the newer Photon" in look(world).state_unreadable


def test_a_state_that_can_not_be_read_is_a_problem_and_everything_counts_as_unread(world: World) -> None:
    world.queries("q1")
    world.state().mkdir(parents=True)
    (world.state() / "dispatcher.sqlite").write_bytes(b"this is no database, " * 100)
    growth = growth_of(world.pipeline, "east", NOON_US)
    assert "dispatcher.sqlite is damaged" in growth.state_unreadable
    assert "put a copy of the folder" in growth.state_unreadable
    assert growth.problems == (), "its logs can be read"
    assert growth.primary.unread_bytes == growth.primary.bytes
