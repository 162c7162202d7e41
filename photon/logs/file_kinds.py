"""Files that hold no lines of text, told by their first bytes: what each one is, and what to do with it.

What is wrong with single lines is told where they are parsed.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from photon.pipeline.location import Location
from photon.process.pages import page

LOOKED_AT_BYTES = 2**16
_LOOKED_AT_FOR_UTF16 = 64
_LEAST_FOR_UTF16 = 8  # bytes without a byte order mark
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b\x08"
# The first bytes of files that landing knows too.
PARQUET, AVRO = b"PAR1", b"Obj\x01"
ZSTD, LZ4, XZ, ZIP = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\xfd7zXZ\0", b"PK\x03\x04"
# The byte behind PAR1 tells Parquet from text.
_WITH_ROWS = re.compile(rb"(?P<Parquet>%b[\0-\x08\x0e-\x1f])|(?P<Avro>%b)" % (PARQUET, AVRO))
_COMPRESSED = re.compile(
    rb"(?P<bzip2>BZh[1-9]1AY&SY)|(?P<zstd>%b)|(?P<lz4>%b)|(?P<xz>%b)|(?P<zip>%b)"
    % tuple(map(re.escape, (ZSTD, LZ4, XZ, ZIP)))
)
_NOT_LANDED = ("xz", "zip")
_LAND = (
    f"name it below the key land of a pipeline file, as {page('docs/objects.md')} shows, and run photon land"
)
_CONVERT = "convert it when nobody writes it any more, for iconv converts no growing file: "
_TO_UTF8 = _CONVERT + "`iconv -f {} -t UTF-8 FILE > FILE.utf-8 && mv FILE.utf-8 FILE`"
# The packed file stays until all has succeeded, and what was in it after that.
_GZIP_TO_UTF8 = _CONVERT + (
    "`gzip -dc FILE.gz > FILE.utf-16 && iconv -f {} -t UTF-8 FILE.utf-16 > FILE.utf-8 && gzip FILE.utf-8 && "
    "mv FILE.utf-8.gz FILE.gz`"
)
_BEGINS_A_VALUE = re.compile(r"[\[{]\s*(\n|$)|\[\s*\{")


@dataclass(frozen=True, slots=True)
class Odd:
    """The words behind a file's name, such as `is UTF-16`; and what to do, in the imperative."""

    what: str
    remedy: str  # FILE in it is the file's name without the ending of gzip
    remedy_of_gzip: str = ""  # where it is another one

    def remedy_for(self, place: Location) -> str:
        """The remedy, with the file's name in its command."""
        path = str(place)
        plain = path.removesuffix(".gz")
        remedy = self.remedy_of_gzip if path != plain and self.remedy_of_gzip else self.remedy
        return remedy.replace("FILE", shlex.quote(plain))


def no_text(data: bytes) -> Odd | None:
    """The kind of a file that begins so and is no UTF-8 text; None where its lines may be read."""
    if data.startswith(_GZIP):
        return Odd("is gzip, and its name does not say so", "rename it, so that it ends in .gz")
    if found := _WITH_ROWS.match(data):
        return Odd(f"is {found.lastgroup}, which has no lines", _LAND)
    if found := _COMPRESSED.match(data):
        other = "compress it by gzip" if found.lastgroup in _NOT_LANDED else _LAND
        return Odd(f"is compressed by {found.lastgroup}, which is not read", f"decompress it, or {other}")
    if encoding := _utf16(data[:_LOOKED_AT_FOR_UTF16]):
        return Odd("is UTF-16", _TO_UTF8.format(encoding), _GZIP_TO_UTF8.format(encoding))
    return None


def _utf16(data: bytes) -> str | None:
    """The encoding by its name for iconv; without a mark every second byte is 0, as in English text."""
    if data.startswith(_UTF16_MARKS):
        return "UTF-16"
    if len(data) < _LEAST_FOR_UTF16:
        return None
    even, odd = data[::2], data[1::2]
    if not any(odd) and all(even):
        return "UTF-16LE"
    return "UTF-16BE" if not any(even) and all(odd) else None


def no_json_lines(data: bytes) -> Odd | None:
    """The kind of a JSON text that begins so and has not one object a line; None where it may have."""
    text = data[:LOOKED_AT_BYTES].removeprefix(b"\xef\xbb\xbf").decode(errors="replace").lstrip()
    if not text.startswith(("{", "[")):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # the text goes on behind what was looked at, or is no JSON
        is_odd = _BEGINS_A_VALUE.match(text) is not None
    else:
        is_odd = "\n" in text[:end] or (text.startswith("[") and not text[end:].strip())
    if not is_odd:
        return None
    if text.startswith("["):
        return Odd(
            "is one JSON array, not one object a line",
            "write each of its objects on a line, for example by `jq -c '.[]'`",
        )
    return Odd(
        "has a JSON object over several lines, not one object a line",
        "write each object on a line, for example by `jq -c .`",
    )
