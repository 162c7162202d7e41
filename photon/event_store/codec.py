"""Ids that carry their time, such as `ServerIP:ProcessId:timestamp` (paper, section 2.1).

Pure functions from an id to its time. Times of records that stand in columns of their own belong to
`photon.logs.times`.
"""

from __future__ import annotations

from typing import Literal

IdCodec = Literal["server_process_timestamp"]
IdTimeUnit = Literal["s", "ms", "us", "ns"]

_UNITS_PER_SECOND: dict[IdTimeUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MICROSECONDS = 10**6
_LARGEST_US = 2**63 - 1
_MOST_DIGITS = 30  # more can't be a time in any unit; int() of long text takes quadratic time


def id_time_us(codec: IdCodec | None, event_id: str, unit: IdTimeUnit = "us") -> int | None:
    """The time that `event_id` carries, in microseconds since 1970-01-01 UTC, rounded down.

    None where there is no codec, or the id is not of its form: such an id is looked for around
    the foreign event's own time. `unit` is that of the id's timestamp.
    """
    if codec is None:
        return None
    # From the right: an IPv6 address has colons of its own.
    server, _, rest = event_id.rpartition(":")
    server, _, process = server.rpartition(":")
    if not (server and _is_number(process) and _is_number(rest)):
        return None
    time_us = int(rest) * _MICROSECONDS // _UNITS_PER_SECOND[unit]
    return time_us if time_us <= _LARGEST_US else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
