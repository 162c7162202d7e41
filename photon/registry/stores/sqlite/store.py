"""One store in the file of a local registry: the requests of `copies.Store`, and those of upkeep."""

from __future__ import annotations

import os
from collections.abc import Callable
from sqlite3 import Connection
from typing import TypeVar

from photon.registry.fields import CHECKSUM_BYTES
from photon.registry.stores.copies import (
    ABSENT,
    Accept,
    Copy,
    Done,
    Insert,
    Key,
    NoReply,
    Page,
    Prepare,
    Promised,
    Refused,
)
from photon.registry.stores.endpoint import StoreSize, ValueCount
from photon.registry.stores.sqlite.file import RegistryFile
from photon.registry.stores.sqlite.problems import NoAnswer

TOUCHED_BYTES = 120_000
PAGE_BYTES = 1_000_000
COUNTED_AT_ONCE = 5_000  # positions: a few milliseconds, in which everybody else waits
FORGOTTEN_AT_ONCE = 200  # items: up to 20 MB of entries
_AT = "store = ? AND ledger = ? AND position = ?"
_FROM = "store = ? AND ledger = ? AND position >= ?"
_PUT = (
    "INSERT INTO items (store, ledger, position, promised, accepted, ending, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET promised = excluded.promised, accepted = excluded.accepted,"
    " ending = excluded.ending, value = excluded.value"
)

T = TypeVar("T")


class SqliteStore:
    """The items of one table, which has a number in the file. Each request is one transaction."""

    def __init__(self, file: RegistryFile, table: str, timeout_seconds: float) -> None:
        self.table = table
        self._file = file
        self._timeout_seconds = timeout_seconds

    def insert(self, insert: Insert) -> Done | Refused | NoReply:
        def change(connection: Connection, store: int) -> Done | Refused:
            if (there := _copy_at(connection, store, insert.key)) is not None:
                return Refused(there)
            _put(connection, store, insert.key, Copy(insert.value))
            return Done()

        return self._ask(change)

    def prepare(self, prepare: Prepare) -> Promised | Refused | NoReply:
        def change(connection: Connection, store: int) -> Promised | Refused:
            there = _copy_at(connection, store, prepare.key) or ABSENT
            if there.promised >= prepare.ballot:
                return Refused(there)
            sql = "INSERT INTO items (store, ledger, position, promised) VALUES (?, ?, ?, ?)"
            sql += " ON CONFLICT DO UPDATE SET promised = excluded.promised"
            connection.execute(sql, (store, *prepare.key, prepare.ballot))
            return Promised(there)

        return self._ask(change)

    def accept(self, accept: Accept) -> Done | Refused | NoReply:
        def change(connection: Connection, store: int) -> Done | Refused:
            there = _copy_at(connection, store, accept.key) or ABSENT
            if there.promised > accept.ballot:
                return Refused(there)
            _put(connection, store, accept.key, Copy(accept.value, accept.ballot, accept.ballot))
            return Done()

        return self._ask(change)

    def get(self, key: Key) -> Copy | NoReply:
        return self._ask(lambda connection, store: _copy_at(connection, store, key) or ABSENT)

    def ending(self, key: Key) -> bytes | NoReply:
        def read(connection: Connection, store: int) -> bytes:
            found = connection.execute(f"SELECT ending FROM items WHERE {_AT}", (store, *key)).fetchone()
            return b"" if found is None or found[0] is None else bytes(found[0])

        return self._ask(read)

    def page(self, first: Key) -> Page | NoReply:
        def read(connection: Connection, store: int) -> Page:
            rows = connection.execute(
                f"SELECT position, value, accepted, promised FROM items WHERE {_FROM} ORDER BY position",
                (store, *first),
            )
            copies: dict[int, Copy] = {}
            size_bytes = 0
            for position, *fields in rows:
                if size_bytes >= PAGE_BYTES:
                    return Page(first.position, max(copies), copies)
                copies[position] = Copy(*fields)
                size_bytes += len(fields[0] or b"")
            return Page(first.position, None, copies)

        return self._ask(read)

    def forget(self, ledger: str) -> int | NoReply:
        sql = "SELECT rowid FROM items WHERE store = ? AND ledger = ? LIMIT ?"
        sql = f"DELETE FROM items WHERE rowid IN ({sql})"
        return self._ask(lambda c, store: c.execute(sql, (store, ledger, FORGOTTEN_AT_ONCE)).rowcount)

    def beat(self, key: Key, number: int) -> Done | NoReply:
        def change(connection: Connection, store: int) -> Done:
            sql = "INSERT INTO items (store, ledger, position, beat) VALUES (?, ?, ?, ?)"
            sql += (
                " ON CONFLICT DO UPDATE SET beat = excluded.beat WHERE beat IS NULL OR beat < excluded.beat"
            )
            connection.execute(sql, (store, *key, number))
            return Done()

        return self._ask(change)

    def last_beat(self, key: Key) -> int | NoReply:
        def read(connection: Connection, store: int) -> int:
            found = connection.execute(f"SELECT beat FROM items WHERE {_AT}", (store, *key)).fetchone()
            return 0 if found is None else int(found[0] or 0)

        return self._ask(read)

    # -- what upkeep asks beside

    def touch(self) -> Done | NoReply:
        def change(connection: Connection, store: int) -> Done:
            # Other bytes each time, for SQLite does not write what is unchanged; as many as an entry has.
            sql = "UPDATE stores SET touched = ? WHERE id = ?"
            connection.execute(sql, (os.urandom(TOUCHED_BYTES), store))
            return Done()

        return self._ask(change)

    def size(self) -> StoreSize | NoReply:
        """The room in use of the file, which has all pipelines of its folder."""

        def read(connection: Connection, store: int) -> StoreSize:
            names = ("page_count", "freelist_count", "page_size")
            pages, free, page_bytes = (connection.execute(f"PRAGMA {n}").fetchone()[0] for n in names)
            return StoreSize(None, (pages - free) * page_bytes)

        return self._ask(read)

    def count(self, ledger: str, below: int, most_pages: int) -> ValueCount | NoReply:
        found, first = 0, below
        for _ in range(most_pages):
            end, first = first, max(0, first - COUNTED_AT_ONCE)
            some = self._ask(
                lambda connection, store, among=(first, end): connection.execute(  # type: ignore[misc]
                    f"SELECT count(ending) FROM items WHERE {_FROM} AND position < ?", (store, ledger, *among)
                ).fetchone()[0]
            )
            if isinstance(some, NoReply):
                return some
            found += some
            if first == 0:
                break
        return ValueCount(first, found)

    # -- transactions

    def _ask(self, work: Callable[[Connection, int], T]) -> T | NoReply:
        try:
            return self._file.ask(
                lambda connection: work(connection, self._number(connection)), self._timeout_seconds
            )
        except NoAnswer as error:
            return error.reply

    def _number(self, connection: Connection) -> int:
        found = connection.execute("SELECT id FROM stores WHERE name = ?", (self.table,)).fetchone()
        if found is None:  # only init and repair make tables (protocol B9)
            raise NoAnswer(NoReply("its table is gone: if its data is lost, repair it", "unreachable"))
        return int(found[0])


def _copy_at(connection: Connection, store: int, key: Key) -> Copy | None:
    sql = f"SELECT value, accepted, promised FROM items WHERE {_AT}"
    found = connection.execute(sql, (store, *key)).fetchone()
    return None if found is None else Copy(*found)


def _put(connection: Connection, store: int, key: Key, copy: Copy) -> None:
    ending = None if copy.value is None else copy.value[-CHECKSUM_BYTES:]
    connection.execute(_PUT, (store, *key, copy.promised, copy.accepted, ending, copy.value))
