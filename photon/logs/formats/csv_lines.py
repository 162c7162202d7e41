"""The values in records of CSV and TSV, as text columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pyarrow_csv

from photon.logs.formats.dialect import Dialect
from photon.logs.formats.lines import LineTexts, in_halves, join_lines, one_array
from photon.logs.formats.records import is_whole_record

NOT_CLOSED = "not valid CSV: a quoted value is not closed, or its record is longer than limits.line"


class GoesOn(Exception):
    """A quoted value of some line may go on over the next one."""


def read_csv_lines(
    raws: pa.Array, column_count: int, wanted: Sequence[int], dialect: Dialect, are_lines: bool = False
) -> LineTexts:
    """The columns `wanted` (by position) of records that are UTF-8 and not empty, as strings.

    `are_lines`: they are lines, of which nobody knows yet whether they are records; GoesOn if some are not.
    """
    if not len(raws):
        return LineTexts((pa.array([], pa.string()),) * len(wanted), {})
    ends_within = pc.match_substring(raws, b"\r")
    if not are_lines:
        ends_within = pc.or_(ends_within, pc.match_substring(raws, b"\n"))
    if pc.any(ends_within).as_py():  # pyarrow would end a row there
        if are_lines:
            raise GoesOn
        return _read_apart(raws, ends_within, column_count, wanted, dialect)
    block = _read_csv_block(raws, column_count, wanted, dialect)
    if block is not None:
        return block
    if are_lines:
        raise GoesOn
    if len(raws) == 1:
        nothing = (pa.nulls(1, pa.string()),) * len(wanted)
        return LineTexts(nothing, {0: NOT_CLOSED})
    return in_halves(raws, lambda half: read_csv_lines(half, column_count, wanted, dialect))


def _read_apart(
    raws: pa.Array, ends_within: pa.Array, column_count: int, wanted: Sequence[int], dialect: Dialect
) -> LineTexts:
    """The values of records of which some hold line ends: those by themselves, for they are sure to be whole.

    A line that holds a carriage return outside quotes is none.
    """
    texts = zip(raws.to_pylist(), ends_within.to_pylist(), strict=True)
    kinds = np.array(
        [int(is_whole_record(raw, dialect, column_count)) + 1 if odd else 0 for raw, odd in texts]
    )
    failures = dict.fromkeys(np.flatnonzero(kinds == 1).tolist(), "a carriage return within the line")
    parts: list[tuple[pa.Array, ...]] = []
    places = np.full(len(raws), -1)
    count = 0
    for kind in (0, 2):
        rows = np.flatnonzero(kinds == kind)
        if not len(rows):
            continue
        read = _of_a_kind(raws.take(pa.array(rows)), kind == 2, column_count, wanted, dialect)
        failures.update({int(rows[row]): reason for row, reason in read.failures.items()})
        places[rows] = count + np.arange(len(rows))
        count += len(rows)
        parts.append(read.columns)
    if not parts:
        return LineTexts((pa.nulls(len(raws), pa.string()),) * len(wanted), failures)
    order = pa.array(places, mask=places < 0)
    columns = (pa.concat_arrays([part[n] for part in parts]).take(order) for n in range(len(wanted)))
    return LineTexts(tuple(columns), failures)


def _of_a_kind(
    raws: pa.Array, are_whole: bool, column_count: int, wanted: Sequence[int], dialect: Dialect
) -> LineTexts:
    """The values of records that all hold line ends in quotes, or of which none does."""
    if not are_whole:
        return read_csv_lines(raws, column_count, wanted, dialect)
    block = _read_csv_block(raws, column_count, wanted, dialect)
    assert block is not None, "whole records are as many rows"
    return block


def _empty_row(column_count: int, dialect: Dialect) -> bytes:
    return dialect.delimiter.encode() * (column_count - 1)


def _read_csv_block(
    raws: pa.Array, column_count: int, wanted: Sequence[int], dialect: Dialect
) -> LineTexts | None:
    """All lines at once; None if a quote that is not closed may have swallowed line ends.

    No row is less than a line, for lines hold no other line end, or hold them all in quotes; so as many rows
    as lines are the lines.
    A line of empty values follows as a guard: it is swallowed where the last line has an open quote.
    """
    guard = pa.array([_empty_row(column_count, dialect)], pa.binary())
    data = join_lines(pa.concat_arrays([raws, guard]))
    invalid: dict[int, str] = {}

    def note(row: pyarrow_csv.InvalidRow) -> str:
        invalid[row.number - 1] = f"expected {row.expected_columns} columns, got {row.actual_columns}"
        return "skip"

    names = [str(position) for position in range(column_count)]
    wanted_names = [names[position] for position in wanted]
    try:
        table = pyarrow_csv.read_csv(
            pa.py_buffer(data),
            # One thread and one block: row numbers are known, and no line straddles two blocks.
            pyarrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            pyarrow_csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                escape_char=dialect.escape or False,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            pyarrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted_names, pa.string()),
                include_columns=list(dict.fromkeys(wanted_names)),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows + len(invalid) != len(raws) + 1:
        return None
    columns = tuple(one_array(table[name])[: len(raws) - len(invalid)] for name in wanted_names)
    if invalid:
        good = iter(range(len(raws)))
        places = [None if row in invalid else next(good) for row in range(len(raws))]
        columns = tuple(column.take(pa.array(places, pa.int64())) for column in columns)
    return LineTexts(columns, invalid)
