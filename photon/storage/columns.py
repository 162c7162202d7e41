"""The columns of a datacenter's tables, and rows that fit them."""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa

from photon.adapters import ROW_COLUMNS

TableName = Literal["joined_events", "dead_letters", "unjoined", "too_old"]

_TIME = pa.timestamp("us", "UTC")
_STAMP = [ROW_COLUMNS.field(name) for name in ("_datacenter", "_epoch", "_batch", "_occurrence")]
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
_FORBIDDEN_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")  # Parquet column names that Delta refuses


def presentable(table: pa.Table) -> pa.Table:
    """The same rows with column names and types that a Delta table can hold.

    Characters that Delta refuses become `_`, and types without a Delta counterpart their nearest one. A
    column of nothing but nulls without a type is left out: it reads as null anyway.
    """
    names: list[str] = []
    columns: list[pa.ChunkedArray] = []
    taken: set[str] = set()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_null(column.type):
            continue
        shown = _FORBIDDEN_IN_NAMES.sub("_", name) or "column"
        while shown.lower() in taken:
            shown += "_"
        taken.add(shown.lower())
        names.append(shown)
        columns.append(column.cast(_delta_type(column.type)))
    return pa.table(columns, names=names)


def _delta_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _delta_type(kind.value_type)
    return next((nearest for is_kind, nearest in _NEAREST_TYPES if is_kind(kind)), kind)


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the schema's types where it has the column. ArrowInvalid if a value does not fit."""
    known = {field.name: field for field in schema}
    return table.cast(pa.schema([known.get(field.name, field) for field in table.schema]))
