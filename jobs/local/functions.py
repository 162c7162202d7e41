"""PySpark's functions that queries use, as text of SQL for DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from photon.jobs.local.columns import LocalCase, LocalColumn, literal, quoted

_DATES = {"yyyy-MM-dd": "%Y-%m-%d"}


def _column(one: LocalColumn | str) -> LocalColumn:
    """The column that is given, or the one of a name."""
    return one if isinstance(one, LocalColumn) else LocalColumn.named(one)


def _sql(*columns: LocalColumn | str) -> str:
    return ", ".join(_column(one).sql for one in columns)


def _call(function: str) -> Callable[..., LocalColumn]:
    """Call a function of DuckDB that takes the same columns."""
    return lambda *columns: LocalColumn(f"{function}({_sql(*columns)})")


def _written(sql: str) -> Callable[..., LocalColumn]:
    """Put each column into its place in this text."""
    return lambda *columns: LocalColumn(sql.format(*map(_sql, columns)))


class LocalFunctions:
    """`pyspark.sql.functions`, as far as queries use them. Each is described there."""

    @staticmethod
    def col(name: str) -> LocalColumn:
        return LocalColumn.named(name)

    @staticmethod
    def lit(value: object) -> LocalColumn:
        return LocalColumn(literal(value))

    @staticmethod
    def when(condition: LocalColumn, value: object) -> LocalCase:
        sql = value.sql if isinstance(value, LocalColumn) else literal(value)
        return LocalCase(f"WHEN {condition.sql} THEN {sql}")

    coalesce = _call("coalesce")

    @staticmethod
    def struct(*columns: LocalColumn | str) -> LocalColumn:
        named = enumerate(map(_column, columns), 1)
        fields = (f"{quoted(one.name or f'col{number}')} := {one.sql}" for number, one in named)
        return LocalColumn(f"struct_pack({', '.join(fields)})")

    @staticmethod
    def array(*columns: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"[{_sql(*columns)}]")

    @staticmethod
    def broadcast(frame: Any) -> Any:
        return frame

    # -- of one row

    abs = _call("abs")
    floor = _written("CAST(floor({}) AS BIGINT)")

    @staticmethod
    def concat(*columns: LocalColumn | str) -> LocalColumn:
        # DuckDB's own takes null for nothing; here, as in Spark, it makes all of it null.
        parts = (f"CAST({_sql(one)} AS VARCHAR)" for one in columns)
        return LocalColumn(f"({' || '.join(parts)})")

    @staticmethod
    def concat_ws(separator: str, texts: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"coalesce(array_to_string({_sql(texts)}, {literal(separator)}), '')")

    @staticmethod
    def format_string(form: str, *columns: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"printf({literal(form)}, {_sql(*columns)})")

    split_part = _call("split_part")
    unix_micros = _call("epoch_us")
    timestamp_micros = _call("make_timestamp")

    @staticmethod
    def date_format(time: LocalColumn, form: str) -> LocalColumn:
        return LocalColumn(f"strftime({time.sql}, {literal(_DATES[form])})")

    xxhash64 = _call("xxhash64")

    # -- of lists

    size = _call("len")
    element_at = _written("({})[{}]")
    array_contains = _call("list_contains")
    array_remove = _written("list_filter({}, lambda one: one <> {})")
    array_except = _written("list_filter({}, lambda one: NOT list_contains({}, one))")
    sort_array = _written("list_sort({}, 'ASC', 'NULLS FIRST')")
    explode = _call("unnest")

    # -- of many rows

    @staticmethod
    def count(column: LocalColumn | str) -> LocalColumn:
        return LocalColumn("count(*)") if column == "*" else LocalColumn(f"count({_sql(column)})")

    count_if = _written("count(*) FILTER (WHERE {})")
    count_distinct = _written("count(DISTINCT {})")
    sum = _written("CAST(sum({}) AS BIGINT)")
    min = _call("min")
    max = _call("max")
    first = _call("first")
    min_by = _call("min_by")
    bit_or = _call("bit_or")
    collect_list = _written("coalesce(list({0}) FILTER (WHERE {0} IS NOT NULL), [])")
    collect_set = _written("coalesce(list(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL), [])")
