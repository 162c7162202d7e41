"""What identifies an event, and ids that carry their time: `ServerIP:ProcessId:timestamp` (paper, 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from photon.clock import MICROSECONDS
from photon.pipeline.sections import ForeignLog, PrimaryLog
from photon.pipeline.values import UNITS_PER_SECOND, IdCodec, IdTimeUnit

_LARGEST_US = 2**63 - 1
_MOST_DIGITS = 30  # more can't be a time in any unit; int() of long text takes quadratic time


def id_time_us(codec: IdCodec | None, event_id: str, unit: IdTimeUnit = "us") -> int | None:
    """The time that `event_id` carries, in microseconds since 1970-01-01 UTC, rounded down.

    None where there is no codec, or the id is not of its form. `unit` is that of the id's timestamp.
    """
    if codec is None:
        return None
    # From the right: an IPv6 address has colons of its own.
    server, _, rest = event_id.rpartition(":")
    server, _, process = server.rpartition(":")
    if not (server and _is_number(process) and _is_number(rest)):
        return None
    time_us = int(rest) * MICROSECONDS // UNITS_PER_SECOND[unit]
    return time_us if time_us <= _LARGEST_US else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


@dataclass(frozen=True, slots=True)
class EventKey:
    """The identity of a foreign event: its id and, only where the id carries its time, that time.

    `at_us` is when the event was, where that is no part of its identity. It says whether gc has passed the
    event. None: nobody knows, and gc never takes the event.
    """

    id: str
    time_us: int | None = None
    at_us: int | None = field(default=None, compare=False)

    @property
    def event_us(self) -> int | None:
        """When the event was, as far as known."""
        return self.at_us if self.time_us is None else self.time_us


def event_key(event_id: str, time_us: int | None, log: ForeignLog) -> EventKey:
    """The identity of an event: with its time only where the id carries it (protocol C4).

    `time_us` is that of a record of it; None where none is at hand, but never if it belongs to the identity.
    """
    if log.time_in_id:
        assert time_us is not None, f"the event {event_id} is known by its time too"
        return EventKey(event_id, time_us)
    carried_us = id_time_us(log.id_codec, event_id, log.id_time_unit)
    return EventKey(event_id, at_us=time_us) if carried_us is None else EventKey(event_id, carried_us)


def primary_time_us(key: str, time_us: int, log: PrimaryLog) -> int:
    """About when the primary event was: from its id where that carries a time, else the record's own time."""
    carried_us = id_time_us(log.id_codec, key, log.id_time_unit)
    return time_us if carried_us is None else carried_us
