"""Rows as PostgreSQL takes them: types of columns, and CSV for its COPY. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from photon.feed.made_table import SYSTEM_COLUMNS
from photon.feed.step import FeedStopped
from photon.storage.json_lines import json_texts

# These name a row: a batch of an epoch has one plan (A15).
KEY = ("_datacenter", "_epoch", "_batch", "_occurrence")
_IDS = ("_event_id", "event_id", "primary_id")  # by which a row is told to people, of each table
MOST_NAME_BYTES = 63  # PostgreSQL cuts a longer name without a word
_WITHOUT = "make the table yourself, without this column, and name it by --into"
_OWN_TABLE = "make the table yourself, without this column or with it as bytea, and name it by --into"
_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}
_OTHER_TYPES = (
    (pa.types.is_timestamp, "timestamptz"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_nested, "jsonb"),
    (pa.types.is_binary, "bytea"),
)


def columns_of(schema: pa.Schema) -> dict[str, str]:
    """The columns that a table is made with, and their types. FeedStopped: a name is too long."""
    for name in schema.names:
        if name in SYSTEM_COLUMNS:
            raise FeedStopped(f"column {name!r}: PostgreSQL has one of this name in each table; {_WITHOUT}")
        if len(name.encode()) > MOST_NAME_BYTES:
            expected = f"expected a name of at most {MOST_NAME_BYTES} bytes, as PostgreSQL takes it"
            raise FeedStopped(f"column {name!r}: {expected}; {_OWN_TABLE}")
    return {field.name: _type_of(field.type) for field in schema if field.name != "_change_type"}


def _type_of(kind: pa.DataType) -> str:
    return _TYPES.get(kind) or next((name for is_kind, name in _OTHER_TYPES if is_kind(kind)), "text")


def brought(page: pa.Table) -> pa.Table:
    """The rows that are there from now on."""
    return page.filter(pc.is_in(page["_change_type"], pa.array(["insert", "update_postimage"])))


def taken_back(page: pa.Table) -> pa.Table:
    """The keys of rows that were there until now; without those of a whole datacenter."""
    is_gone = pc.is_in(page["_change_type"], pa.array(["delete", "update_preimage"]))
    return page.select(KEY).filter(pc.and_(is_gone, pc.is_valid(page["_occurrence"])))


def csv_of(page: pa.Table, kinds: Mapping[str, str]) -> bytes:
    """The values of these columns, each for a type of PostgreSQL's; a null has no quotes."""
    columns = [_texts(page[name], kind) for name, kind in kinds.items()]
    out = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.table(columns, names=list(kinds)), out, options)
    return out.getvalue()


def _texts(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_nested(column.type):
        return json_texts(column)
    if kind == "bytea" or pa.types.is_binary(column.type):
        values = column.cast(pa.binary()).to_pylist()
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in values], pa.string())
    return column


def nul_in(page: pa.Table) -> str | None:
    """The first text of a page that PostgreSQL can't hold, and what to do; None if there is none."""
    for name, column in zip(page.column_names, page.columns, strict=True):
        is_nested = pa.types.is_nested(column.type)
        if is_nested or _type_of(column.type) == "text":
            texts = json_texts(column) if is_nested else column
            found = pc.index(pc.match_substring(texts, r"\u0000" if is_nested else "\0"), True).as_py()
            if found >= 0:
                event = page[next(id_ for id_ in _IDS if id_ in page.column_names)][found].as_py()
                why = "has a NUL, which PostgreSQL's text can't hold"
                return f"column {name!r} of event {event!r} {why}; {_OWN_TABLE}"
    return None


def doubled_in(page: pa.Table) -> str | None:
    """The first key that two rows of a page have, and what to do; None if there is none.

    Photon writes no such rows; all of a batch are in one page.
    """
    rows = brought(page).group_by(KEY).aggregate([([], "count_all")])
    found = rows.filter(pc.greater(rows["count_all"], 1)).to_pylist()
    if not found:
        return None
    key = ", ".join(str(found[0][name]) for name in KEY)
    why = f"{found[0]['count_all']} rows have the key ({key}): somebody changed a lake"
    return f"{why}; a verification says what to do, and --resync then delivers all rows anew"
