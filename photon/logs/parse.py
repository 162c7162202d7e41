"""Events from bytes: the lines of a range, those that are events and those that are dead letters.

Only what every record needs is parsed here: id, key and time; the columns that a user sees are
parsed for the records that join, by `columns`. Where CSV ends and JSON begins: `csv_rows`, `json_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from photon.logs.files import ByteRange, LogFile
from photon.pipeline import ForeignLog, Limits, PrimaryLog

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
        ("_length", pa.int64()),  # of the line, as far as it was in the range
        ("_raw", pa.binary()),  # the first 4 KiB of it
        ("reason", pa.string()),
    ]
)
DEAD_LETTER_RAW_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """The records of a range."""

    events: pa.Table  # PRIMARY_EVENTS or FOREIGN_EVENTS
    dead_letters: pa.Table  # DEAD_LETTERS


def read_events(
    data: bytes, file: LogFile, byte_range: ByteRange, log: PrimaryLog | ForeignLog, limits: Limits
) -> ParsedRange:
    """The events of a range in the order of the file. Never raises for what a line holds."""
    raise NotImplementedError
