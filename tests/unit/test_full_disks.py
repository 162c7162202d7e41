"""Errors of a full disk name the folder and what to do, whoever meets them."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from photon.cli.output import expected_errors
from photon.dispatcher.recovery.orders import OrderedRecord
from photon.feed.sink import SinkUnavailable, sink_errors
from photon.registry.stores.copies import NoReply
from photon.registry.stores.sqlite.problems import of_error
from photon.state.database import StateUnavailable
from photon.storage.full_disks import full_among, in_words, is_without_room, why_not
from photon.storage.tokens import Occurrence
from photon.upkeep.recovery import write_orders
from tests.e2e.small_disk import SmallDisk

GIB = 2**30


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder whose disk has no room."""
    try:
        disk = SmallDisk(tmp_path / "state" / "east", "64k")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    with suppress(OSError), (disk.folder / "fills").open("wb", 0) as file:
        while file.write(bytes(4096)):
            pass
    yield disk.folder
    disk.unmount()


def error_of_a_write() -> OSError:
    """What the system says where a write finds no room: it names no file."""
    with pytest.raises(OSError, match="No space left") as found, open("/dev/full", "wb", 0) as file:
        file.write(b"x")
    assert found.value.filename is None
    return found.value


def test_a_disk_without_room_is_called_one() -> None:
    said = in_words("disk I/O error", Path("/data/state"), free_bytes=4096)
    assert said == "disk I/O error: the disk of /data/state has no room, 4,096 bytes are free; make room"


@pytest.mark.parametrize("free_bytes", [GIB, None])
def test_another_error_of_the_disk_says_where_to_look(free_bytes: int | None) -> None:
    assert "look at the disk of /data" in in_words("disk I/O error", Path("/data"), free_bytes)


def test_an_error_that_is_not_of_the_disk_stays_as_it_is(tmp_path: Path) -> None:
    assert why_not(sqlite3.OperationalError("database is locked"), tmp_path) == "database is locked"
    assert why_not(OSError("is no file"), tmp_path) == "is no file"


def test_a_database_that_is_full_is_known_by_its_code(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute("CREATE TABLE a (b)")
        db.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as found:
            db.execute("INSERT INTO a VALUES (zeroblob(100000))")
    assert is_without_room(found.value)
    assert f"look at the disk of {tmp_path}" in why_not(found.value, tmp_path)
    of_registry = of_error(tmp_path / "registry.sqlite", found.value)
    assert isinstance(of_registry, NoReply)
    assert f"make room on the disk of {tmp_path}" in of_registry.reason


def test_of_several_folders_the_one_without_room_is_named(tmp_path: Path, full: Path) -> None:
    assert full_among(tmp_path, full, full / "yet" / "to come") == [full, full / "yet" / "to come"]
    said = why_not(error_of_a_write(), tmp_path, full)
    assert said == f"[Errno 28] No space left on device: no room in {full}; make room there"


def test_a_full_quota_is_no_full_disk_and_names_the_folder(tmp_path: Path) -> None:
    error = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    assert why_not(error, tmp_path).endswith(f"no room in {tmp_path}; make room within the quota there")


def test_an_order_that_finds_no_room_names_the_state_folder(full: Path) -> None:
    records = [OrderedRecord(Occurrence(1, 0), "c1", "unjoinable")]
    with pytest.raises(StateUnavailable, match=f"no room in {full}; make room there"):
        write_orders(full, "e", 1, records)


def test_a_folder_that_takes_rows_is_named(full: Path) -> None:
    with (
        pytest.raises(SinkUnavailable, match=f"{full} can't be used: .* no room in {full}"),
        sink_errors(full),
    ):
        raise error_of_a_write()


def test_a_command_names_the_folder_of_the_pipeline_that_has_no_room(
    pipeline_file: Path, full: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert full.is_relative_to(pipeline_file.parent / "state")
    with pytest.raises(SystemExit) as ended, expected_errors(pipeline_file):
        raise error_of_a_write()
    assert ended.value.code == 3
    assert f"no room in {full}; make room there" in capsys.readouterr().err


def test_where_no_folder_is_full_it_was_standard_output(pipeline_file: Path) -> None:
    with pytest.raises(OSError, match="No space left"), expected_errors(pipeline_file):
        raise error_of_a_write()
