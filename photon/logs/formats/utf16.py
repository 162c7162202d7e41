"""UTF-16 as text whose bytes can be searched: each unit of two bytes takes three, in UTF-8 behind padding.

The padding is a byte that UTF-8 never has. So a newline byte is a line's end and nothing else, at
whatever offset a reader begins, and a place in the text is known from the place in the file without
reading. Offsets and lengths of records are those of this text. `narrow` makes UTF-8 of a record once it
is cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MARKS = {b"\xff\xfe": "<u2", b"\xfe\xff": ">u2"}  # byte order marks; how NumPy calls the order
MARK_BYTES = 2
STORED_BYTES, TEXT_BYTES = 2, 3  # bytes of a unit: in the file, and in the text
PAD = b"\xff"
_RETURN = b"\r" + PAD * 2  # a record ends with the padding of the newline behind this
_SURROGATE = b"\xed"  # halves of surrogate pairs begin with this in UTF-8, and some letters do


def text_bytes(stored_bytes: int) -> int:
    """How long the text of a file is; half a unit at its end is still being written."""
    return stored_bytes // STORED_BYTES * TEXT_BYTES


def stored_bytes(text_bytes: int) -> int:
    """Where a place in the text is in the file."""
    return text_bytes // TEXT_BYTES * STORED_BYTES


def mark_of(header: bytes) -> bytes:
    """The byte order mark that the header of a known file begins with; empty where it is not UTF-16."""
    return header[:MARK_BYTES] if header[:MARK_BYTES] in MARKS else b""


def widen(text: str) -> bytes:
    """A text as it is in a file's text."""
    return widened(np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2"))


def narrow(raw: bytes) -> bytes:
    """A record or a header in UTF-8, without a return at its end; UTF-8 stays as it is.

    Halves of surrogate pairs alone stay too: they are no UTF-8.
    """
    raw = raw.removesuffix(_RETURN).replace(PAD, b"")
    if _SURROGATE not in raw:
        return raw
    try:
        units = raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass")
        return units.decode("utf-16").encode()
    except UnicodeError:
        return raw


def line_end_of(raw: bytes) -> bytes:
    """Return the bytes at a record's end that belong to its line end."""
    for part in (PAD * 2 + _RETURN, PAD * 2):
        if raw.endswith(part):
            return part
    return b""


def widened(units: npt.NDArray[np.uint16]) -> bytes:
    """As UTF-8 has each unit, surrogates too, with padding before it."""
    text = np.full((len(units), TEXT_BYTES), PAD[0], np.uint8)
    text[:, 2] = np.where(units < 0x80, units, 0x80 | units & 0x3F)
    longer = np.flatnonzero(units >= 0x80)
    if len(longer):
        some = units[longer]
        is_long = some >= 0x800
        text[longer, 1] = np.where(is_long, 0x80 | some >> 6 & 0x3F, 0xC0 | some >> 6 & 0x1F)
        text[longer[is_long], 0] = 0xE0 | some[is_long] >> 12
    return text.tobytes()
