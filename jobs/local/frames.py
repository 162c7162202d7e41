"""Frames as text of SQL, with the methods of PySpark's that queries use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from photon.jobs.local.columns import LocalColumn, quoted


class FrameSession(Protocol):
    """Where frames are run: a session."""

    def columns_of(self, sql: str) -> list[str]:
        """The columns of a query, as DuckDB names them."""

    def run(self, sql: str) -> pa.Table:
        """The rows of a query."""

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The same, some at a time."""

    def stored(self, sql: str) -> str:
        """Keep the rows of a query: the text that selects them."""

    def of_batches(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> LocalFrame:
        """A frame of rows."""


class LocalRow(dict[str, Any]):
    """A row: its values by their names."""

    def asDict(self) -> dict[str, Any]:
        return dict(self)


class LocalFrame:
    """A query that was not run yet."""

    def __init__(self, session: FrameSession, sql: str, columns: list[str] | None) -> None:
        """`columns`: None where only DuckDB knows their names."""
        self._session, self.sql, self._columns = session, sql, columns

    @property
    def columns(self) -> list[str]:
        """The names of its columns. To ask DuckDB at each step took half the time of a small verification."""
        if self._columns is None:
            self._columns = self._session.columns_of(self.sql)
        return self._columns

    def _of(self, sql: str, names: Sequence[str | None]) -> LocalFrame:
        """A frame of a query. `names`: of its columns; DuckDB names those of None, and equal ones anew."""
        known = [name for name in names if name is not None]
        is_plain = len({name.lower() for name in known}) == len(names)
        return LocalFrame(self._session, sql, known if is_plain else None)

    # -- columns

    def select(self, *columns: LocalColumn | str) -> LocalFrame:
        wanted = [_column(one) for one in columns]
        sql = f"SELECT {', '.join(map(_selected, wanted))} FROM ({self.sql})"
        return self._of(sql, [one.name for one in wanted])

    def withColumn(self, name: str, column: LocalColumn) -> LocalFrame:
        new = f"{column.sql} AS {quoted(name)}"
        names = [name if _same(one, name) else one for one in self.columns]
        names = names if name in names else [*names, name]
        wanted = (new if one == name else quoted(one) for one in names)
        return self._of(f"SELECT {', '.join(wanted)} FROM ({self.sql})", names)

    def withColumnRenamed(self, name: str, to: str) -> LocalFrame:
        names = [to if _same(one, name) else one for one in self.columns]
        renamed = (f"{quoted(one)} AS {quoted(new)}" for one, new in zip(self.columns, names, strict=True))
        return self._of(f"SELECT {', '.join(renamed)} FROM ({self.sql})", names)

    def drop(self, *names: str) -> LocalFrame:
        return self.select(*(_named(one) for one in self.columns if not any(_same(one, n) for n in names)))

    # -- rows

    def where(self, condition: LocalColumn | str) -> LocalFrame:
        sql = condition.sql if isinstance(condition, LocalColumn) else condition
        return LocalFrame(self._session, f"SELECT * FROM ({self.sql}) WHERE {sql}", self._columns)

    def distinct(self) -> LocalFrame:
        return LocalFrame(self._session, f"SELECT DISTINCT * FROM ({self.sql})", self._columns)

    def limit(self, most: int) -> LocalFrame:
        return LocalFrame(self._session, f"SELECT * FROM ({self.sql}) LIMIT {most}", self._columns)

    def orderBy(self, *columns: LocalColumn | str) -> LocalFrame:
        order = ", ".join(f"{one.sql} {one.order}" for one in map(_column, columns))
        return LocalFrame(self._session, f"SELECT * FROM ({self.sql}) ORDER BY {order}", self._columns)

    sortWithinPartitions = orderBy

    def repartition(self, *_: str) -> LocalFrame:
        return self

    def union(self, other: LocalFrame) -> LocalFrame:
        names = ", ".join(map(quoted, self.columns))
        sql = f"SELECT * FROM ({self.sql}) AS one({names}) UNION ALL SELECT * FROM ({other.sql})"
        return LocalFrame(self._session, sql, self.columns)

    unionAll = union

    def unionByName(self, other: LocalFrame, allowMissingColumns: bool = False) -> LocalFrame:
        there = {name.lower() for name in other.columns}
        wanted = (
            f"NULL AS {quoted(name)}" if allowMissingColumns and name.lower() not in there else quoted(name)
            for name in self.columns
        )
        return self.union(self._of(f"SELECT {', '.join(wanted)} FROM ({other.sql})", self.columns))

    def join(self, other: LocalFrame, on: str | list[str], how: str = "inner") -> LocalFrame:
        """As Spark's: columns of `on` come first, then others of this frame, then those of the other one."""
        keys = [on] if isinstance(on, str) else on
        condition = " AND ".join(f"l.{quoted(key)} = r.{quoted(key)}" for key in keys)
        mine = [*keys, *(name for name in self.columns if not any(_same(name, key) for key in keys))]
        others: list[str] = []
        if how in ("inner", "left"):
            others = [name for name in other.columns if not any(_same(name, key) for key in keys)]
        wanted = [*(f"l.{quoted(name)}" for name in mine), *(f"r.{quoted(name)}" for name in others)]
        words = {"inner": "JOIN", "left": "LEFT JOIN", "left_semi": "SEMI JOIN", "left_anti": "ANTI JOIN"}
        tables = f"({self.sql}) AS l {words[how]} ({other.sql}) AS r ON {condition}"
        return self._of(f"SELECT {', '.join(wanted)} FROM {tables}", [*mine, *others])

    def groupBy(self, *columns: LocalColumn | str) -> LocalGroups:
        return LocalGroups(self, [_column(one) for one in columns])

    # -- what runs a query

    def collect(self) -> list[LocalRow]:
        return [LocalRow(row) for row in self._session.run(self.sql).to_pylist()]

    def toLocalIterator(self) -> Iterator[LocalRow]:
        return iter(self.collect())

    def first(self) -> LocalRow | None:
        return next(iter(self.limit(1).collect()), None)

    def persist(self, _level: object = None) -> LocalFrame:
        """The rows themselves, in the place of the query: here, and in all that was made of it before."""
        self.sql = self._session.stored(self.sql)
        return self

    def localCheckpoint(self, storageLevel: object = None) -> LocalFrame:
        return LocalFrame(self._session, self._session.stored(self.sql), self._columns)

    def unpersist(self) -> None:
        """They go with their session."""

    def mapInArrow(
        self, task: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> LocalFrame:
        return self._session.of_batches(task(self._session.batches(self.sql)), schema)

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return self._session.run(self.sql)

    @property
    def schema(self) -> pa.Schema:
        return self._session.run(f"SELECT * FROM ({self.sql}) LIMIT 0").schema


class LocalGroups:
    """The rows of a frame in groups."""

    def __init__(self, frame: LocalFrame, by: list[LocalColumn]) -> None:
        self._frame, self._by = frame, by

    def agg(self, *columns: LocalColumn) -> LocalFrame:
        frame, keys, wanted = self._frame, ", ".join(one.sql for one in self._by), [*self._by, *columns]
        sql = f"SELECT {', '.join(map(_selected, wanted))} FROM ({frame.sql}) GROUP BY {keys}"
        return frame._of(sql, [one.name for one in wanted])

    def count(self) -> LocalFrame:
        return self.agg(LocalColumn("count(*)", "count"))


def _named(name: str) -> LocalColumn:
    return LocalColumn(quoted(name), name)


def _column(one: LocalColumn | str) -> LocalColumn:
    return one if isinstance(one, LocalColumn) else LocalColumn.named(one)


def _selected(column: LocalColumn) -> str:
    return column.sql if column.name is None else f"{column.sql} AS {quoted(column.name)}"


def _same(one: str, other: str) -> bool:
    """Names of columns that differ in case only are the same one, in Spark and here."""
    return one.lower() == other.lower()
