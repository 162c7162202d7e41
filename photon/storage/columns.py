"""The columns of a datacenter's tables, and rows that fit them."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import ROW_COLUMNS, rows_without_columns, same_column, stored_name

TableName = Literal["joined_events", "dead_letters", "unjoined", "too_old"]

_TIME = pa.timestamp("us", "UTC")
_STAMP = [ROW_COLUMNS.field(name) for name in ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence")]
DEAD_LETTER_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("side", pa.string()),
        ("path", pa.string()),
        ("length_bytes", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
        ("event_id", pa.string()),
    ]
)
UNJOINED_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("event_id", pa.string()),
        ("key", pa.string()),
        ("event_time", _TIME),
        ("header", pa.binary()),
        ("raw", pa.binary()),
    ]
)
TABLE_COLUMNS: dict[TableName, pa.Schema] = {
    "joined_events": ROW_COLUMNS,
    "dead_letters": DEAD_LETTER_COLUMNS,
    "unjoined": UNJOINED_COLUMNS,
    "too_old": UNJOINED_COLUMNS,
}
_NEAREST_TYPES = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_timestamp, _TIME),
    (pa.types.is_unsigned_integer, pa.int64()),
    (pa.types.is_date64, pa.date32()),
)


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with column names and types that a Delta table of this schema can hold.

    A column that the table has, but for case, gets its name and type; another one the nearest that there is.
    Columns that are one for the table become one (`photon.adapters`). A column of nothing but nulls
    without a type is left out: it reads as null anyway.
    ArrowInvalid if a value does not fit, ValueError if a row has two values for a column.
    """
    fields = {same_column(field.name): field for field in schema}
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_null(column.type):
            continue
        field = fields.setdefault(same_column(name), pa.field(stored_name(name), _delta_type(column.type)))
        values = column.cast(field.type)
        there = columns.get(field.name)
        columns[field.name] = values if there is None else _united(field.name, there, values)
    return pa.table(columns) if columns else rows_without_columns(table.num_rows)


def _united(name: str, some: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.and_(pc.is_valid(some), pc.is_valid(others))).as_py():
        raise ValueError(f"two values for column {name!r}; expected names that differ by more than case")
    return pc.coalesce(some, others)


def _delta_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _delta_type(kind.value_type)
    return next((nearest for is_kind, nearest in _NEAREST_TYPES if is_kind(kind)), kind)
