"""PySpark's functions that queries use, as text of SQL for DuckDB."""

from __future__ import annotations

from typing import Any

from jobs.local.columns import LocalCase, LocalColumn, literal, quoted

_DATES = {"yyyy-MM-dd": "%Y-%m-%d"}


def _column(one: LocalColumn | str) -> LocalColumn:
    """The column that is given, or the one of a name."""
    return one if isinstance(one, LocalColumn) else LocalColumn.named(one)


def _sql(*columns: LocalColumn | str) -> str:
    return ", ".join(_column(one).sql for one in columns)


def _call(function: str, *columns: LocalColumn | str) -> LocalColumn:
    return LocalColumn(f"{function}({_sql(*columns)})")


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

    @staticmethod
    def coalesce(*columns: LocalColumn | str) -> LocalColumn:
        return _call("coalesce", *columns)

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

    @staticmethod
    def abs(column: LocalColumn | str) -> LocalColumn:
        return _call("abs", column)

    @staticmethod
    def floor(column: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"CAST(floor({_sql(column)}) AS BIGINT)")

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

    @staticmethod
    def split_part(text: LocalColumn, separator: LocalColumn, number: LocalColumn) -> LocalColumn:
        return _call("split_part", text, separator, number)

    @staticmethod
    def unix_micros(time: LocalColumn | str) -> LocalColumn:
        return _call("epoch_us", time)

    @staticmethod
    def timestamp_micros(micros: LocalColumn | str) -> LocalColumn:
        return _call("make_timestamp", micros)

    @staticmethod
    def date_format(time: LocalColumn, form: str) -> LocalColumn:
        return LocalColumn(f"strftime({time.sql}, {literal(_DATES[form])})")

    @staticmethod
    def xxhash64(column: LocalColumn | str) -> LocalColumn:
        return _call("xxhash64", column)

    # -- of lists

    @staticmethod
    def size(values: LocalColumn | str) -> LocalColumn:
        return _call("len", values)

    @staticmethod
    def element_at(values: LocalColumn, position: LocalColumn) -> LocalColumn:
        return LocalColumn(f"({values.sql})[{position.sql}]")

    @staticmethod
    def array_contains(values: LocalColumn | str, value: LocalColumn) -> LocalColumn:
        return _call("list_contains", values, value)

    @staticmethod
    def array_remove(values: LocalColumn | str, value: LocalColumn) -> LocalColumn:
        return LocalColumn(f"list_filter({_sql(values)}, lambda one: one <> {value.sql})")

    @staticmethod
    def array_except(values: LocalColumn | str, without: LocalColumn | str) -> LocalColumn:
        return LocalColumn(
            f"list_filter({_sql(values)}, lambda one: NOT list_contains({_sql(without)}, one))"
        )

    @staticmethod
    def sort_array(values: LocalColumn) -> LocalColumn:
        return LocalColumn(f"list_sort({values.sql}, 'ASC', 'NULLS FIRST')")

    @staticmethod
    def explode(values: LocalColumn) -> LocalColumn:
        return _call("unnest", values)

    # -- of many rows

    @staticmethod
    def count(column: LocalColumn | str) -> LocalColumn:
        return LocalColumn("count(*)") if column == "*" else _call("count", column)

    @staticmethod
    def count_if(condition: LocalColumn) -> LocalColumn:
        return LocalColumn(f"count(*) FILTER (WHERE {condition.sql})")

    @staticmethod
    def count_distinct(column: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"count(DISTINCT {_sql(column)})")

    @staticmethod
    def sum(column: LocalColumn | str) -> LocalColumn:
        return LocalColumn(f"CAST(sum({_sql(column)}) AS BIGINT)")

    @staticmethod
    def min(column: LocalColumn | str) -> LocalColumn:
        return _call("min", column)

    @staticmethod
    def max(column: LocalColumn | str) -> LocalColumn:
        return _call("max", column)

    @staticmethod
    def first(column: LocalColumn | str) -> LocalColumn:
        return _call("first", column)

    @staticmethod
    def min_by(column: LocalColumn | str, by: LocalColumn | str) -> LocalColumn:
        return _call("min_by", column, by)

    @staticmethod
    def bit_or(column: LocalColumn | str) -> LocalColumn:
        return _call("bit_or", column)

    @staticmethod
    def collect_list(column: LocalColumn) -> LocalColumn:
        return LocalColumn(f"coalesce(list({column.sql}) FILTER (WHERE {column.sql} IS NOT NULL), [])")

    @staticmethod
    def collect_set(column: LocalColumn | str) -> LocalColumn:
        sql = _sql(column)
        return LocalColumn(f"coalesce(list(DISTINCT {sql}) FILTER (WHERE {sql} IS NOT NULL), [])")
