"""The line of a message: its value as it is, if that is a JSON object.

No offset is in it: a message that its producer sent twice makes two equal lines, which are one event.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

# Between the tokens of JSON a line may end, within them it can't: a blank says the same there.
_ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
# Clients of a schema registry write these before each value: a zero, and four bytes that name the schema.
_SCHEMA_MAGIC, _SCHEMA_PREFIX_BYTES = 0, 5


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its end, and whether the message is one of the kind that joins read."""

    text: bytes
    is_odd: bool


def line_of(value: bytes) -> Line:
    """The line of a message's value. One that is no JSON object is landed as bytes, and is a dead letter."""
    try:
        _OBJECT.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return Line(b'{"_bytes": "%s"}\n' % base64.b64encode(value), is_odd=True)
    return Line(value.translate(_ON_ONE_LINE) + b"\n", is_odd=False)


def has_schema_prefix(value: bytes) -> bool:
    """Whether a value begins as Avro and Protobuf do that clients of a schema registry wrote."""
    return len(value) >= _SCHEMA_PREFIX_BYTES and value[0] == _SCHEMA_MAGIC
