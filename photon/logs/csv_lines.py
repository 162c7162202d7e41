"""The values in lines of CSV and TSV, as text columns. Quotes are CSV's alone; none may hold a newline."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pyarrow_csv

from photon.logs.dialect import Dialect
from photon.logs.lines import LineTexts, in_halves, join_lines, one_array


def read_csv_lines(raws: pa.Array, column_count: int, wanted: Sequence[int], dialect: Dialect) -> LineTexts:
    """The columns `wanted` (by position) of lines that are UTF-8 and not empty, as strings."""
    if not len(raws):
        return LineTexts((pa.array([], pa.string()),) * len(wanted), {})
    has_return = pc.match_substring(raws, b"\r")
    if pc.any(has_return).as_py():  # pyarrow would end a row there
        good = read_csv_lines(
            pc.if_else(has_return, _empty_row(column_count, dialect), raws), column_count, wanted, dialect
        )
        reason, rows = "a carriage return within the line", pc.indices_nonzero(has_return).to_pylist()
        columns = (pc.if_else(has_return, pa.scalar(None, pa.string()), column) for column in good.columns)
        return LineTexts(tuple(columns), {**good.failures, **dict.fromkeys(rows, reason)})
    block = _read_csv_block(raws, column_count, wanted, dialect)
    if block is not None:
        return block
    if len(raws) == 1:
        nothing = (pa.nulls(1, pa.string()),) * len(wanted)
        return LineTexts(nothing, {0: "not valid CSV: a quoted value is not closed"})
    return in_halves(raws, lambda half: read_csv_lines(half, column_count, wanted, dialect))


def _empty_row(column_count: int, dialect: Dialect) -> bytes:
    return dialect.delimiter.encode() * (column_count - 1)


def _read_csv_block(
    raws: pa.Array, column_count: int, wanted: Sequence[int], dialect: Dialect
) -> LineTexts | None:
    """All lines at once; None if a quote that is not closed may have swallowed line ends.

    No row is less than a line, for lines hold no other line end; so as many rows as lines are the lines.
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
