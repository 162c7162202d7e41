"""The columns of a datacenter's tables, and rows that fit them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.adapters import DATE_COLUMN, ROW_COLUMNS, rows_without_columns, same_column, stored_name

TableName = Literal[
    "joined_events", "dead_letters", "unjoined", "too_old", "conflicting", "unmatched", "left_out"
]

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
        ("key", pa.string()),  # null in rows that were made before there was this column
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
CONFLICT_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("event_id", pa.string()),
        ("path", pa.string()),
        ("offset_bytes", pa.int64()),
        ("joined_path", pa.string()),
        ("joined_offset_bytes", pa.int64()),
        ("differs", pa.string()),
    ]
)
# Primary ids that foreign events named which the adapter dropped or passed over: one row of a task for each.
LEFT_OUT_COLUMNS = pa.schema([*_STAMP, ("key", pa.string()), ("reason", pa.string())])
# Before the columns of the primary log that the pipeline file names. `_batch` is the number of a run.
UNMATCHED_COLUMNS = pa.schema(
    [
        *_STAMP,
        ("primary_id", pa.string()),
        ("primary_time", _TIME),
        ("reason", pa.string()),
        ("conflicting", pa.bool_()),
    ]
)
TABLE_COLUMNS: dict[TableName, pa.Schema] = {
    "joined_events": ROW_COLUMNS,
    "dead_letters": DEAD_LETTER_COLUMNS,
    "unjoined": UNJOINED_COLUMNS,
    "too_old": UNJOINED_COLUMNS,
    "conflicting": CONFLICT_COLUMNS,
    "unmatched": UNMATCHED_COLUMNS,
    "left_out": LEFT_OUT_COLUMNS,
}
# The tables that every dispatcher has; the others are there for pipelines that ask for unmatched primaries.
BATCH_TABLES: tuple[TableName, ...] = tuple(
    name for name in TABLE_COLUMNS if name not in ("unmatched", "left_out")
)
# Partitions of tables; the others have none.
PARTITIONS: dict[TableName, tuple[str, ...]] = {"joined_events": (DATE_COLUMN,)}
_NEAREST_TYPES = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_timestamp, _TIME),
    (pa.types.is_unsigned_integer, pa.int64()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_float16, pa.float32()),
)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
# Digits of every decimal: values that come later may have more than the first ones.
_DECIMAL_DIGITS = 38
_SIMPLE_TYPES = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    _TIME,
}


def with_own_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a table of joined rows, with those of Photon's that came after it was made."""
    return pa.schema([*schema, *(field for field in ROW_COLUMNS if field.name not in schema.names)])


def by_date(rows: pa.Table) -> list[tuple[str | None, pa.Table]]:
    """Rows by the UTC date of their events, as 2026-01-31; None: of events without a time.

    Rows of one date, as in nearly every live batch, stay as they are.
    """
    if "_event_time" not in rows.column_names:
        return [(None, rows)]
    dates = rows["_event_time"].cast(pa.timestamp("us", "UTC")).cast(pa.date32())
    found = pc.unique(dates).to_pylist()
    if len(found) < 2:
        return [(None if date is None else date.isoformat(), rows) for date in found]
    return [
        (None, rows.filter(pc.is_null(dates)))
        if date is None
        else (date.isoformat(), rows.filter(pc.equal(dates, date)))
        for date in found
    ]


def text(name: str) -> ds.Expression:
    """A column of text, for a filter that holds in all files of a Delta table.

    A delete or optimize by delta-rs writes it as string_view, with which pyarrow does not compare text.
    """
    return ds.field(name).cast(pa.string())


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with column names and types that a Delta table of this schema can hold.

    A column that the table has, but for case, gets its name and type; another one the nearest that there is.
    Columns that are one for the table become one (`photon.adapters`). A column whose values do not tell
    its type, as nulls and empty lists, is left out: it reads as null.
    ArrowInvalid if a value does not fit, ValueError if a row has two values for a column, or one that no
    column can hold.
    """
    fields = {same_column(field.name): field for field in schema}
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        field = fields.get(same_column(name))
        kind = _stored_type(column.type, name)
        if field is None:
            if kind is None:
                continue
            field = fields[same_column(name)] = pa.field(stored_name(name), kind)
        elif pa.types.is_null(column.type):
            continue
        elif kind is not None:
            _check_parts(kind, field.type, name)
        values = _cast(column, field.type, name)
        there = columns.get(field.name)
        columns[field.name] = values if there is None else _united(field.name, there, values)
    return pa.table(columns) if columns else rows_without_columns(table.num_rows)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    """The values in another type. ArrowInvalid if one does not fit: Arrow makes a large float infinite.

    In a column of floats, as the table may have from before, decimals are exact as far as floats tell them.
    """
    values = column.cast(kind)
    if pa.types.is_floating(kind) and pa.types.is_floating(column.type) and column.type != kind:
        is_lost = pc.and_(pc.is_inf(values), pc.invert(pc.is_inf(column)))
        if pc.any(is_lost).as_py():
            raise pa.ArrowInvalid(f"column {name!r}: a value of {column.type} is beyond {kind}")
    is_of_digits = pa.types.is_floating(kind) and pa.types.is_decimal(column.type)
    if is_of_digits and not values.cast(column.type).equals(column):
        raise pa.ArrowInvalid(f"column {name!r} has {kind} since before: a {column.type} loses digits")
    return values


def _united(name: str, some: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.and_(pc.is_valid(some), pc.is_valid(others))).as_py():
        raise ValueError(f"two values for column {name!r}; expected names that differ by more than case")
    return pc.coalesce(some, others)


def _stored_type(kind: pa.DataType, name: str) -> pa.DataType | None:
    """The nearest type that Delta has; None where values do not tell it. ValueError if there is none.

    A column of a type that was only guessed from nulls could never hold a value.
    """
    if pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _stored_type(kind.value_type, name)
    if pa.types.is_struct(kind):
        return _stored_struct(kind, name)
    if any(is_list(kind) for is_list in _LISTS):
        item = _stored_type(kind.value_type, name)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(kind):
        key, item = _stored_type(kind.key_type, name), _stored_type(kind.item_type, name)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_decimal(kind) and kind.scale <= _DECIMAL_DIGITS:
        return pa.decimal128(_DECIMAL_DIGITS, kind.scale)
    nearest = next((nearest for is_kind, nearest in _NEAREST_TYPES if is_kind(kind)), kind)
    if nearest not in _SIMPLE_TYPES:
        raise ValueError(f"column {name!r}: a table holds no {kind}; return a number or text instead")
    return nearest


def _stored_struct(kind: pa.StructType, name: str) -> pa.DataType | None:
    parts = {part.name: _stored_type(part.type, f"{name}.{part.name}") for part in kind}
    if unsafe := next((part for part in parts if part != stored_name(part)), None):
        raise ValueError(f"column {name!r}: a table holds no part named {unsafe!r}; give it another name")
    if len({part.lower() for part in parts}) < kind.num_fields:
        raise ValueError(f"column {name!r}: two of its parts have one name; expected more than another case")
    known = [(part, part_type) for part, part_type in parts.items() if part_type is not None]
    return pa.struct(known) if known else None


def _check_parts(kind: pa.DataType, there: pa.DataType, name: str) -> None:
    """Raise ValueError for parts that the table's column lacks: a cast would drop them."""
    if pa.types.is_struct(kind) and pa.types.is_struct(there):
        for part in kind:
            if there.get_field_index(part.name) < 0:
                raise ValueError(f"column {name!r} has no part {part.name!r} in its table, and gets no other")
            _check_parts(part.type, there.field(part.name).type, f"{name}.{part.name}")
    elif pa.types.is_list(kind) and pa.types.is_list(there):
        _check_parts(kind.value_type, there.value_type, name)
    elif pa.types.is_map(kind) and pa.types.is_map(there):
        _check_parts(kind.item_type, there.item_type, name)


def differs(old: pa.Table, new: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows differ. A column that one of them lacks is null in it."""
    found = np.zeros(old.num_rows, bool)
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        if name not in new.column_names or name not in old.column_names:
            only = (old if name in old.column_names else new)[name]
            found |= pc.is_valid(only).to_numpy(zero_copy_only=False)
        elif not old[name].equals(new[name]):
            found |= _values_differ(old[name].combine_chunks(), new[name].combine_chunks())
    return found


def _values_differ(old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
    if pa.types.is_nested(old.type) or old.type != new.type:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.array([a != b for a, b in pairs], bool)
    unlike = pc.xor(pc.is_null(old), pc.is_null(new))
    if pa.types.is_floating(old.type):  # NaN is as good as NaN
        both = pc.and_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False))
        unequal = pc.and_not(pc.fill_null(pc.not_equal(old, new), False), both)
    else:
        unequal = pc.fill_null(pc.not_equal(old, new), False)
    mask: npt.NDArray[np.bool_] = pc.or_(unlike, unequal).to_numpy(zero_copy_only=False)
    return mask
