"""Events from bytes: the lines of a range, those that are events and those that are dead letters.

Only what every record needs is parsed here: id, key and time. `columns` parses all, for records that
join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.csv_lines import GoesOn, read_csv_lines
from photon.logs.formats.dialect import (
    Dialect,
    dialect_of,
    header_names,
    own_names,
    utf8,
)
from photon.logs.formats.line_formats import reader_of
from photon.logs.formats.lines import BLANK, LineTexts
from photon.logs.formats.records import RecordRules, record_rules
from photon.logs.formats.times import event_time_problem, parse_event_times, style_of, time_texts
from photon.logs.joined_ranges import JoinedRanges, Piece
from photon.logs.ranges import BLOCK_BYTES
from photon.pipeline.sections import ForeignLog, Limits, Log, PrimaryLog
from photon.pipeline.values import ONE_BYTE_ENCODINGS

PRIMARY_EVENTS = pa.schema(
    [
        ("_file", pa.int32()),
        ("_offset", pa.int64()),
        ("_raw", pa.binary()),  # the line, without its newline and a carriage return before it
        ("_id", pa.string()),
        ("_time_us", pa.int64()),
    ]
)
FOREIGN_EVENTS = PRIMARY_EVENTS.append(pa.field("_key", pa.string()))  # null: no key, to be skipped
DEAD_LETTERS = pa.schema(
    [
        ("_file", pa.int32()),
        ("_offset", pa.int64()),
        ("_length", pa.int64()),  # length of the line, as far as it was in the range
        ("_raw", pa.binary()),  # the first 4 KiB of it
        ("reason", pa.string()),
    ]
)
DEAD_LETTER_RAW_BYTES = 4096
OTHER_ORDER = "behind a header line that names the columns in another order; put it into a file of its own"


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """The records of a range."""

    events: pa.Table  # PRIMARY_EVENTS or FOREIGN_EVENTS
    dead_letters: pa.Table  # DEAD_LETTERS


def read_events(
    data: bytes, file: LogFile, byte_range: ByteRange, log: PrimaryLog | ForeignLog, limits: Limits
) -> ParsedRange:
    """The events of a range in the order of the file. Never raises for what a line holds.

    Blank lines and repeated header lines are neither events nor dead letters. A line longer than the limit
    may be cut into several ranges: only the one where it begins makes a dead letter of it.
    """
    return _read_together([(file, byte_range, data)], log, limits)


def read_events_of(
    pieces: Iterable[Piece], log: PrimaryLog | ForeignLog, limits: Limits
) -> Iterator[ParsedRange]:
    """The events of many ranges, each as `read_events` has them; in which order the ranges come is open.

    Ranges of files with one header are parsed together, about `BLOCK_BYTES` at a time: a parser's start
    costs some 1 ms, a line 4 us. One group is held at a time, so pass a generator.
    """
    short = (part for piece in pieces for part in _in_blocks(piece, log, limits))
    return (_read_together(group, log, limits) for group in _groups(short))


def each_line_is_a_record(file: LogFile, log: PrimaryLog | ForeignLog, limits: Limits) -> bool:
    """Say whether lines can be read one by one: no record spans several, and none within is a header."""
    return record_rules(log, file.header, limits.line_bytes) is None


def _in_blocks(piece: Piece, log: PrimaryLog | ForeignLog, limits: Limits) -> Iterator[Piece]:
    """A long piece in several, cut behind lines. One of CSV stays whole: it may have headers within."""
    file, where, data = piece
    if len(data) <= BLOCK_BYTES or not each_line_is_a_record(file, log, limits):
        yield piece
        return
    at = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + BLOCK_BYTES) + 1 or data.find(b"\n", at + BLOCK_BYTES) + 1
        end = end or len(data)
        yield file, where.part(where.start_bytes + at, where.start_bytes + end), data[at:end]
        at = end


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces of files with one header, of about `BLOCK_BYTES`."""
    groups: dict[bytes, list[Piece]] = defaultdict(list)
    size_bytes: dict[bytes, int] = defaultdict(int)
    for piece in pieces:
        header = piece[0].header
        groups[header].append(piece)
        size_bytes[header] += len(piece[2])
        if 2 * size_bytes[header] >= BLOCK_BYTES:  # a block of a long range is a group of its own
            del size_bytes[header]
            yield groups.pop(header)
    yield from groups.values()


def _read_together(pieces: Sequence[Piece], log: PrimaryLog | ForeignLog, limits: Limits) -> ParsedRange:
    """The events of ranges of files with one header."""
    joined, file = JoinedRanges.of(pieces), pieces[0][0]
    rules = record_rules(log, file.header, limits.line_bytes)
    if rules is None or not rules.spans_lines:
        return _parsed(joined, file, log, limits, rules)
    if joined.changed:  # lines that are no records yet have no columns to bring into another order
        return _parsed(joined.in_records(rules), file, log, limits, rules)
    try:  # most files have no record over several lines, and to know that costs nothing here
        return _parsed(joined, file, log, limits, rules, are_lines=True)
    except GoesOn:
        return _parsed(joined.in_records(rules), file, log, limits, rules)


def _parsed(
    joined: JoinedRanges,
    file: LogFile,
    log: PrimaryLog | ForeignLog,
    limits: Limits,
    rules: RecordRules | None,
    are_lines: bool = False,
) -> ParsedRange:
    """The events among these records. GoesOn if they are only lines, and some may go on over the next one."""
    dialect = dialect_of(log)
    lines = joined.lines
    rows = np.flatnonzero(~(joined.is_rest | _is_nothing(lines.raws, dialect)))
    is_header, is_misnamed = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    if rules is not None:
        is_header, is_misnamed = _headers_within(joined, rows, file, rules)
    is_long = (lines.lengths[rows] > limits.line_bytes) & ~is_header
    failures = dict.fromkeys(
        rows[is_long].tolist(), f"line longer than {limits.line_bytes} bytes (limits.line)"
    )
    failures.update(dict.fromkeys(rows[is_misnamed & ~is_long].tolist(), OTHER_ORDER))
    rows = rows[~(is_long | is_header | is_misnamed)]
    is_text = joined.text.isascii() or not _is_utf8(dialect)
    not_text = rows[:0] if is_text else _not_utf8(lines.raws, rows)
    failures.update(dict.fromkeys(not_text.tolist(), "not UTF-8"))
    if are_lines and failures:
        raise GoesOn  # one of them may be the beginning of a longer record
    rows = np.setdiff1d(rows, not_text, assume_unique=True)
    of_events = joined.in_first_order(dialect)
    lines = of_events.lines
    data = lines.data if len(rows) == len(lines.raws) else None
    events, bad = _parse_rows(_take(lines.raws, rows), file, log, data, are_lines)
    failures.update({int(rows[row]): reason for row, reason in bad.items() if reason != BLANK})
    good = rows if not bad else np.delete(rows, list(bad))
    return ParsedRange(_events(of_events, good, events), _dead_letters(joined, failures))


def parse_ids(raws: pa.Array, file: LogFile, log: Log) -> pa.Array:
    """The id of each line that was an event once; null where it is none now.

    The lines are from files with the header of `file`.
    """
    (ids,) = parse_combined(raws, file, log, log.id)
    return ids


def parse_combined(raws: pa.Array, file: LogFile, log: Log, *wanted: Sequence[str]) -> list[pa.Array]:
    """Parse each line once, and combine the values of each of these groups of columns (`combine`).

    The lines are from files with the header of `file`.
    """
    rows = np.arange(len(raws))
    if _is_utf8(dialect_of(log)):
        texts = np.setdiff1d(rows, _not_utf8(raws, rows), assume_unique=True)
    else:
        texts = rows
    names = [name for group in wanted for name in group]
    columns = (each.cast(pa.string()) for each in _texts(_take(raws, texts), file, log, names).columns)
    found = [combine([next(columns) for _ in group]) for group in wanted]
    if len(texts) == len(rows):
        return found
    places = np.full(len(rows), -1)
    places[texts] = np.arange(len(texts))
    return [each.take(pa.array(places, mask=places < 0)) for each in found]


def _take(raws: pa.Array, rows: np.ndarray) -> pa.Array:
    return raws if len(rows) == len(raws) else raws.take(pa.array(rows))


def _is_nothing(raws: pa.Array, dialect: Dialect | None) -> np.ndarray:
    """Whether a line is neither an event nor a dead letter, since it is blank or a comment."""
    lengths = pc.binary_length(raws).to_numpy(zero_copy_only=False)
    nothing: np.ndarray = lengths == 0
    if dialect is not None and dialect.comment:
        nothing |= pc.starts_with(raws, dialect.comment.encode()).to_numpy(zero_copy_only=False)
    return nothing


def _headers_within(
    joined: JoinedRanges, rows: np.ndarray, file: LogFile, rules: RecordRules
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are header lines; and which stand behind one in an order that nobody has noted there."""
    is_header, is_misnamed = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    raws = _take(joined.lines.raws, rows)
    found = rules.headers(raws, joined.lines.lengths[rows])
    piece = joined.piece_of[rows]
    for row in found.tolist():
        is_header[row] = True
        noted = joined.header_at(rows[row])
        in_force = list(rules.names) if noted is None else own_names(noted, rules.dialect)
        is_known = own_names(raws[row].as_py(), rules.dialect) == in_force
        is_misnamed |= (np.arange(len(rows)) > row) & (piece == piece[row]) & (not is_known)
        if is_known:
            is_misnamed &= (np.arange(len(rows)) < row) | (piece != piece[row])
    return is_header, is_misnamed & ~is_header


def _is_utf8(dialect: Dialect | None) -> bool:
    """Whether records are UTF-8, or are made so when they are cut."""
    return dialect is None or dialect.encoding not in ONE_BYTE_ENCODINGS


def _not_utf8(raws: pa.Array, rows: np.ndarray) -> np.ndarray:
    """Those of `rows` that are not UTF-8; quick where all lines are."""
    try:
        raws.cast(pa.string())
        return rows[:0]
    except pa.ArrowInvalid:
        texts = ((row, raws[row].as_py()) for row in rows)
        return np.array(
            [row for row, raw in texts if raw.decode(errors="ignore").encode() != raw], rows.dtype
        )


def _parse_rows(
    raws: pa.Array, file: LogFile, log: Log, data: bytes | None, are_lines: bool
) -> tuple[list[pa.Array], dict[int, str]]:
    """The last columns of the events; and of the lines that have no id or time, by row, why."""
    keys = log.key if isinstance(log, ForeignLog) else ()
    names = (*log.id, *keys, *log.time)
    texts = _texts(raws, file, log, names, data, are_lines)
    id_texts, key_texts = texts.columns[: len(log.id)], texts.columns[len(log.id) : -len(log.time)]
    ids = combine(id_texts)
    times_us = parse_event_times(time_texts(texts.columns[-len(log.time) :]), style_of(log))
    bad = dict(texts.failures)
    is_bad = pc.or_(pc.is_null(ids), pc.is_null(times_us))
    for row in pc.indices_nonzero(is_bad).to_pylist():
        if row not in bad:
            bad[row] = _reason(raws[row].as_py(), [column[row].as_py() for column in texts.columns], log)
    columns = [ids, times_us, combine(key_texts)] if keys else [ids, times_us]
    if bad:
        good = pa.array(np.delete(np.arange(len(raws)), list(bad)))
        columns = [column.take(good) for column in columns]
    return columns, bad


def _texts(
    raws: pa.Array,
    file: LogFile,
    log: Log,
    names: Sequence[str],
    data: bytes | None = None,
    are_lines: bool = False,
) -> LineTexts:
    """The columns `names` of each record, a time at their end perhaps as int64. GoesOn.

    `data`: the lines joined, if they are at hand.
    """
    dialect, reader = dialect_of(log), reader_of(log)
    texts = utf8(raws, dialect)
    if dialect is None:
        assert reader is not None, "a format without a dialect has a reader"
        is_number = log.time_unit != "iso8601" and not log.time_format
        only_value = is_number and names[-1:] == log.time and names[-1] not in names[:-1]
        return reader.texts(texts, names, log.time if only_value else (), data if texts is raws else None)
    try:
        header = header_names(file.header, dialect)
    except ValueError:
        header = []
    unclear = next((name for name in names if header.count(name) != 1), None)
    if unclear is not None:
        reason = f"no column {unclear!r} in the header of its file"
        if unclear in header:
            reason = f"several columns {unclear!r} in the header of its file"
        nothing = pa.nulls(len(raws), pa.string())
        return LineTexts((nothing,) * len(names), dict.fromkeys(range(len(raws)), reason))
    return read_csv_lines(texts, len(header), [header.index(name) for name in names], dialect, are_lines)


def combine(columns: Sequence[pa.Array]) -> pa.Array:
    """One text of the columns of an id: with several, each with its length before it (protocol B9).

    Null where one of them is null or empty.
    """
    lengths = [pc.binary_length(column) for column in columns]
    if len(columns) == 1:
        if not columns[0].null_count and pc.all(pc.greater(lengths[0], 0)).as_py():
            return columns[0]
        return pc.if_else(pc.greater(lengths[0], 0), columns[0], pa.scalar(None, pa.string()))
    parts: list[pa.Array] = []
    for column, length in zip(columns, lengths, strict=True):
        some = pc.if_else(pc.greater(length, 0), column, pa.scalar(None, pa.string()))
        parts += [length.cast(pa.string()), ":", some]
    return pc.binary_join_element_wise(*parts, "")


def _reason(raw: bytes, texts: Sequence[str | None], log: Log) -> str:
    """Why a line is no event: the id or time that it lacks, or what is wrong with its time."""
    for name, text in zip(log.id, texts, strict=False):
        if not text:
            return f"no value for id column {name!r}"
    reader = reader_of(log)
    times = texts[-len(log.time) :]
    if reader is not None:  # `texts` may have a number in the place of its text
        record = reader.record(raw)
        times = [reader.value(record, name) for name in log.time]
    for name, text in zip(log.time, times, strict=True):
        if not text:
            return f"no value for time column {name!r}"
    return event_time_problem(" ".join(filter(None, times)), style_of(log))


def _events(joined: JoinedRanges, rows: np.ndarray, values: Sequence[pa.Array]) -> pa.Table:
    columns = [
        pa.array(joined.file_numbers[rows]),
        pa.array(joined.offsets[rows]),
        _take(joined.lines.raws, rows),
        *values,
    ]
    schema = FOREIGN_EVENTS if len(columns) == len(FOREIGN_EVENTS) else PRIMARY_EVENTS
    return pa.Table.from_arrays(columns, schema=schema)


def _dead_letters(joined: JoinedRanges, failures: dict[int, str]) -> pa.Table:
    rows = sorted(failures)
    raws = joined.lines.raws
    return pa.table(
        {
            "_file": joined.file_numbers[rows],
            "_offset": joined.offsets[rows],
            "_length": joined.lines.lengths[rows],
            "_raw": [raws[row].as_py()[:DEAD_LETTER_RAW_BYTES] for row in rows],
            "reason": [failures[row] for row in rows],
        },
        schema=DEAD_LETTERS,
    )
