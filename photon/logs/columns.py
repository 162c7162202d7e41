"""The columns that a user sees: all of them, typed, for the few records that are joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import distinct_names, rows_without_columns, same_column
from photon.logs.file_kinds import no_text
from photon.logs.folders import log_folder
from photon.logs.formats.csv_lines import read_csv_lines
from photon.logs.formats.dialect import dialect_of, header_names, utf8
from photon.logs.formats.line_formats import reader_of
from photon.logs.formats.lines import LineReader
from photon.logs.formats.times import TimeStyle, parse_event_times, style_of
from photon.logs.source import UNREADABLE, read_header
from photon.pipeline.document import KeyPath, read_document
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import ForeignLog, Log, PrimaryLog
from photon.pipeline.values import MOST_DIGITS, ColumnType, decimal_digits

ONE_NAME_EACH = "give each column of its header line a name of its own"
# A record with more columns is a dead letter: a table has a column for each, and a log whose keys are ids
# would make it grow for ever.
MOST_COLUMNS = 1_000
_NEWEST = 3  # files per datacenter: the newest alone may be an odd one
_ARROW_TYPES: Mapping[ColumnType, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "timestamp_us": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def arrow_type(declared: ColumnType) -> pa.DataType:
    """The type of a declared column, as tables have it: each decimal with the most digits there are."""
    digits = decimal_digits(declared)
    return _ARROW_TYPES[declared] if digits is None else pa.decimal128(MOST_DIGITS, digits[1])


@dataclass(frozen=True, slots=True)
class ParsedColumns:
    """One row for each line, in order; a line that failed has a row of nulls and a reason."""

    table: pa.Table
    failures: Mapping[int, str]  # row -> reason


def parse_columns(
    raws: pa.Array, header: bytes, log: PrimaryLog | ForeignLog, most_columns: int = MOST_COLUMNS
) -> ParsedColumns:
    """All columns of the given lines (binary, as in `_raw`), which share one `header` (empty for JSON lines).

    Columns declared in `log.columns` have their type, all others are strings. Of CSV and TSV the
    columns are those of the header; of JSON lines all keys and what is declared,
    by name. An empty text of a declared type other than string and
    binary is null. A timestamp is ISO 8601 text, or a number of the log's `time_unit`.
    """
    dialect, reader = dialect_of(log), reader_of(log)
    if dialect is None:
        assert reader is not None, "a format without a dialect has a reader"
        columns, failures = _named_in_lines(utf8(raws, dialect), reader, log, most_columns)
    else:
        names = header_names(header, dialect)
        columns, failures = _csv_columns(utf8(raws, dialect), names, log, most_columns)
    typed = {}
    for name, texts in columns.items():
        declared = log.columns.get(name, "string")
        typed[name], misfits = _typed(texts, declared, log)
        for row in misfits:
            text = texts[row].as_py()
            failures.setdefault(row, f"column {name!r}: {_shorten(text)} is not a value of type {declared}")
    return ParsedColumns(_table(typed, len(raws), failures), failures)


def _csv_columns(
    texts: pa.Array, header: Sequence[str], log: Log, most_columns: int
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    names = _unique(header, tuple(log.columns))
    if len(names) > most_columns:
        nothing = dict.fromkeys(names[:most_columns], pa.nulls(len(texts), pa.string()))
        return nothing, dict.fromkeys(range(len(texts)), _too_many(len(names), most_columns))
    dialect = dialect_of(log)
    assert dialect is not None, "JSON lines have columns of their own"
    values = read_csv_lines(texts, len(names), range(len(names)), dialect)
    return dict(zip(names, values.columns, strict=True)), dict(values.failures)


def _named_in_lines(
    raws: pa.Array, reader: LineReader, log: Log, most_columns: int
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    # Columns come in an order that no other record has a say in: an adapter may make a text of all of them.
    declared, failures = tuple(log.columns), dict[int, str]()
    columns = _all_at_once(raws, reader, declared, most_columns)
    if columns is None:
        columns, failures = _one_by_one(raws, reader, declared, most_columns)
    for name in declared:
        columns.setdefault(name, pa.nulls(len(raws), pa.string()))
    return {name: columns[name] for name in sorted(columns)}, failures


def _all_at_once(
    raws: pa.Array, reader: LineReader, declared: tuple[str, ...], most_columns: int
) -> dict[str, pa.Array] | None:
    """All lines at once; None where the names of a record's columns depend on its other keys."""
    block = reader.all_texts(raws)
    if block is None or len(block) > most_columns or len(set(map(same_column, block))) < len(block):
        return None
    names = distinct_names(tuple(block), declared)
    return {names[key]: texts for key, texts in block.items()}


def _one_by_one(
    raws: pa.Array, reader: LineReader, declared: tuple[str, ...], most_columns: int
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    failures: dict[int, str] = {}
    columns: dict[str, list[str | None]] = {}
    for row, raw in enumerate(raws.to_pylist()):
        try:
            record = reader.record(raw)
        except ValueError as error:
            failures[row] = str(error)
            continue
        if len(record) > most_columns:
            failures[row] = _too_many(len(record), most_columns)
            continue
        names = distinct_names(tuple(record), declared)
        for key, text in record.items():
            column = columns.get(names[key])
            if column is None:
                column = columns[names[key]] = [None] * len(raws)
            column[row] = text
    return {name: pa.array(texts, pa.string()) for name, texts in columns.items()}, failures


def _too_many(count: int, most_columns: int) -> str:
    return f"{count} columns, more than {most_columns:,}"


def _unique(names: Sequence[str], declared: tuple[str, ...]) -> list[str]:
    """Names of columns, each another one: what comes again as it is gets a number."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in unique:
            candidate, number = f"{name}_{number}", number + 1
        unique.append(candidate)
    return list(distinct_names(tuple(unique), declared).values())


def _typed(texts: pa.Array, declared: ColumnType, log: Log) -> tuple[pa.Array, list[int]]:
    """A column in its declared type, and the rows whose text does not fit it."""
    kind = arrow_type(declared)
    if declared in ("string", "binary"):
        return texts.cast(kind), []
    given = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if declared == "timestamp_us":
        own = parse_event_times(given, style_of(log))
        other = parse_event_times(given, TimeStyle(log.time_unit, zone=log.time_zone))
        values = (pc.coalesce(own, other) if log.time_format else own).cast(kind)
    elif digits := decimal_digits(declared):
        values = pa.array([_decimal(text, *digits) for text in given.to_pylist()], kind)
    else:
        values = _cast(given, kind)
    return values, pc.indices_nonzero(pc.and_(pc.is_null(values), pc.is_valid(given))).to_pylist()


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values; null where one does not fit, so that no value is another one than its text says."""
    if pa.types.is_integer(kind):  # Arrow reads 0xFFFFFFFFFFFFFFFF, and as -1
        texts = pc.if_else(
            pc.match_substring(texts, "x", ignore_case=True), pa.scalar(None, pa.string()), texts
        )
    values = _cast_halves(texts, kind)
    if not pa.types.is_floating(kind):
        return values
    beyond = pc.and_(pc.is_inf(values), pc.match_substring_regex(texts, "[0-9]"))
    below = pc.and_(pc.equal(values, 0.0), pc.match_substring_regex(texts, r"^[+-]?[0.]*[1-9]"))
    return pc.if_else(pc.or_(beyond, below), pa.scalar(None, kind), values)


def _decimal(text: str | None, digits: int, decimals: int) -> Decimal | None:
    """A text's value; None where it does not fit. Arrow makes other numbers of some with many digits."""
    if text is None or _DECIMAL.fullmatch(text) is None:
        return None
    exact = Context(digits, traps=[InvalidOperation, Inexact])
    try:
        return Decimal(text).quantize(Decimal(1).scaleb(-decimals), context=exact)
    except (InvalidOperation, Inexact):
        return None


def _cast_halves(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, kind)
    half = len(texts) // 2
    return pa.concat_arrays([_cast_halves(texts[:half], kind), _cast_halves(texts[half:], kind)])


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")


def _table(columns: Mapping[str, pa.Array], row_count: int, failures: Mapping[int, str]) -> pa.Table:
    """The columns as a table, with nulls alone in the rows that failed."""
    if not columns:
        return rows_without_columns(row_count)
    rows = pa.array([None if row in failures else row for row in range(row_count)], pa.int64())
    return pa.table(dict(columns)).take(rows) if failures else pa.table(dict(columns))


# -- do log files have the columns that a pipeline file names?


def check_columns(pipeline: Pipeline) -> list[str]:
    """Check the columns that the pipeline file names: one message for each that is wrong.

    A column is missing if no header of the newest log files of the datacenters has it, or has it just once.
    JSON lines, and logs without files, are not checked. What can't be read is left for the run to report.
    """
    document = read_document(pipeline.file.read_text(encoding="utf-8"))
    problems = []
    for side, log in (("primary", pipeline.primary), ("foreign", pipeline.foreign)):
        headers = dict(_newest_headers(pipeline, log))
        there = {name for names in headers.values() for name in names if names.count(name) == 1}
        for path, column in _named_columns(side, log) if headers else ():
            if column not in there:
                place, names = next(iter(headers.items()))
                what = f"expected a column of {place}, got {column!r}; it has {', '.join(names)}"
                if column in names:
                    what = f"expected a column that {place} has once, got {column!r}; {ONE_NAME_EACH}"
                elif names[0].startswith("{"):
                    path, what = (side, "format"), f"expected the format of {place}, which looks like jsonl"
                line, problem = document.problem(path, what)
                problems.append(f"{pipeline.file}:{line}: {problem}")
    return list(dict.fromkeys(problems))


def _named_columns(side: str, log: Log) -> Iterable[tuple[KeyPath, str]]:
    """Every column that the pipeline file names for a log, and by which key."""
    yield from (((side, "id"), name) for name in log.id)
    yield from (((side, "key"), name) for name in (log.key if isinstance(log, ForeignLog) else ()))
    yield from (((side, "time"), name) for name in log.time)
    yield from (((side, "columns", name), name) for name in log.columns)


def _newest_headers(pipeline: Pipeline, log: Log) -> Iterable[tuple[Location, list[str]]]:
    """The names in the headers of the newest files, by file."""
    dialect = dialect_of(log)
    if dialect is None or dialect.names:
        return
    for datacenter in pipeline.datacenters.values():
        folder = log_folder(datacenter.logs)
        found = folder.watch(log.files, pipeline.tailing.links_lead_out).scan(whole=True).files
        newest = sorted(found, key=lambda file: -file.modified_ns)
        for file in newest[:_NEWEST]:
            path = datacenter.logs / file.path
            try:
                with folder.open(file) as source:
                    header = read_header(source, dialect, pipeline.limits.line_bytes)
                if header is not None and no_text(header) is None:
                    yield path, header_names(header, dialect)
            except (*UNREADABLE, ValueError):
                continue
