"""Header lines within a file that name its columns in another order, and records in the order of the first.

Files that were put together have some. Each parser of a record goes by the header that its file begins
with. So a record behind another one is brought into that order, with as many bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.logs.formats.dialect import BYTE_ORDER_MARK, Dialect, header_names, own_names

Ints = npt.NDArray[np.int64]
Headers = Sequence[tuple[int, bytes]]  # where each begins in the file, in their order


def with_later_headers(file: LogFile, found: Headers) -> LogFile:
    """The file with header lines that were found in it, beside those that it has."""
    known = sorted({*later_headers(file.later_headers), *found})
    stored = json.dumps([[at, line.hex()] for at, line in known]).encode()
    return replace(file, header=file.header.partition(b"\n")[0] + b"\n" + stored)


@lru_cache(1024)
def later_headers(stored: bytes) -> tuple[tuple[int, bytes], ...]:
    """The header lines that are stored with a file."""
    return tuple((at, bytes.fromhex(line)) for at, line in json.loads(stored)) if stored else ()


def changes_of(file: LogFile, found: Headers, dialect: Dialect) -> Headers:
    """Those header lines of a file that change the order of the columns in force before them."""
    headers: list[tuple[int, bytes]] = []
    for at, line in found:
        before = [each for each in (*later_headers(file.later_headers), *headers) if each[0] < at]
        in_force = own_names(before[-1][1], dialect) if before else header_names(file.header, dialect)
        if own_names(line, dialect) != in_force:
            headers.append((at, line))
    return headers


def in_first_order(
    raws: pa.Array,
    numbers: npt.NDArray[np.integer],
    offsets: Ints,
    files: Iterable[LogFile],
    dialect: Dialect | None,
) -> pa.Array:
    """Records at these places, each in the order of its file's own header; nulls stay so."""
    changed: dict[int, bytes] = {}
    for file in files if dialect is not None else ():
        headers = later_headers(file.later_headers)
        if not headers or dialect is None:
            continue
        first = header_names(file.header, dialect)
        rows = np.flatnonzero(np.asarray(numbers) == file.number)
        in_force = np.searchsorted([at for at, _ in headers], offsets[rows], side="left") - 1
        for row, place in zip(rows.tolist(), in_force.tolist(), strict=True):
            raw = raws[row].as_py() if place >= 0 else None
            if raw is not None:
                names = own_names(headers[place][1], dialect)
                changed[row] = _in_order(raw, [names.index(name) for name in first], dialect)
    if not changed:
        return raws
    values = raws.to_pylist()
    for row, raw in changed.items():
        values[row] = raw
    return pa.array(values, pa.binary())


def _in_order(raw: bytes, order: Sequence[int], dialect: Dialect) -> bytes:
    """The values of a record in another order; if they can't be told, no record: it has no delimiters."""
    delimiter = dialect.delimiter.encode()
    mark = BYTE_ORDER_MARK if raw.startswith(BYTE_ORDER_MARK) else b""
    values, at = list[bytes](), len(mark)
    while (found := _value(dialect).match(raw, at)) is not None:
        values.append(found[0])
        at = found.end() + 1
        if found.end() == len(raw):
            break
    if found is None or len(values) != len(order):
        return raw.replace(delimiter, b" ")
    return mark + delimiter.join(values[place] for place in order)


@lru_cache(64)
def _value(dialect: Dialect) -> re.Pattern[bytes]:
    """One value, up to the next delimiter or the end."""
    quote, between = re.escape(dialect.quote.encode()), re.escape(dialect.delimiter.encode())
    escape = re.escape(dialect.escape.encode())
    escaped = b"|" + escape + b"." if escape else b""
    plain = b"(?:[^" + between + escape + b"]" + escaped + b")*+"
    if not quote:
        return re.compile(plain + b"(?=" + between + b"|\\Z)", re.DOTALL)
    quoted = quote + b"(?:[^" + quote + escape + b"]|" + quote + quote + escaped + b")*+" + quote
    return re.compile(
        b"(?:" + quoted + b"|(?!" + quote + b")" + plain + b")(?=" + between + b"|\\Z)", re.DOTALL
    )
