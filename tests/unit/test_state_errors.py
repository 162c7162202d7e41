"""Errors of SQLite say in words that a disk has no room, or where to look."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from photon.state.database import in_words, why_not


def test_a_disk_without_room_is_called_one() -> None:
    said = in_words("disk I/O error", free_bytes=4096)
    assert said == "disk I/O error: its disk has no room, 4,096 bytes are free; make room"


@pytest.mark.parametrize("free_bytes", [2**30, None])
def test_another_error_of_the_disk_says_where_to_look(free_bytes: int | None) -> None:
    assert "look at its disk" in in_words("disk I/O error", free_bytes)


def test_an_error_that_is_not_of_the_disk_stays_as_it_is(tmp_path: Path) -> None:
    assert why_not(sqlite3.OperationalError("database is locked"), tmp_path) == "database is locked"


def test_a_database_that_is_full_is_known_by_its_code(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute("CREATE TABLE a (b)")
        db.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as full:
            db.execute("INSERT INTO a VALUES (zeroblob(100000))")
    assert "look at its disk" in why_not(full.value, tmp_path)
