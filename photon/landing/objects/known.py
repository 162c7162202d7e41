"""The list of objects that are landed, and of those that could not be, while the source lists them (K9)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

from photon.landing.marker import MarkerDamaged
from photon.landing.objects.marker import Failed
from photon.landing.objects.names import digest_of
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.storage.store_errors import StoreUnavailable
from photon.storage.sync import keep_transactions

FILE = "objects.db"
FORMAT = 1
FORGOTTEN_AFTER_DAYS = 2  # listings may fail to show an object for hours, as of a disk that is not mounted
_HEX = re.compile("(?:[0-9a-f]{2})+")
_DAY_US = 24 * 3_600 * MICROSECONDS
_TABLES = """
create table if not exists landed (id blob primary key, day integer not null) without rowid;
create table if not exists failed (id blob primary key, name text, etag text, reason text, since_us integer,
    again_us integer, is_gone integer, is_acknowledged integer) without rowid;
create index if not exists told on failed (is_acknowledged, since_us);
create table if not exists total (objects integer, bytes integer);
"""


class KnownDamaged(MarkerDamaged):
    """The list of landed objects can't be read."""


def is_passing(error: Exception) -> bool:
    """Whether an error of SQLite may go: of a disk or a lock, and not of the bytes of a list."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_CORRUPT


class Known:
    """The list of one landed folder. Notes are on disk after `commit`."""

    def __init__(self, folder: Path) -> None:
        """Open or begin it; each failure of an earlier process is tried once more. KnownDamaged, OSError."""
        self._path = folder / FILE
        try:
            self._db = sqlite3.connect(self._path)
            keep_transactions(self._db)
            if (version := self._db.execute("pragma user_version").fetchone()[0]) > FORMAT:
                raise FormatTooNew(self._path, version, FORMAT)
            if version < FORMAT:
                self._db.executescript(f"{_TABLES} pragma user_version = {FORMAT};")
            self._db.execute("update failed set again_us = 0 where again_us is null")
            self._db.commit()
        except sqlite3.DatabaseError as error:
            if is_passing(error):
                raise StoreUnavailable(f"{self._path}: {error}") from None
            raise KnownDamaged(
                f"{self._path}: {error}: remove {FILE}*, then all that the source lists is landed again; "
                "rows that are joined already stay as they are"
            ) from None

    def new_among(self, ids: Collection[bytes], now_us: int) -> set[bytes]:
        """Those of these objects that are to be landed. What a listing shows is not forgotten."""
        day = now_us // _DAY_US
        marks = ",".join("?" * len(ids))
        known = {
            row[0]: row[1] for row in self._db.execute(f"select * from landed where id in ({marks})", [*ids])
        }
        seen = [(day, one) for one, last in known.items() if last != day]
        self._db.executemany("update landed set day = ? where id = ?", seen)
        later = self._db.execute(
            f"select id from failed where id in ({marks}) and (again_us is null or again_us > ?)",
            [*ids, now_us],
        )
        return set(ids) - known.keys() - {row[0] for row in later}

    def forget(self, now_us: int) -> None:
        """Forget objects that no listing has shown for days; a whole one that shows some has just ended."""
        self._db.execute("delete from landed where day < ?", [now_us // _DAY_US - FORGOTTEN_AFTER_DAYS])

    def land(self, id_: bytes, size_bytes: int, now_us: int) -> None:
        """Note that an object has its file."""
        self._db.execute("insert or replace into landed values (?, ?)", [id_, now_us // _DAY_US])
        self._db.execute("delete from failed where id = ?", [id_])
        objects, bytes_ = self.total()
        self._db.execute("delete from total")
        self._db.execute("insert into total values (?, ?)", [objects + 1, bytes_ + size_bytes])

    def fail(self, one: Failed, again_us: int | None) -> None:
        """Note that an object is not landed, and when to try again; None: not before it has another ETag."""
        self._db.execute(
            "insert into failed values (?, ?, ?, ?, ?, ?, ?, 0) on conflict (id) do update "
            "set reason = excluded.reason, again_us = excluded.again_us, is_gone = excluded.is_gone",
            [
                digest_of(one.name, one.etag),
                one.name,
                one.etag,
                one.reason,
                one.since_us,
                again_us,
                one.is_gone,
            ],
        )

    def keep(self, told: Iterable[Failed]) -> None:
        """Note failures that the marker tells: an older copy of the list, or a new one, lacks them."""
        for one in told:
            id_ = digest_of(one.name, one.etag)
            self._db.execute(
                "insert or ignore into failed select ?, ?, ?, ?, ?, 0, ?, 0 "
                "where not exists (select * from landed where id = ?)",
                [id_, one.name, one.etag, one.reason, one.since_us, one.is_gone, id_],
            )

    def failed(self, most: int = -1) -> list[Failed]:
        """The failures that nobody has acknowledged, the oldest first: all, or so many of them."""
        return _failed(self._db, most)

    def count_failed(self) -> int:
        """How many there are."""
        return int(self._db.execute("select count(*) from failed where is_acknowledged = 0").fetchone()[0])

    def drop_failed(self, ids: Iterable[bytes]) -> None:
        """Forget failures: a newer version stands for the object."""
        self._db.executemany("delete from failed where id = ?", [(one,) for one in ids])

    def acknowledge(self, ids: Iterable[str]) -> None:
        """Tell of these failures no more. Others have ids of another form."""
        if self.count_failed():  # each look asks, and ids stay where people wrote them
            known = [(bytes.fromhex(one),) for one in ids if _HEX.fullmatch(one)]
            self._db.executemany(
                "update failed set is_acknowledged = 1 where id = ? and is_acknowledged = 0", known
            )
            self._db.execute("delete from failed where is_acknowledged = 1 and is_gone")

    def total(self) -> tuple[int, int]:
        """How many objects are landed since the folder was begun, and their bytes in the store."""
        found = self._db.execute("select objects, bytes from total").fetchone()
        return found or (0, 0)

    def commit(self) -> None:
        """Put what was noted on disk. sqlite3.Error."""
        self._db.commit()

    def rollback(self) -> None:
        """Forget what was noted since the last commit, after an error."""
        self._db.rollback()

    def close(self) -> None:
        """Let go of it; what was noted since the last commit is lost to this process."""
        self._db.close()


def failed_in(aside: Path) -> list[Failed]:
    """The failures of a list that nobody has acknowledged, beside a lander or not. StoreUnavailable."""
    try:
        with closing(sqlite3.connect(f"{(aside / FILE).absolute().as_uri()}?mode=ro", uri=True)) as db:
            return _failed(db, -1)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{aside / FILE}: {error}") from None


def _failed(db: sqlite3.Connection, most: int) -> list[Failed]:
    rows = db.execute(
        "select name, etag, reason, since_us, is_gone from failed where is_acknowledged = 0 "
        "order by since_us limit ?",
        [most],
    )
    return [Failed(name, etag, reason, since, bool(gone)) for name, etag, reason, since, gone in rows]
