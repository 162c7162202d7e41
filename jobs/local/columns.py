"""Columns as SQL text for DuckDB, with the operators of PySpark's columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

# Types as queries name them, as Spark does: DuckDB's name of each, and Arrow's type.
TYPES: dict[str, tuple[str, pa.DataType]] = {
    "string": ("VARCHAR", pa.string()),
    "binary": ("BLOB", pa.binary()),
    "boolean": ("BOOLEAN", pa.bool_()),
    "int": ("INTEGER", pa.int32()),
    "long": ("BIGINT", pa.int64()),
    "array<string>": ("VARCHAR[]", pa.list_(pa.string())),
}


def quoted(name: str) -> str:
    """Quote a name for DuckDB, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Write a Python value as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(int(value))  # the number of an enumeration's member, too
        case str():
            return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal of queries: {value!r}")


def operand(value: object) -> str:
    """The SQL of what stands beside an operator: a column, or a value."""
    return value.sql if isinstance(value, LocalColumn) else literal(value)


def _between(operator: str) -> Callable[[LocalColumn, object], LocalColumn]:
    """The method that puts an operator between its column and another column, or a value."""
    return lambda column, other: LocalColumn(f"({column.sql} {operator} {operand(other)})")


class LocalColumn:
    """An expression. `name`: its column's name in a result; None: DuckDB names it."""

    def __init__(self, sql: str, name: str | None = None, order: str = "ASC NULLS FIRST") -> None:
        self.sql, self.name, self.order = sql, name, order

    @staticmethod
    def named(name: str) -> LocalColumn:
        """The column `name`, a field of a struct (`at.file`), or all its fields (`at.*`).

        Backticks quote a whole name, also one with dots.
        """
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
            return LocalColumn(quoted(name), name)
        *path, last = name.split(".")
        within = "".join(f"{quoted(part)}." for part in path)
        return LocalColumn(f"{within}*") if last == "*" else LocalColumn(within + quoted(last), last)

    __eq__ = _between("=")  # type: ignore[assignment]
    __ne__ = _between("<>")  # type: ignore[assignment]
    __lt__ = _between("<")
    __le__ = _between("<=")
    __gt__ = _between(">")
    __ge__ = _between(">=")
    __and__ = _between("AND")
    __or__ = _between("OR")
    __add__ = _between("+")
    __sub__ = _between("-")
    __mul__ = _between("*")
    __truediv__ = _between("/")
    bitwiseAND = _between("&")
    bitwiseOR = _between("|")
    __hash__ = None  # type: ignore[assignment]

    def __invert__(self) -> LocalColumn:
        return LocalColumn(f"(NOT {self.sql})")

    def isNull(self) -> LocalColumn:
        return LocalColumn(f"({self.sql} IS NULL)")

    def isNotNull(self) -> LocalColumn:
        return LocalColumn(f"({self.sql} IS NOT NULL)")

    def isin(self, *values: Any) -> LocalColumn:
        choices = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set) else values
        listed = ", ".join(operand(value) for value in choices)
        return LocalColumn(f"({self.sql} IN ({listed}))" if listed else "FALSE")

    def cast(self, kind: str) -> LocalColumn:
        return LocalColumn(f"CAST({self.sql} AS {TYPES[kind][0]})", self.name)

    def try_cast(self, kind: str) -> LocalColumn:
        return LocalColumn(f"TRY_CAST({self.sql} AS {TYPES[kind][0]})", self.name)

    def alias(self, name: str) -> LocalColumn:
        return LocalColumn(self.sql, name)

    def desc_nulls_first(self) -> LocalColumn:
        return LocalColumn(self.sql, self.name, "DESC NULLS FIRST")


class LocalCase(LocalColumn):
    """The column that `when` begins: the value of the first condition that is true."""

    def __init__(self, branches: str) -> None:
        super().__init__(f"(CASE {branches} END)")
        self._branches = branches

    def when(self, condition: LocalColumn, value: object) -> LocalCase:
        return LocalCase(f"{self._branches} WHEN {condition.sql} THEN {operand(value)}")

    def otherwise(self, value: object) -> LocalColumn:
        return LocalColumn(f"(CASE {self._branches} ELSE {operand(value)} END)")
