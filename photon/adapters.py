"""Adapters: how a foreign and its primary event become one row (paper, section 3.5).

An adapter is a function of the pair alone: no clock, no network, no randomness. A rebuild must give the
same row, and every datacenter must decide alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# The columns that Photon puts before those of the events.
ROW_COLUMNS = pa.schema(
    [
        ("_datacenter", pa.string()),
        ("_epoch", pa.string()),
        ("_batch", pa.int64()),
        ("_occurrence", pa.string()),
        ("_joined_at", pa.timestamp("us", "UTC")),
        ("_event_id", pa.string()),
        ("_primary_occurrence", pa.string()),
        ("_event_time", pa.timestamp("us", "UTC")),  # of the foreign event, which may be part of its identity
    ]
)
RESERVED_COLUMNS = tuple(ROW_COLUMNS.names)


@dataclass(frozen=True)
class Adapted:
    """The rows of the pairs that are kept, and which pairs those are.

    `kept` is a boolean array without nulls, one for each pair; `table` has one row for each true, in order.
    """

    table: pa.Table
    kept: pa.BooleanArray


class Adapter:
    """Combines, filters or skips. Derive from it and override `combine`, and `skip` where needed.

    Called with batches of any size, also of one pair. An instance may be used for many batches.
    """

    def skip(self, foreign: pa.Table) -> pa.BooleanArray | None:
        """Which foreign events to pass over before any lookup: true for those; None: none of them."""
        return None

    def combine(self, foreign: pa.Table, primary: pa.Table) -> pa.Table | Adapted:
        """The joined rows of pairs: row i of `foreign` goes with row i of `primary`.

        A table has one row a pair, in order; `Adapted` leaves out the pairs that are filtered.
        Column names beginning with those of `RESERVED_COLUMNS` are not for adapters.
        """
        return merge(foreign, primary)


def merge(foreign: pa.Table, primary: pa.Table) -> pa.Table:
    """All columns of both: foreign columns keep their names, primary ones get `primary_` where taken.

    Names are compared without regard to case, as Delta compares them. A foreign column with one of Photon's
    own names gets `foreign_`. A prefix is repeated until the name is free.
    """
    taken = set(RESERVED_COLUMNS)
    columns: dict[str, Any] = {}
    for prefix, table in (("foreign_", foreign), ("primary_", primary)):
        for name, column in zip(table.column_names, table.columns, strict=True):
            while name.lower() in taken:
                name = prefix + name
            taken.add(name.lower())
            columns[name] = column
    if not columns:
        raise ValueError("neither the foreign nor the primary events have a column; expected at least one")
    return pa.table(columns)


merge_columns = Adapter()


@dataclass(frozen=True)
class PerEventAdapter(Adapter):
    """An adapter from a function on one pair, as dicts by column; it returns a row or None (filter).

    Also as a decorator: `@per_event` before `def f(foreign: dict, primary: dict) -> dict | None`.

    Values have the Python types of their columns. Give each column of the row one type: a value that
    Arrow can't bring under one type with those before it makes its event a dead letter.
    """

    function: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]

    def combine(self, foreign: pa.Table, primary: pa.Table) -> Adapted:
        pairs = zip(foreign.to_pylist(), primary.to_pylist(), strict=True)
        results = [self.function(*pair) for pair in pairs]
        rows = [row for row in results if row is not None]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        return Adapted(table, pa.array([row is not None for row in results], pa.bool_()))


per_event = PerEventAdapter
