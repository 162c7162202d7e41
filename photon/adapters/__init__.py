"""Adapters: how a foreign and its primary event become one row (paper, section 3.5).

An adapter is a function of the pair alone: no clock, no network, no randomness, nothing of the other pairs of
its batch (protocol A20). A rebuild must give the same row, and every datacenter must decide alike. This file
has the adapters themselves and the names of columns; `line_format` has the class of a user's own log format,
and `user_modules` imports what a user wrote.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import pyarrow as pa

PRIMARY_PREFIX = "primary_"
FOREIGN_PREFIX = "foreign_"  # for foreign columns whose names are taken
SUFFIX_BYTES = 4
# In names of columns Delta refuses the first ones; Arrow's interface of C cuts a name at a NUL.
_REFUSED = re.compile(r"[ ,;{}()=\x00-\x1f\x7f]")
MOST_NAME_BYTES = 255  # longest name of a column in a table: catalogs take no longer one

# The columns that Photon puts before those of the events.
ROW_COLUMNS = pa.schema(
    [
        ("_datacenter", pa.string()),
        ("_epoch", pa.string()),
        ("_batch", pa.int64()),
        ("_plan", pa.string()),  # the plan that claimed the row's id
        ("_occurrence", pa.string()),
        ("_joined_at", pa.timestamp("us", "UTC")),
        ("_event_id", pa.string()),
        ("_primary_occurrence", pa.string()),
        ("_event_time", pa.timestamp("us", "UTC")),  # the foreign event's, which may be part of its identity
        # The primary event's; null in rows that were made before there were these columns.
        ("_primary_id", pa.string()),
        ("_primary_time", pa.timestamp("us", "UTC")),
    ]
)
DATE_COLUMN = "_event_date"  # the UTC date of `_event_time`, by which tables are partitioned
OWN_COLUMNS = (*ROW_COLUMNS.names, DATE_COLUMN)  # of the tables of joined rows
# Beside rows while they are read; `__filename` and `_metadata` are pyarrow's and Spark's names for such.
FILE_COLUMN, ROW_NUMBER_COLUMN = "_photon_file", "_photon_row"
# No column of a log or an adapter may have one of these names: each is put beside rows somewhere.
RESERVED_COLUMNS = (
    *OWN_COLUMNS,
    *("_release", "_change_type"),  # of a change feed, Photon's and Delta's
    *("_commit_version", "_commit_timestamp"),  # of Delta's
    *("__filename", "_metadata", FILE_COLUMN, ROW_NUMBER_COLUMN),
)
RESERVED_PREFIX = "_photon_"  # all names that begin so are reserved too


@dataclass(frozen=True)
class Adapted:
    """The rows of the pairs that are kept, and which pairs those are.

    `kept` is a boolean array without nulls, one for each pair; `table` has one row for each true, in order.
    """

    table: pa.Table
    kept: pa.BooleanArray


class Adapter:
    """Combines, filters or skips events. Derive from it and override `combine`, and `skip` where needed.

    Called with batches of any size, also of one pair. An instance may be used for many batches. A column that
    is in no record of the batch is not in its tables, unless the pipeline file declares it.
    """

    primary_prefix: str = PRIMARY_PREFIX  # the pipeline file's `primary.prefix`, once it is loaded

    @property
    def is_pairwise(self) -> bool:
        """Whether `combine` is Photon's own, and so can't let one pair have a say in the row of another."""
        return type(self).combine in (Adapter.combine, PerEventAdapter.combine)

    def skip(self, foreign: pa.Table) -> pa.BooleanArray | None:
        """Say by true which foreign events to pass over before any lookup; None: none of them."""
        return None

    def combine(self, foreign: pa.Table, primary: pa.Table) -> pa.Table | Adapted:
        """The joined rows of pairs: row i of `foreign` goes with row i of `primary`.

        A table has one row a pair, in order; `Adapted` leaves out the pairs that are filtered.
        Names that `is_reserved` are not for adapters.
        """
        return merge(foreign, primary, self.primary_prefix)


def merge(foreign: pa.Table, primary: pa.Table, prefix: str = PRIMARY_PREFIX) -> pa.Table:
    """Keeps all columns of both records: foreign ones under their names, primary ones behind the prefix.

    A foreign column with a reserved name, or one that begins with the prefix, gets `foreign_`.
    """
    names = [foreign_name(name, prefix) for name in foreign.column_names]
    names += [prefix + name for name in primary.column_names]
    if not names:
        raise ValueError("neither the foreign nor the primary events have a column; expected at least one")
    return pa.table([*foreign.columns, *primary.columns], names=names)


def foreign_name(name: str, prefix: str = PRIMARY_PREFIX) -> str:
    """The name of a foreign log's column in rows."""
    own = same_column(name)
    while own.startswith(FOREIGN_PREFIX):  # or two names would become one
        own = own.removeprefix(FOREIGN_PREFIX)
    is_free = not is_reserved(own) and not own.startswith(prefix.lower())
    return name if is_free else FOREIGN_PREFIX + name


merge_columns = Adapter()


class EventColumns(dict[str, Any]):
    """Holds the values of one event by column, without nulls. A column that is not there reads as None."""

    def __missing__(self, name: str) -> None:
        return None


@dataclass(frozen=True)
class PerEventAdapter(Adapter):
    """Make an adapter of a function on one pair, as dicts by column; it returns a row or None (filter).

    Also as a decorator: `@per_event` before `def f(foreign: dict, primary: dict) -> dict | None`. What the
    dicts have is what the two records have: `EventColumns`.

    Values have the Python types of their columns. Give each column of the row one type: a value that
    Arrow can't bring under one type with those before it makes its event a dead letter.
    """

    function: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]

    def combine(self, foreign: pa.Table, primary: pa.Table) -> Adapted:
        pairs = zip(_events(foreign), _events(primary), strict=True)
        results = [_checked(self.function(*pair)) for pair in pairs]
        rows = [row for row in results if row is not None]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: _of_one_type(name, [row.get(name) for row in rows]) for name in names}
        table = pa.table(columns) if columns else rows_without_columns(len(rows))
        return Adapted(table, pa.array([row is not None for row in results], pa.bool_()))


def _checked(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is not None and not isinstance(row, Mapping):
        raise TypeError(f"the function returned {type(row).__name__}; expected a dict, or None")
    return row


def _of_one_type(name: str, values: list[Any]) -> list[Any]:
    """Return the values, if they have one Python type.

    Else Arrow would change some of them for the others' sake: a time becomes a date, an integer a float. The
    pairs are asked about again, fewer at a time.
    """
    kinds = {type(value).__name__ for value in values if value is not None}
    if len(kinds) > 1:
        raise TypeError(f"column {name!r} has values of types {', '.join(sorted(kinds))}; expected one")
    return values


def rows_without_columns(count: int) -> pa.Table:
    """A table of so many rows and no column."""
    return pa.table({"": pa.nulls(count)}).select([])


def _events(table: pa.Table) -> Iterator[EventColumns]:
    for row in table.to_pylist():
        yield EventColumns((name, value) for name, value in row.items() if value is not None)


per_event = PerEventAdapter


# -- names of columns: two are one for a table if they differ only in case, or in characters that it refuses


def stored_name(name: str) -> str:
    """Return the name in a table: what tables refuse becomes `_`, and a long name is cut."""
    safe = _REFUSED.sub("_", name) or "column"
    if len(name) <= MOST_NAME_BYTES // 4 or len(safe.encode("utf-8", "surrogatepass")) <= MOST_NAME_BYTES:
        return safe
    kept = safe.encode("utf-8", "surrogatepass")[: MOST_NAME_BYTES - 2 * SUFFIX_BYTES - 1]
    return f"{kept.decode(errors='ignore')}_{_hash(name)}"


def same_column(name: str) -> str:
    """Return a form that two names share if a table takes them for one column."""
    return stored_name(name).lower()


def is_reserved(name: str) -> bool:
    """Whether no column of a log may be stored under this name."""
    own = same_column(name)
    return own in RESERVED_COLUMNS or own.startswith(RESERVED_PREFIX)


@lru_cache(1024)
def distinct_names(names: tuple[str, ...], declared: tuple[str, ...] = ()) -> Mapping[str, str]:
    """Name the different keys of one record so that no two are one column.

    One of those that would be keeps its name, as it is `declared`: the declared one, else one that a table
    bears as it is, else the first with lower case before upper case. Each other gets its hash behind it.
    """
    spellings = {same_column(name): name for name in declared}
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[same_column(name)].append(name)
    found = {name: f"{name}_{_hash(name)}" for name in names}
    if not found.keys().isdisjoint(found.values()):  # somebody named a key like the hash of another one
        found = {name: f"{hashed}_" for name, hashed in found.items()}
    for column, group in alike.items():
        first = min(group, key=lambda n: (n not in declared, n != stored_name(n), n.swapcase()))
        found[first] = spellings.get(column, first)
    return found


def _hash(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=SUFFIX_BYTES).hexdigest()
