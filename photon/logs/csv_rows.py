"""CSV and TSV lines as text columns, with pyarrow's reader, each line on its own.

Quotes are CSV's alone, and a quoted value may not hold a newline. What pyarrow makes of a line by
itself is what the line means; reading many at once is only quicker, and is checked to be the same.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pyarrow_csv

from photon.logs.lines import LineTexts, concat_texts, join_lines


def header_names(header: bytes, tsv: bool) -> list[str]:
    """The column names of a header line; ValueError if it is not text."""
    text = header.decode()
    if tsv:
        return text.split("\t")
    return next(csv.reader([text]), [""])


def read_csv_lines(raws: pa.Array, column_count: int, wanted: Sequence[int], tsv: bool) -> LineTexts:
    """The columns `wanted` (by position) of lines that are UTF-8 and not empty, as strings."""
    carriage_returns = pc.match_substring(raws, b"\r")
    if pc.any(carriage_returns).as_py():  # pyarrow would end a row there
        return _without(raws, carriage_returns, column_count, wanted, tsv)
    block = _read_block(raws, column_count, wanted, tsv)
    if block is not None:
        return block
    if len(raws) == 1:
        return LineTexts(_nulls(1, len(wanted)), {0: "not valid CSV: a quoted value is not closed"})
    half = len(raws) // 2
    parts = [read_csv_lines(part, column_count, wanted, tsv) for part in (raws[:half], raws[half:])]
    return concat_texts(parts, [half, len(raws) - half])


def _without(raws: pa.Array, bad: pa.Array, column_count: int, wanted: Sequence[int], tsv: bool) -> LineTexts:
    """All lines but those with a carriage return in them, which fail."""
    good_rows = pc.indices_nonzero(pc.invert(bad)).to_pylist()
    texts = read_csv_lines(raws.take(pa.array(good_rows, pa.int64())), column_count, wanted, tsv)
    failures = {good_rows[row]: reason for row, reason in texts.failures.items()}
    failures.update(dict.fromkeys(pc.indices_nonzero(bad).to_pylist(), "a carriage return within the line"))
    places = dict(zip(good_rows, range(len(good_rows)), strict=True))
    return LineTexts(_spread(texts.columns, [places.get(row) for row in range(len(raws))]), failures)


def _read_block(raws: pa.Array, column_count: int, wanted: Sequence[int], tsv: bool) -> LineTexts | None:
    """All lines at once; None if a quote that is not closed may have swallowed line ends.

    No row is less than a line, for lines hold no other line end; so as many rows as lines are the lines.
    A line of empty values follows as a guard: it is swallowed where the last line has an open quote.
    """
    delimiter = "\t" if tsv else ","
    guard = pa.array([delimiter.encode() * (column_count - 1)], pa.binary())
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
                delimiter=delimiter,
                quote_char=False if tsv else '"',
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
    columns = tuple(_one_array(table[name])[: len(raws) - len(invalid)] for name in wanted_names)
    if invalid:
        good = iter(range(len(raws)))
        columns = _spread(columns, [None if row in invalid else next(good) for row in range(len(raws))])
    return LineTexts(columns, invalid)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _spread(columns: Sequence[pa.Array], places: Sequence[int | None]) -> tuple[pa.Array, ...]:
    """Each column with its values where `places` says; None is null."""
    indices = pa.array(places, pa.int64())
    return tuple(column.take(indices) for column in columns)


def _nulls(length: int, count: int) -> tuple[pa.Array, ...]:
    return (pa.nulls(length, pa.string()),) * count
