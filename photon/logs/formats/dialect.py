"""How the text of CSV and TSV is written: delimiter, quotes, header, comments, encoding."""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.sections import Log
from photon.pipeline.values import ONE_BYTE_ENCODINGS, Encoding

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ZEEK_FIELDS = "fields"  # behind the comment sign: Zeek's line of column names

# Windows-1252 gives five bytes no character. Browsers and Windows read them as Latin-1 does.
_UNDEFINED = "photon.as_latin_1"
_NOT_IN_ENCODING = "xmlcharrefreplace"  # for a character that no file of the encoding can hold: found nowhere


def _as_latin_1(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_UNDEFINED, _as_latin_1)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The settings of one CSV or TSV log, each with a value."""

    delimiter: str
    quote: str  # empty: no quotes
    escape: str = ""
    names: tuple[str, ...] = ()  # names of the columns, for files without a header line
    comment: str = ""
    encoding: Encoding = "utf-8"

    def is_comment(self, line: bytes) -> bool:
        """Whether a line is a comment, in the file's encoding."""
        return bool(self.comment) and line.startswith(self.encode(self.comment))

    def encode(self, text: str) -> bytes:
        """A text as it is in the bytes of the file."""
        return text.encode(self.encoding, _NOT_IN_ENCODING)

    def decode(self, header: bytes) -> str:
        """The text of a header line; ValueError if it is not text."""
        return decoded(header, self.encoding)


_OF_FORMAT: dict[str, Dialect] = {"csv": Dialect(",", '"'), "tsv": Dialect("\t", "")}


def plain_dialect(form: str) -> Dialect | None:
    """Return the dialect of a format without further settings; None: its lines name their values."""
    return _OF_FORMAT.get(form)


def dialect_of(log: Log) -> Dialect | None:
    """The dialect of a log; None: its lines name their values, as JSON lines do."""
    plain = plain_dialect(log.format)
    if plain is None:
        return None
    return replace(
        plain,
        delimiter=log.delimiter or plain.delimiter,
        quote=plain.quote if log.quote is None else log.quote,
        escape=log.escape or "",
        names=log.header,
        comment=log.comment or "",
        encoding=log.encoding,
    )


def decoded(raw: bytes, encoding: Encoding) -> str:
    """The text of some bytes; ValueError if they are none, which bytes of a one-byte encoding always are."""
    return raw.decode(encoding, _UNDEFINED if encoding in ONE_BYTE_ENCODINGS else "strict")


def header_names(header: bytes, dialect: Dialect) -> list[str]:
    """The column names of a file with this header line; ValueError if it is not text.

    Zeek writes them into a comment: `#fields`, then the names.
    """
    if dialect.names:
        return list(dialect.names)
    text = dialect.decode(header.partition(b"\n")[0])
    names = _values(text, dialect)
    if dialect.comment and names[0] == dialect.comment + ZEEK_FIELDS:
        return names[1:]
    return names


def own_names(header: bytes, dialect: Dialect) -> list[str]:
    """The column names of a header line within a file, whatever the settings name; none if it is not text."""
    try:
        return header_names(header.removeprefix(BYTE_ORDER_MARK), replace(dialect, names=()))
    except ValueError:
        return []


def is_zeek_header(line: bytes, dialect: Dialect) -> bool:
    """Whether a comment line names the columns, as Zeek's does."""
    start = dialect.comment + ZEEK_FIELDS + dialect.delimiter
    return bool(dialect.comment) and line.startswith(dialect.encode(start))


def utf8(raws: pa.Array, dialect: Dialect | None) -> pa.Array:
    """The records in UTF-8, without a byte order mark: files that were put together have some within.

    Those that are no text of their encoding stay as they are.
    """
    if dialect is not None and dialect.encoding in ONE_BYTE_ENCODINGS:
        texts = (decoded(raw, dialect.encoding) for raw in raws.to_pylist())
        return pa.array([text.encode() for text in texts], pa.binary())
    if not pc.any(pc.starts_with(raws, BYTE_ORDER_MARK)).as_py():
        return raws
    return pa.array([raw.removeprefix(BYTE_ORDER_MARK) for raw in raws.to_pylist()], pa.binary())


def _values(text: str, dialect: Dialect) -> list[str]:
    if not dialect.quote and not dialect.escape:
        return text.split(dialect.delimiter)
    reader = csv.reader(
        [text],
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        escapechar=dialect.escape or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    try:
        return next(reader, [""])
    except csv.Error as error:  # a header beyond what Python's reader takes
        raise ValueError(str(error)) from None
