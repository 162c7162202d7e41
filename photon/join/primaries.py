"""Ask the EventStore for the primaries of records, around the expected time where the pipeline says so."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa

from photon.event_store.interface import EventStore, Primaries, TimeWindows
from photon.join.records import Ints, Mask, Records
from photon.pipeline.event_key import primary_time_us
from photon.pipeline.file import Pipeline
from photon.process.clock import microseconds

EARLIEST_US, LATEST_US = -(2**63), 2**63 - 1


def look_up_primaries(
    store: EventStore, records: Records, rows: Ints, is_last: Mask, pipeline: Pipeline
) -> Primaries:
    """The primaries of the records `rows`. `is_last`: for which of them it is the last lookup.

    Without a window, which is the default, the first lookup is the last one too (protocol C7).
    """
    ids, window = records.of("_key", rows), pipeline.retry.lookup_window
    if window is None:
        return store.lookup(ids)
    windows = _windows(ids, records.times_us[rows], window, pipeline)
    found = store.lookup(ids, windows)
    last_chance = is_last & (found.rows < 0)
    if not last_chance.any():
        return found
    # What the window hides is looked for once more, with what it shows, so that there is one answer.
    windows.first_us[last_chance], windows.last_us[last_chance] = EARLIEST_US, LATEST_US
    return store.lookup(ids, windows)


def _windows(ids: pa.Array, times_us: Ints, window: timedelta, pipeline: Pipeline) -> TimeWindows:
    """The times around the expected one of each record's primary."""
    window_us, each = microseconds(window), zip(ids.to_pylist(), times_us.tolist(), strict=True)
    expected_us = [primary_time_us(key, at_us, pipeline.primary) for key, at_us in each]
    return TimeWindows(
        np.array([max(at_us - window_us, EARLIEST_US) for at_us in expected_us], np.int64),
        np.array([min(at_us + window_us, LATEST_US) for at_us in expected_us], np.int64),
    )
