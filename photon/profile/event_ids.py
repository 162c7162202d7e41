"""Which column is a foreign event's own id: one that is unique and looks like one, else a question.

A wrong id drops events without a word: two records that share it count as one event. So nothing is proposed
that other columns, or a longer log, might prove wrong. Pure decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.profile.column import LEAST_DISTINCT, LEAST_FILLED, Column
from photon.profile.column_names import id_name, is_word_of_log
from photon.profile.findings import OpenQuestion, Proposal, Sureness

# Among fewer records a column may be unique by chance. One that is called like the event's own id needs two.
LEAST_RECORDS, LEAST_RECORDS_OF_OWN = 20, 2
RECORDS_TO_BE_SURE = 100
MOST_COLUMNS_OF_AN_ID = 3
LEAST_STEPS = 10  # from one number to the next of a host's or session's count that began before the sample
LEAST_IN_ORDER = 0.9  # share of these steps that are 1, and of the counts that begin with the same number
MOST_DISTINCT_OF_GROUPS = 0.1  # share of different integers that may number partitions or processes
_MOST_COMBINED = 12  # of so many columns, the likeliest ones, combinations are tried
_MOST_SHOWN = 4  # columns, or choices of an id, in one question


def foreign_id(
    columns: Mapping[str, Column], key: Sequence[str], log: frozenset[str], of_primary: frozenset[str]
) -> Proposal | OpenQuestion:
    """The id of foreign events. `log`: the words for one record of the foreign log, as `click`.

    `of_primary`: columns that the primary log has too, with the same values.
    """
    records = max((len(column.values) for column in columns.values()), default=0)
    free = [c for c in columns.values() if c.name not in key and c.name not in of_primary]
    unique = [c for c in free if c.is_unique and c.why_no_id is None and not _is_a_time(c)]
    own = [c for c in unique if _is_own(c, log)]
    others = [c for c in unique if id_name(c.name, log) == "other"]
    generated = [c for c in unique if c.form and id_name(c.name, log) is None]
    if own and records >= LEAST_RECORDS_OF_OWN:
        return _found(own[0], records, "its name says so")
    likely = others or generated
    if len(likely) == 1 and records >= LEAST_RECORDS:
        why = "its name is that of an id" if others else "no other column looks like one"
        return _found(likely[0], records, why)
    if not likely and (combined := _counted_within(columns, key, log)):
        return combined
    choices = _choices(likely, unique, columns, key, log)
    why = f"foreign: {_why(columns, unique, key, records)}"
    if all(len(names) > 1 for names in choices) and (again := _used_again(free, log)):
        choices = (*choices[: _MOST_SHOWN - 1], (again.name,))
        why += f". With {again.name} alone as the id, such a record has no row"
    return OpenQuestion(("--foreign-id",), why, tuple((",".join(names),) for names in choices))


def _used_again(free: Sequence[Column], log: frozenset[str]) -> Column | None:
    """The column that is called an id and differs in most records, though not in all."""
    named = [c for c in free if id_name(c.name, log) in ("own", "other") and c.filled >= LEAST_FILLED]
    return max((c for c in named if c.distinct >= LEAST_DISTINCT), key=lambda c: c.distinct, default=None)


def _is_own(column: Column, log: frozenset[str]) -> bool:
    """Whether a column is called like its log's own id; one called `click` needs a digit in each value."""
    if id_name(column.name, log) == "own":
        return True
    has_digits = pc.all(pc.match_substring_regex(column.different, r"\d")).as_py()
    return is_word_of_log(column.name, log) and bool(has_digits)


def _is_a_time(column: Column) -> bool:
    """Whether a column has times; integers that may be times are ids if the column is called so."""
    return column.unit is not None and (column.unit == "iso8601" or id_name(column.name, frozenset()) is None)


def _found(column: Column, records: int, why: str) -> Proposal:
    is_sure = records >= RECORDS_TO_BE_SURE and (column.form is not None or column.kind == "text")
    sure: Sureness = "sure" if is_sure else "likely"
    form = f" and are {column.form}" if column.form else ""
    few = "" if records >= RECORDS_TO_BE_SURE else ", of few records"
    return Proposal("foreign id", (column.name,), sure, f"all {records:,} values differ{form}; {why}{few}")


# -- an id of several columns: a number that counts the events of each host, session or connection


def _counted_within(
    columns: Mapping[str, Column], key: Sequence[str], log: frozenset[str]
) -> Proposal | None:
    for names in _groupings(columns, key, log):
        for count in columns.values():
            if count.kind != "integer" or count.name in names or count.is_unique or count.values.null_count:
                continue
            if why := _counts(columns, names, count):
                return Proposal("foreign id", (*names, count.name), "likely", why)
    return None


def _groupings(
    columns: Mapping[str, Column], key: Sequence[str], log: frozenset[str]
) -> Iterator[tuple[str, ...]]:
    """List columns in which records that are counted together may agree: the key first, then likely ones."""
    yield tuple(key)
    whole = [c for c in columns.values() if c.kind in ("text", "integer") and not c.values.null_count]
    named = [c.name for c in whole if id_name(c.name, log) and c.name not in key]
    texts = [c.name for c in whole if c.kind == "text" and not _is_a_time(c) and c.name not in (*named, *key)]
    numbers = [c for c in whole if c.kind == "integer" and c.distinct <= MOST_DISTINCT_OF_GROUPS]
    few = [c.name for c in numbers if c.name not in (*named, *key)]
    likely = [name for name in (*named, *texts, *few) if len(columns[name].different) > 1][:_MOST_COMBINED]
    for size in range(1, MOST_COLUMNS_OF_AN_ID):
        yield from itertools.combinations(likely, size)


def _counts(columns: Mapping[str, Column], names: Sequence[str], count: Column) -> str | None:
    """Why `count` numbers the records that are alike in `names`; None if it does not."""
    if not _fits(count):
        return None
    numbers = count.values.cast(pa.int64(), safe=True).to_numpy()
    groups = _groups([columns[name].values for name in names])
    order = np.lexsort((numbers, groups))
    group, number = groups[order], numbers[order]
    is_same = np.diff(group) == 0
    steps = np.diff(number)[is_same]
    if not len(steps) or (steps == 0).any():
        return None  # no record shares a group, or two share the number too
    starts = number[np.flatnonzero(np.diff(group, prepend=-1))]
    in_order = float((steps == 1).mean())
    begin_alike = float((starts == starts.min()).mean())
    several = len(np.unique(group[1:][is_same]))
    begins_here = starts.min() in (0, 1) and begin_alike >= LEAST_IN_ORDER and len(starts) > 2
    if in_order < LEAST_IN_ORDER or several < 2 or not (begins_here or len(steps) >= LEAST_STEPS):
        return None
    of_each = " and ".join(names)
    return (
        f"no column is an id by itself; {count.name} counts the records of each {of_each}, "
        f"{several:,} of which have several; all {len(number):,} records differ"
    )


def _fits(column: Column) -> bool:
    """Whether its integers, as text, are short enough for 64 bits."""
    return bool((pc.max(pc.utf8_length(column.different)).as_py() or 0) < 19)


def _groups(columns: Sequence[pa.Array]) -> np.ndarray:
    """A number for each record, equal where all values are."""
    codes = [
        column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False) for column in columns
    ]
    _, groups = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    return groups.reshape(-1)


# -- what is asked, where nothing is sure


def _choices(
    likely: Sequence[Column],
    unique: Sequence[Column],
    columns: Mapping[str, Column],
    key: Sequence[str],
    log: frozenset[str],
) -> tuple[tuple[str, ...], ...]:
    """List what may be the id: single columns, else the key with a column that tells its records apart."""
    named = [c for c in columns.values() if c.is_unique and c.kind == "integer" and id_name(c.name, log)]
    singles = dict.fromkeys(c.name for c in (*likely, *unique, *named) if c.name not in key)
    found: list[tuple[str, ...]] = [(name,) for name in singles]
    if key and is_unique_together(columns, key):
        found.append(tuple(key))
    if not found:
        others = [c for c in columns.values() if c.kind in ("text", "integer") and c.name not in key]
        others.sort(key=lambda column: (_is_a_time(column), column.why_no_id == "texts with blanks"))
        pairs = ((*key, column.name) for column in others)
        found = [pair for pair in pairs if is_unique_together(columns, pair)]
    return tuple(found[:_MOST_SHOWN])


def is_unique_together(columns: Mapping[str, Column], names: Sequence[str]) -> bool:
    """Whether no two records are alike in all of these columns, and each record has them all."""
    chosen = [columns[name].values for name in names]
    if not len(chosen[0]) or any(each.null_count for each in chosen):
        return False
    return len(np.unique(_groups(chosen))) == len(chosen[0])


def _why(columns: Mapping[str, Column], unique: Sequence[Column], key: Sequence[str], records: int) -> str:
    """Say why no id is sure."""
    if len(unique) > 1:
        return "several columns are unique and look like an id of the foreign event"
    if unique and records < LEAST_RECORDS:
        return (
            f"{unique[0].name} is unique, but in a sample of {records:,} it may be so by chance; "
            f"expected {LEAST_RECORDS} records or more"
        )
    if unique:
        return f"{unique[0].name} is unique, but its name is not that of an id of a foreign event"
    refused = [f"{c.name} has {c.why_no_id}" for c in columns.values() if c.is_unique and c.why_no_id]
    also = f" ({', '.join(refused[:_MOST_SHOWN])})" if refused else ""
    if key and is_unique_together(columns, key):
        once = "has each primary event one foreign event at most?"
        return f"no column but the key is unique and looks like an id{also}; {once}"
    repeated = [
        _why_not_unique(c)
        for c in columns.values()
        if id_name(c.name, frozenset()) and not c.is_unique and c.name not in key
    ]
    also = f" ({', '.join((refused + repeated)[:_MOST_SHOWN])})" if refused or repeated else ""
    return f"no column of the foreign log is unique and looks like an id{also}"


def _why_not_unique(column: Column) -> str:
    if column.count_again:
        return column.says_again
    return (
        f"{column.name} is missing in {len(column.values) - column.count:,} of {len(column.values):,} records"
    )
