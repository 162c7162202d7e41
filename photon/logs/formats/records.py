"""Where records of CSV begin whose quoted values hold line ends (protocol D10).

What follows a line alone says whether the record that begins with it ends there: it goes on over the next
lines only if that makes a whole record of all columns, of at most `limits.line` bytes. Else the line
is a record by itself, most likely a bad one. So a quote that is not closed costs one line, and a reader
who begins at a record finds the same records behind it, however the bytes were divided before.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.formats.dialect import (
    BYTE_ORDER_MARK,
    Dialect,
    dialect_of,
    header_names,
    own_names,
)
from photon.pipeline.sections import Log

Ints = npt.NDArray[np.int64]
_NEWLINE = b"\n"[0]
MOST_BESIDE_NAMES = 8  # bytes of a header line beside names, delimiters and quotes: a mark, a return


@dataclass(frozen=True, slots=True)
class Cuts:
    """How far bytes that begin with a record are whole records."""

    ends: Ints  # end of each record, behind its newline
    lines: Ints  # how many lines each has
    open_bytes: int  # where the first record begins that may go on behind the bytes; their length: none does


@dataclass(frozen=True, slots=True)
class RecordRules:
    """How the records of a file are told from each other."""

    dialect: Dialect
    names: tuple[str, ...]  # names of the columns
    limit_bytes: int  # longest record, without its newline

    @property
    def spans_lines(self) -> bool:
        """Whether a record may have several lines."""
        return bool(self.dialect.quote or self.dialect.escape)

    def as_long_as_headers(self, lengths: Ints) -> Ints:
        """Which records may be header lines, by their lengths."""
        least = sum(len(self.dialect.encode(name)) + 1 for name in self.names) - 1
        most = least + 2 * len(self.names) + MOST_BESIDE_NAMES
        return np.flatnonzero((lengths >= least) & (lengths <= most))

    def headers(self, raws: pa.Array, lengths: Ints) -> Ints:
        """Which of these records are header lines: those that hold all names, in any order and any quotes.

        `lengths`: of their lines in the file.
        """
        alike = self.as_long_as_headers(lengths)
        if not len(alike):
            return alike
        some = raws if len(alike) == len(raws) else raws.take(pa.array(alike))
        longest = self.dialect.encode(max(self.names, key=len))
        alike = alike[pc.match_substring(some, longest).to_numpy(zero_copy_only=False)]
        wanted = sorted(self.names)
        found = [
            row for row in alike.tolist() if sorted(own_names(raws[row].as_py(), self.dialect)) == wanted
        ]
        return np.array(found, np.int64)

    def cut(self, data: bytes, at_end: bool = False) -> Cuts:
        """The records that `data` begins with; `at_end`: nothing follows, and no record goes on."""
        if at_end and data and not data.endswith(b"\n"):
            found = self.cut(data + b"\n", at_end)
            return Cuts(np.minimum(found.ends, len(data)), found.lines, len(data))
        ends, suspects = self._lines(data)
        open_bytes = int(ends[-1]) if len(ends) else 0
        if not len(suspects):
            return Cuts(ends, np.ones(len(ends), np.int64), open_bytes)
        is_inner = np.zeros(len(ends), bool)  # whether a line's end is inside a record
        line, whole, run = 0, len(ends), EscapedRun()
        for suspect in suspects.tolist():
            if suspect < line:
                continue
            run = self._run_at(data, ends, suspect, run)
            line = self._line_behind(data, ends, suspect, at_end, run)
            if line < 0:
                whole = suspect
                open_bytes = int(ends[suspect - 1]) if suspect else 0
                break
            is_inner[suspect : line - 1] = True
        last_lines = np.flatnonzero(~is_inner[:whole])
        return Cuts(ends[last_lines], np.diff(last_lines, prepend=-1), open_bytes)

    def end_of_first(self, data: bytes, at_end: bool) -> int | None:
        """Where the record ends that `data` begins with; None: what follows must be known."""
        ends = self.cut(data, at_end).ends
        return int(ends[0]) if len(ends) else None

    def _lines(self, data: bytes) -> tuple[Ints, Ints]:
        """Where the lines end, and which of them may go on: those of whole records have even quotes."""
        text = np.frombuffer(data, np.uint8)
        is_sign = text == _NEWLINE
        if not self.spans_lines:
            ends = np.flatnonzero(is_sign) + 1
            return ends, ends[:0]
        for sign in self.dialect.quote + self.dialect.escape:
            is_sign |= text == ord(sign)
        signs = np.flatnonzero(is_sign)
        at = np.flatnonzero(text[signs] == _NEWLINE)
        counts = np.diff(at, prepend=-1) - 1
        # Whether a quote behind an escape sign counts is not looked at here.
        return signs[at] + 1, np.flatnonzero(counts if self.dialect.escape else counts & 1)

    def _run_at(self, data: bytes, ends: Ints, line: int, before: EscapedRun) -> EscapedRun:
        """The run that a line is in; an empty one, where its own end is not escaped."""
        start = int(ends[line - 1]) if line else 0
        if not self.dialect.escape or start < before.end_bytes:
            return before
        patterns = _patterns(self.dialect, len(self.names))
        outside = patterns.outside.match(data, start)
        if outside is None or outside.end() < ends[line]:
            return EscapedRun()
        between = self.dialect.encode(self.dialect.delimiter)
        signs = patterns.signs.finditer(data, start, outside.end())
        return EscapedRun(outside.end(), [sign.start() for sign in signs if sign[0] == between])

    def _line_behind(self, data: bytes, ends: Ints, line: int, at_end: bool, run: EscapedRun) -> int:
        """The line that follows the record that begins with a line; -1: what comes later decides."""
        start = int(ends[line - 1]) if line else 0
        first = data[start : start + len(self.dialect.comment)]
        if ends[line] - start - 1 > self.limit_bytes or self.dialect.is_comment(first):
            return line + 1
        end = min(int(ends[-1]), start + self.limit_bytes + 1)
        patterns = _patterns(self.dialect, len(self.names))
        found = run.found_from(start, "record", lambda stop: patterns.record.match(data, start, stop or end))
        if 0 <= found <= end:
            last_line = int(np.searchsorted(ends, found))
            return last_line + 1 if ends[last_line] == found else line + 1
        if at_end or len(data) - start > self.limit_bytes:
            return line + 1
        begun = run.found_from(start, "begun", lambda stop: patterns.begun.match(data, start, end))
        return -1 if begun >= 0 else line + 1

    def sure_start(self, data: bytes, is_at_end: bool) -> int | None:
        """The first place in `data` where a record begins for sure; None: more must be known.

        `data` begins at a line's end somewhere in a file. A record from before `data` ends within the limit.
        Where none of the records that could begin before a line goes on over it, a record begins with that
        line.
        """
        if is_at_end and data and not data.endswith(b"\n"):
            found = self.sure_start(data + b"\n", is_at_end)  # the last line counts as `cut` counts it
            return None if found is None else min(found, len(data))
        ends, suspects = self._lines(data)
        following, run = np.arange(1, len(ends) + 1), EscapedRun()
        for suspect in suspects.tolist():
            run = self._run_at(data, ends, suspect, run)
            line = self._line_behind(data, ends, suspect, is_at_end, run)
            following[suspect] = len(ends) + 1 if line < 0 else line
        reached = np.maximum.accumulate(following)
        lines = np.arange(len(ends)) + 1  # the line behind each
        first = np.flatnonzero((reached == lines) & (ends >= self.limit_bytes))
        return int(ends[first[0]]) if len(first) else None


@dataclass(frozen=True, slots=True)
class EscapedRun:
    """Lines that go on over escaped line ends outside quotes: thousands, each of which may begin a record.

    What is found from one of them is found from all that have as many delimiters before the run's end. So it
    is looked for once: a megabyte of lines that end with an escape sign would take hours.
    """

    end_bytes: int = 0
    delimiters: Sequence[int] = ()  # where they are
    found: dict[tuple[str, int], int] = field(default_factory=dict)  # where the match ends, or -1

    def found_from(self, start: int, what: str, look: Callable[[int], re.Match[bytes] | None]) -> int:
        """Where what `look` finds from a line ends; -1: nowhere."""
        if start >= self.end_bytes:
            return _end_of(look(0))
        key = what, len(self.delimiters) - bisect_left(self.delimiters, start)
        if key not in self.found:
            self.found[key] = _end_of(look(sys.maxsize))
        return self.found[key]


def _end_of(found: re.Match[bytes] | None) -> int:
    return -1 if found is None else found.end()


@dataclass(frozen=True, slots=True)
class _Patterns:
    record: re.Pattern[bytes]  # a whole record with its line end
    begun: re.Pattern[bytes]  # one that ends within a value
    outside: re.Pattern[bytes]  # values without quotes, over escaped line ends
    signs: re.Pattern[bytes]  # delimiters, and what is escaped


@lru_cache(64)
def _patterns(dialect: Dialect, column_count: int) -> _Patterns:
    quote, between = re.escape(dialect.quote.encode()), re.escape(dialect.delimiter.encode())
    escape = re.escape(dialect.escape.encode())
    escaped = b"|" + escape + b"." if escape else b""
    plain = b"(?:[^" + between + quote + escape + b"\r\n]" + escaped + b")*+"
    if quote:
        begun = quote + b"(?:[^" + quote + escape + b"]|" + quote + quote + escaped + b")*+"
        value = b"(?:" + begun + quote + b"|" + plain + b")"
        begun = (
            b"(?:" + begun + b"|" + plain + b")"
        )  # the second holds a line end behind an escape sign alone
    else:
        begun, value = plain, plain
    mark = b"(?:" + BYTE_ORDER_MARK + b")?"
    values = mark + value + b"(?:" + between + value + b"){%d}" % (column_count - 1)
    return _Patterns(
        re.compile(values + b"\r?\n", re.DOTALL),
        re.compile(mark + b"(?:" + value + between + b")*+" + begun + b"\\Z", re.DOTALL),
        re.compile(b"(?:[^" + quote + escape + b"\r\n]" + escaped + b")*+", re.DOTALL),
        re.compile(escaped[1:] + b"|" + between if escape else between, re.DOTALL),
    )


def is_whole_record(raw: bytes, dialect: Dialect, column_count: int) -> bool:
    """Whether a record, in UTF-8 and without its newline, is one for every parser, line ends or not."""
    return _patterns(dialect, column_count).record.fullmatch(raw + b"\n") is not None


def record_rules(log: Log, header: bytes, limit_bytes: int) -> RecordRules | None:
    """The rules of the files of a log with this header; None: JSON lines, or a header that is no text."""
    dialect = dialect_of(log)
    return None if dialect is None else _rules(dialect, header, limit_bytes)


@lru_cache(256)
def _rules(dialect: Dialect, header: bytes, limit_bytes: int) -> RecordRules | None:
    try:
        return RecordRules(dialect, tuple(header_names(header, dialect)), limit_bytes)
    except ValueError:
        return None
