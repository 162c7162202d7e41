"""A table of PostgreSQL that is fed: rows and cursor move in one transaction (G3).

The cursor is a row of `photon_cursors` beside the table. Each transaction locks it and reads it there: of two
followers one waits, then learns that the other was first. Nothing is remembered between transactions, so a
server that was killed, or put back to a backup, has rows and cursor that agree.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import errors, sql

from photon.adapters import same_column
from photon.feed.made_table import MadeTable
from photon.feed.postgres_rows import (
    KEY,
    MOST_NAME_BYTES,
    brought,
    columns_of,
    csv_of,
    doubled_in,
    nul_in,
    taken_back,
)
from photon.feed.postgres_session import connected, parts_of, settings_for
from photon.feed.sink import Fed, SinkUnavailable, in_turn
from photon.feed.step import FeedStopped, Step
from photon.process.errors import UserError, WrongUsage
from photon.process.faults import fault_point
from photon.releases.release import Release, decode_release, encode_release

log = logging.getLogger(__name__)

CURSORS = "photon_cursors"
_TABLES = {"r": "table", "p": "table", "f": "table", "v": "view"}  # of PostgreSQL's kinds, those with rows
_MAKE_CURSORS = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (name text PRIMARY KEY, pipeline text NOT NULL, fed text NOT NULL, "
    "is_made boolean NOT NULL, release bigint, cursor text, made text)"
)
# Refusals of the server, and how the reason of each is found in the rows.
_EXPLAINED = ((psycopg2.DataError, nul_in), (errors.UniqueViolation, doubled_in))
_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), c.relkind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_KEY_OF = """
    SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname = %s AND c.relname = %s AND i.indisprimary AND a.attnum = ANY (i.indkey)
    ORDER BY array_position(i.indkey::int2[], a.attnum)
"""
_IN_TEXT = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in KEY)


@dataclass
class _Target:
    """The table, as long as a transaction holds its cursor's row. `columns`: their types, by name."""

    cursor: Release | None
    is_made: bool  # a follower made it, and makes new columns too
    columns: dict[str, str] = field(default_factory=dict)
    made: MadeTable | None = None  # as it was at the cursor's release
    added: dict[str, str] = field(default_factory=dict)  # columns, by this transaction


class PostgresTable:
    """A table that the follower makes, or a person's own, in which it fills the columns of the same names."""

    is_log, is_table = False, True

    def __init__(self, url: str, into: str | None, fed: Fed, takes_changes: bool = False) -> None:
        parsed = parts_of(url)
        self._url, self._fed, self.takes_changes = url, fed, takes_changes
        usual = fed.name if fed.table == "joined" else f"{fed.name}_{fed.table}"
        self._schema, _, self._table = (into or usual).rpartition(".")
        if len(self._table.encode()) > MOST_NAME_BYTES or not self._table:
            raise WrongUsage(f"--into: expected [SCHEMA.]TABLE, a name of at most {MOST_NAME_BYTES} bytes")
        self._where = f"table {into or usual} of {parsed.get('host', 'here')}/{parsed.get('dbname', '')}"
        self._connection: Any = None
        self._doing = ""  # tells where an error came from
        self._passed_over: set[str] = set()

    def close(self) -> None:
        """End the connection, and with it what is not committed."""
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
        self._connection = None

    def cursor(self) -> Release | None:
        with self._transaction("reading its cursor") as run:
            found = self._cursor_row(run) if self._columns(run, CURSORS) else None
            return None if found is None else found.cursor

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        try:
            return self._deliver(steps)
        except SinkUnavailable:
            raise
        except UserError:
            if len(steps) == 1:
                raise
        # Those before the one that can't be delivered.
        return in_turn(self.cursor(), steps, lambda step: self._deliver([step]))

    def _deliver(self, steps: Sequence[Step]) -> Release | None:
        with self._transaction("waiting for another follower") as run:
            target = self._lock(run)
            if target.cursor != steps[0].after:
                return target.cursor
            for step in steps:
                if target.cursor is None and step.inserts:
                    self._expect_no_rows(run, target)
                elif target.cursor is not None and not target.columns:
                    raise FeedStopped(
                        f"{self._where} is gone, and its cursor is at release {target.cursor.number}: "
                        "put it back, or have all rows delivered anew by --resync"
                    )
                elif target.cursor is not None and target.made is not None:
                    self._expect_as_made(run, target, target.made)
                self._write(run, target, step)
            self._put_cursor(run, target)
            fault_point("follow.after_rows")
        fault_point("follow.after_cursor")
        return target.cursor

    def replace(self, step: Step) -> None:
        with self._transaction("waiting for another follower") as run:
            target = self._lock(run)
            if target.columns:
                run.execute(sql.SQL("DELETE FROM {}").format(self._name()))
            self._write(run, target, step)
            self._put_cursor(run, target)

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[Any]:
        """Do all or nothing. SinkUnavailable: nobody knows which; FeedStopped: nothing was done."""
        self._doing = doing
        try:
            if self._connection is None:
                self._connect()
            with self._connection as connection, connection.cursor() as run:
                run.execute(settings_for(connection.server_version))
                yield run
        except psycopg2.Error as error:
            raise self._told(error) from None

    def _connect(self) -> None:
        self._connection = connected(self._url)
        if not self._schema:
            with self._connection as connection, connection.cursor() as run:
                run.execute("SELECT current_schema()")
                self._schema = run.fetchone()[0] or "public"

    def _told(self, error: psycopg2.Error) -> SinkUnavailable | FeedStopped:
        """Say what an error of the server means for who follows."""
        if isinstance(first := error.__context__, psycopg2.Error):
            error = first  # this one ended the connection, which then could not be rolled back
        said = f"{self._where}, {self._doing}: {' '.join(str(error).split())}"
        if "row-level security" in said:
            said += (
                f"; follow as a role with BYPASSRLS, or ALTER TABLE {self._table} DISABLE ROW LEVEL SECURITY"
            )
        is_lost = self._connection is None or self._connection.closed
        # ReadOnlySqlTransaction: of two servers the other one has become the first.
        passes = (psycopg2.OperationalError, psycopg2.InterfaceError, errors.ReadOnlySqlTransaction)
        if not is_lost and not isinstance(error, passes):
            return FeedStopped(f"{said} (the server refused it, and nothing of it is there)")
        if not isinstance(error, errors.LockNotAvailable):
            self.close()
        return SinkUnavailable(said)

    def _lock(self, run: Any) -> _Target:
        """Have this transaction alone move the cursor until it ends; what is there then."""
        if not self._columns(run, CURSORS):
            run.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (CURSORS,))  # two that make it collide
            waiting, self._doing = self._doing, f"making {CURSORS} beside it"
            run.execute(_MAKE_CURSORS.format(self._name(CURSORS)))
            self._doing = waiting
        target = self._cursor_row(run, "FOR UPDATE")
        if target is None:
            insert = sql.SQL(
                "INSERT INTO {} (name, pipeline, fed, is_made) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
            )
            is_made = not self._columns(run, self._table)
            values = (self._table, self._fed.name, self._fed.table, is_made)
            run.execute(insert.format(self._name(CURSORS)), values)
            target = self._cursor_row(run, "FOR UPDATE")
        assert target is not None, "its row was put there"
        target.columns = self._columns(run, self._table)
        return target

    def _cursor_row(self, run: Any, lock: str = "") -> _Target | None:
        select = sql.SQL("SELECT pipeline, fed, is_made, cursor, made FROM {} WHERE name = %s " + lock)
        run.execute(select.format(self._name(CURSORS)), (self._table,))
        row = run.fetchone()
        if row is None:
            return None
        name, table, is_made, cursor, made = row
        if (name, table) != (self._fed.name, self._fed.table):
            raise FeedStopped(
                f"{self._where}: expected {self._fed}, but it is fed with {table} rows of {name}: "
                "name another table by --into"
            )
        release = None if cursor is None else decode_release(cursor.encode(), CURSORS)
        return _Target(release, is_made, made=None if made is None else MadeTable.decoded(made))

    def _put_cursor(self, run: Any, target: _Target) -> None:
        assert target.cursor is not None, "a step was written"
        update = sql.SQL("UPDATE {} SET is_made = %s, release = %s, cursor = %s, made = %s WHERE name = %s")
        stored = encode_release(target.cursor).decode()
        made = self._as_it_is(run, target).encoded() if target.is_made else None
        values = (target.is_made, target.cursor.number, stored, made, self._table)
        run.execute(update.format(self._name(CURSORS)), values)

    def _as_it_is(self, run: Any, target: _Target) -> MadeTable:
        """The table as a follower leaves it, with one of its rows: the one before, while it is there."""
        made = target.made or MadeTable({}, ())
        columns = {
            name: kind
            for name, kind in self._columns(run, self._table).items()
            if name in made.columns or name in target.added  # the others are people's
        }
        row = made.row
        if row is None or not self._has(run, row):
            run.execute(sql.SQL("SELECT {} FROM {} LIMIT 1").format(_IN_TEXT, self._name()))
            row = run.fetchone()
        return MadeTable(columns, self._key(run), row)

    def _expect_as_made(self, run: Any, target: _Target, made: MadeTable) -> None:
        """FeedStopped: somebody has changed the table since the cursor's release."""
        row = made.row
        why = made.why_changed(target.columns, self._key(run), lambda: row is None or self._has(run, row))
        if why:
            raise FeedStopped(
                f"{self._where} {why}: put it back as it was, or have all rows delivered anew by --resync"
            )

    def _has(self, run: Any, row: Sequence[str]) -> bool:
        parts = [sql.SQL("{} = %s").format(sql.Identifier(name)) for name in KEY]
        values = sql.SQL(" AND ").join(parts)
        run.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(self._name(), values), row)
        return bool(run.fetchone()[0])

    def _key(self, run: Any) -> tuple[str, ...]:
        """The columns of the table's primary key, in order."""
        run.execute(_KEY_OF, (self._schema, self._table))
        return tuple(name for (name,) in run.fetchall())

    def _expect_no_rows(self, run: Any, target: _Target) -> None:
        """FeedStopped: a snapshot would double rows that are there without a cursor."""
        if target.columns:
            run.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._name()))
            if run.fetchone()[0]:
                raise FeedStopped(
                    f"{self._where} has rows and no cursor: name another table by --into, "
                    "or have its rows replaced by --resync"
                )

    def _write(self, run: Any, target: _Target, step: Step) -> None:
        """Take a step's rows back, then put its own there, and note its release."""
        self._make_columns(run, target, step)
        self._doing = f"writing release {step.release.number}"
        filled = self._filled(target, step.schema)
        if not step.is_insert_only:
            self._take_back(run, target, step)
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(self._name(), _names(filled.values()))
        kinds = {name: target.columns[column] for name, column in filled.items()}
        rows = _Chunks(csv_of(page, kinds) for page in map(brought, step.pages()) if page.num_rows)
        try:
            run.copy_expert(copy, rows)
        except psycopg2.Error as error:
            if rows.failed is not None:
                raise rows.failed from None
            looks = [look for kind, look in _EXPLAINED if isinstance(error, kind)]
            found = (look(page) for look in looks for page in step.pages())
            if (why := next(filter(None, found), None)) is not None:
                raise FeedStopped(f"{self._where}, {self._doing}: {why}") from None
            raise
        target.cursor = step.release

    def _take_back(self, run: Any, target: _Target, step: Step) -> None:
        """Delete rows by their keys, and all those of datacenters that are gone."""
        if missing := [name for name in KEY if name not in target.columns]:
            raise FeedStopped(
                f"{self._where} lacks column {missing[0]}: what release {step.release.number} takes back "
                f"is found by {', '.join(KEY)}; add these, and have all rows delivered by --resync"
            )
        for name in step.lakes_gone:
            delete = sql.SQL("DELETE FROM {} WHERE _datacenter = %s")
            run.execute(delete.format(self._name()), (name,))
        lists = sql.SQL(", ").join(sql.SQL("%s::{}[]").format(sql.SQL(target.columns[name])) for name in KEY)
        delete = sql.SQL("DELETE FROM {} WHERE ({}) IN (SELECT * FROM unnest({}))").format(
            self._name(), _names(KEY), lists
        )
        for page in map(taken_back, step.pages()):
            if page.num_rows:
                run.execute(delete, [page[name].to_pylist() for name in KEY])

    def _make_columns(self, run: Any, target: _Target, step: Step) -> None:
        """Make the table where there is none, and columns that a table lacks that a follower has made."""
        if target.columns and not target.is_made:
            return
        wanted = columns_of(step.schema)
        if missing := {name: kind for name, kind in wanted.items() if name not in target.columns}:
            self._doing = f"waiting for its readers, to add columns for release {step.release.number}"
            parts = [
                sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(missing[name])) for name in missing
            ]
            if target.columns:
                change, parts = "ALTER TABLE {} {}", [sql.SQL("ADD COLUMN {}").format(each) for each in parts]
            else:
                change = "CREATE TABLE {} ({})"
                parts.append(sql.SQL("PRIMARY KEY ({})").format(_names(KEY)))
            run.execute(sql.SQL(change).format(self._name(), sql.SQL(", ").join(parts)))
        target.columns, target.is_made, target.added = target.columns | missing, True, missing

    def _filled(self, target: _Target, schema: pa.Schema) -> dict[str, str]:
        """The table's column of each column of a step, by name, else by name but for case."""
        but_for_case = {same_column(name): name for name in target.columns}
        found = {
            name: name if name in target.columns else but_for_case.get(same_column(name))
            for name in schema.names
        }
        passed_over = {name for name, column in found.items() if column is None} - {"_change_type"}
        for name in sorted(passed_over - self._passed_over):
            log.warning("%s has no column %r: its values are passed over", self._where, name)
        self._passed_over |= passed_over
        filled = {name: column for name, column in found.items() if column is not None}
        if not filled:
            raise FeedStopped(f"{self._where} has none of the columns {', '.join(schema.names)}: add some")
        return filled

    def _name(self, table: str | None = None) -> sql.Composable:
        return sql.Identifier(self._schema, table or self._table)

    def _columns(self, run: Any, table: str) -> dict[str, str]:
        """The columns of a table and their types; none: there is no such table."""
        run.execute(_COLUMNS, (self._schema, table))
        found = run.fetchall()
        if others := [kind for _, _, kind in found if kind not in _TABLES]:
            what = "an index" if others[0] in "iI" else "no table"
            raise FeedStopped(f"{self._where}: {table} is {what}: name a table by --into")
        return {name: type_ for name, type_, _ in found}


class _Chunks:
    """The file that COPY reads. psycopg2 tells its errors as the server's, so they are kept here."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.failed: Exception | None = None

    def read(self, _: int = 0) -> bytes:
        try:
            return next(self._chunks, b"")
        except Exception as error:
            self.failed = error
            raise


def _names(columns: Iterable[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
