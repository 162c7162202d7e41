"""When an event was: by its id, `ServerIP:ProcessId:timestamp` (paper, 2.1), or by its record.

The id alone identifies an event (protocol C4). Its time says only whether gc has passed it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.sections import ForeignLog, PrimaryLog
from photon.pipeline.values import UNITS_PER_SECOND, IdCodec, IdTimeUnit
from photon.process.clock import MICROSECONDS, NO_TIME_US

_MOST_DIGITS = 30  # more can't be a time in any unit; int() of long text takes quadratic time

Times = npt.NDArray[np.int64]


def id_time_us(codec: IdCodec | None, event_id: str, unit: IdTimeUnit = "us") -> int | None:
    """Return the time that `event_id` carries, in microseconds since 1970-01-01 UTC, rounded down.

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
    return time_us if time_us < NO_TIME_US else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def event_times_us(
    ids: pa.Array | pa.ChunkedArray, times_us: Times | pa.Array | pa.ChunkedArray, log: ForeignLog
) -> Times:
    """Return when each event was: by its id where the log has a codec, else by its record.

    `times_us`: of the records, null or NO_TIME_US where there is none; then that is the event's time too.
    """
    if isinstance(times_us, np.ndarray):
        known: Times = times_us
    else:
        known = pc.fill_null(times_us, NO_TIME_US).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if log.id_codec is None:
        return known
    carried_us = [id_time_us(log.id_codec, event_id, log.id_time_unit) for event_id in ids.to_pylist()]
    return np.array(
        [
            own if carried is None else carried
            for carried, own in zip(carried_us, known.tolist(), strict=True)
        ],
        np.int64,
    )


def event_time_us(event_id: str, time_us: int | None, log: ForeignLog) -> int:
    """Return when one event was, as `event_times_us` does for many."""
    carried_us = id_time_us(log.id_codec, event_id, log.id_time_unit)
    own_us = NO_TIME_US if time_us is None else time_us
    return own_us if carried_us is None else carried_us


def primary_time_us(key: str, time_us: int, log: PrimaryLog) -> int:
    """Guess when the primary event was: by its id where that carries a time, else by `time_us`."""
    carried_us = id_time_us(log.id_codec, key, log.id_time_unit)
    return time_us if carried_us is None else carried_us
