"""How the text of log files is written, by their beginnings: format, delimiter, quotes, header, encoding.

Pure decisions. What is plain CSV, TSV or JSON lines needs no setting; all else is proposed as one.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from photon.logs.file_kinds import LOOKED_AT_BYTES, Odd, no_json_lines, no_text
from photon.logs.formats.dialect import BYTE_ORDER_MARK, ZEEK_FIELDS
from photon.logs.formats.json_lines import decode_record
from photon.logs.formats.line_formats import OWN
from photon.logs.formats.lines import LineReader
from photon.pipeline.values import Encoding, OwnFormat
from photon.process.pages import page
from photon.profile.column_names import numbered

OTHER_TEXT = f"{page('docs/formats-and-adapters.md')}, text of another kind: a class of yours can read it"
_LINES_FOR_FORMAT = 20
_ROWS_LOOKED_AT = 200
_DELIMITERS = ",;\t|\x01"
_W3C_FIELDS = "#Fields:"  # of IIS, whose values have a blank between them, and of CloudFront
_QUOTES_TRIED = (('"', None), ('"', "\\"), ("'", None))  # with escapes; the likeliest first
_LEAST_ALIKE = 0.5  # share of the rows with as many values as the first: a short file may have bad ones
_SHOWN = 80
_VALUE = re.compile(r"[-+]?[\d.,:/TZ eE+-]*\d[\d.,:/TZ +-]*|true|false", re.IGNORECASE)
_SHAPE = re.compile(r"(\d+)|([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The settings of a log that say how it is written; None and empty: as plain files of the format are."""

    format: OwnFormat
    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: tuple[str, ...] = ()
    comment: str | None = None
    encoding: Encoding = "utf-8"

    def settings(self) -> dict[str, Any]:
        """Those that are to be said, by their keys in the pipeline file."""
        plain = FileFormat(self.format)
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(plain, each.name) or each.name == "format"
        }

    def __str__(self) -> str:
        more = [f"{key} {value!r}" for key, value in self.settings().items() if key != "format"]
        return " with ".join([self.format, *([", ".join(more)] if more else [])])


def format_of(data: bytes, is_cut: bool) -> FileFormat | Odd:
    """How a file that begins so is written; else what it is instead. `is_cut`: it goes on."""
    encoding, head = _encoding_of(data), data[:LOOKED_AT_BYTES]
    is_cut = is_cut or len(head) < len(data)
    if odd := no_text(head):
        return odd
    if b"\0" in head:
        return Odd("holds binary data", OTHER_TEXT)
    if b"\n" not in head and head.count(b"\r") > 1:
        return Odd("ends its lines with CR alone", "convert them to LF or CR LF")
    lines = [line for line in head.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip()]
    looked_at = lines[:_LINES_FOR_FORMAT]
    for name, reader in OWN.items():  # the first line may be the rest of one
        if 2 * sum(_is_record(line, name, reader) for line in looked_at) > len(looked_at):
            return FileFormat(cast(OwnFormat, name))
    if odd := no_json_lines(head):
        return odd
    if lines[0].lstrip().startswith(b"{"):
        return _no_record(lines[0])
    text = head.removeprefix(BYTE_ORDER_MARK).decode(encoding, errors="replace").replace("\r\n", "\n")
    if is_cut and "\n" in text:
        text = text[: text.rfind("\n") + 1]
    return _delimited(text, encoding)


def format_of_both(some: FileFormat, other: FileFormat) -> FileFormat | None:
    """The settings that hold for both files; None: no settings do."""
    same = (some.format, some.delimiter, some.header) == (other.format, other.delimiter, other.header)
    if not same or (some.quote or '"') != (other.quote or '"'):
        return None
    encodings = {some.encoding, other.encoding} - {"utf-8"}
    return FileFormat(
        some.format, some.delimiter, some.quote or other.quote, some.escape or other.escape, some.header,
        some.comment or other.comment, min(encodings, default="utf-8"),
    )  # fmt: skip


def _encoding_of(data: bytes) -> Encoding:
    """UTF-8, unless more lines with other characters than ASCII are none than are.

    Then it is Windows-1252: in text it says all that Latin-1 does, and a later byte may be a euro sign there.
    """
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError:
        special = [line for line in data.split(b"\n") if not line.isascii()]
        good = sum(_is_utf8(line) for line in special)
        if good >= len(special) - good:
            return "utf-8"
        return "cp1252"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_record(line: bytes, form: str, reader: LineReader) -> bool:
    """Whether a line is one of this format. Words without values are logfmt to its reader alone."""
    try:
        record = reader.record(line)
    except ValueError:
        return False
    return form != "logfmt" or (len(record) > 1 and None not in record.values())


def _no_record(first: bytes) -> FileFormat | Odd:
    """JSON lines of which the first is one, and most others are not; else why it is none."""
    try:
        decode_record(first)
    except UnicodeDecodeError:
        return Odd("is JSON that is not UTF-8", "convert it, for example by `iconv -f LATIN1 -t UTF-8`")
    except ValueError as error:
        return Odd(f"begins with a line that is {error}", "mend the program that writes it")
    return FileFormat("jsonl")


# -- CSV and TSV


def _delimited(text: str, encoding: Encoding) -> FileFormat | Odd:
    lines = text.split("\n")
    comments = 0
    while comments < len(lines) and lines[comments].startswith("#"):
        comments += 1
    begin, records = lines[:comments], [line for line in lines[comments:] if not line.startswith("#")]
    comment = "#" if comments < len(lines) and (comments or len(records) < len(lines)) else None
    if not any(line.strip() for line in records):  # only a header yet
        records, begin, comment = lines, [], None
    zeek = next((line for line in begin if line.startswith(f"#{ZEEK_FIELDS}")), None)
    is_w3c = any(line.startswith(_W3C_FIELDS) for line in begin)
    delimiter = (
        zeek[len(ZEEK_FIELDS) + 1 :][:1] if zeek else _delimiter_of(records, _DELIMITERS + " " * is_w3c)
    )
    if not delimiter:
        return _no_table(lines[0])
    form: OwnFormat = "tsv" if delimiter == "\t" else "csv"
    quote, escape = ("" if form == "csv" else None, None) if zeek else _quotes(records, delimiter)
    shown_quote = {"csv": '"', "tsv": ""}[form] if quote is None else quote
    header: tuple[str, ...] = ()
    if not zeek:
        rows = list(_rows(records, delimiter, shown_quote, escape))
        header = _names(begin, rows, delimiter)
    return FileFormat(
        form, None if delimiter in ",\t" else delimiter, quote, escape, header, comment, encoding
    )


def _no_table(first: str) -> Odd:
    shown = first if len(first) <= _SHOWN else first[:_SHOWN] + "..."
    return Odd(f"begins with {shown!r}", OTHER_TEXT)


def _rows(lines: Sequence[str], delimiter: str, quote: str, escape: str | None) -> Iterator[list[str]]:
    """The first records of some lines."""
    reader = csv.reader(
        (line + "\n" for line in lines),
        delimiter=delimiter,
        quotechar=quote or None,
        escapechar=escape,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    try:
        for row in reader:
            if any(row):
                yield row
            if reader.line_num >= _ROWS_LOOKED_AT:
                return
    except csv.Error:  # a value that is too long, most likely behind a quote that is not closed
        return


def _delimiter_of(lines: Sequence[str], delimiters: str) -> str | None:
    """The delimiter by which most records have as many values as the first; of several the most values."""
    best = (0.0, 0, "")
    for (quote, escape), delimiter in itertools.product(_QUOTES_TRIED, delimiters):
        rows = list(_rows(lines, delimiter, quote, escape))
        counts = Counter(map(len, rows))
        if not rows or len(rows[0]) < 2:
            continue
        alike = counts[len(rows[0])] / len(rows)
        if alike > _LEAST_ALIKE or len(rows) <= 2:
            likelihood = -_QUOTES_TRIED.index((quote, escape))
            best = max(best, (len(rows[0]) * alike, likelihood, delimiter))
    return best[2] or None


def _quotes(lines: Sequence[str], delimiter: str) -> tuple[str | None, str | None]:
    """The quote, where it is not that of the format, and the escape."""
    some = [line for line in lines[:_ROWS_LOOKED_AT] if line]
    between = re.escape(delimiter)
    usual, other = (
        sum(bool(re.search(rf"(?:^|{between}){q}[^{q}]*{q}(?:{between}|$)", line)) for line in some)
        for q in ('"', "'")
    )
    escape = None
    text = "\n".join(some)
    escaped = re.findall(rf'[^{between}\n]\\"(?!{between}|\n|$)', text)
    doubled = re.findall(rf'[^{between}\n]""(?!{between}|\n|$)', text)
    if escaped and not doubled:
        escape = "\\"
    if delimiter == "\t":
        return ('"', escape) if 2 * usual > len(some) else (None, None)
    if not usual and 2 * other > len(some):
        return "'", None
    return None, escape


def _names(comments: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str) -> tuple[str, ...]:
    """The names of all columns where no header line has them: those of a comment, else numbers."""
    if not rows or _has_header(rows):
        return ()
    last = re.sub(r"^[# ]*(Fields:)?\s*", "", comments[-1]) if comments else ""
    for names in ([name.strip() for name in last.split(delimiter)], last.split()):
        if len(names) == len(rows[0]) and _could_be_names(names):
            return tuple(names)
    return numbered(len(rows[0]))


def _could_be_names(row: Sequence[str]) -> bool:
    return all(map(str.strip, row)) and not any(map(_VALUE.fullmatch, row))


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has names: no numbers or times, and no value of the rows behind it."""
    first, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if any(map(_VALUE.fullmatch, first)):
        return False
    for place, name in enumerate(first):
        values = [row[place] for row in others]
        if name and name in values:
            return False
        shapes = {_shape(value) for value in values}
        if len(values) > 1 and any(sign.isdigit() for sign in name) and shapes == {_shape(name)}:
            return False
    return True


def _shape(text: str) -> str:
    """Return the shape of a value: `q17` and `q2` have one shape, and `query_id` another."""
    return _SHAPE.sub(lambda match: "9" if match[1] else "a", text)
