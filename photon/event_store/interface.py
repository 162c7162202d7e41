"""The EventStore's interface: primary events by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.pipeline.location import Location
from photon.process.clock import NO_TIME_US, microseconds

Ints = npt.NDArray[np.int64]

EARLIEST_US, LATEST_US = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class IndexSnapshot:
    """The index as a batch sees it: names of files in `folder`. Picklable."""

    folder: Location
    segments: tuple[str, ...]
    log_files: str
    log_files_in: Location | None = None  # another folder, with the map


def index_folder(work: Location) -> Location:
    """Where the index of a datacenter is, below what its tasks work on."""
    return work / "index"


@dataclass(frozen=True)
class Around:
    """For each key, when its event is expected, and the first and the last time at which it may be."""

    expected_us: Ints
    first_us: Ints
    last_us: Ints

    def take(self, rows: Ints) -> Around:
        return Around(self.expected_us[rows], self.first_us[rows], self.last_us[rows])

    @staticmethod
    def within(times_us: Ints, window: timedelta | None) -> Around:
        """Around the expected times of primaries: without a time the earliest joins (protocol F14)."""
        expected_us = np.where(times_us == NO_TIME_US, EARLIEST_US, times_us)
        if window is None:
            return Around.any_time(expected_us)
        window_us = microseconds(window)
        first_us = np.maximum(times_us, EARLIEST_US + window_us) - window_us
        return Around(expected_us, first_us, np.minimum(times_us, LATEST_US - window_us) + window_us)

    @staticmethod
    def any_time(expected_us: Ints) -> Around:
        """Without a window."""
        return Around(
            expected_us, np.full_like(expected_us, EARLIEST_US), np.full_like(expected_us, LATEST_US)
        )


@dataclass(frozen=True)
class Primaries:
    """The events that a lookup found for each key."""

    rows: Ints  # row in `events`; -1: no event, as far as the logs are read
    unanswered: npt.NDArray[np.bool_]  # the key has an event in a log file that can't be read now
    is_ambiguous: npt.NDArray[np.bool_]  # events of the key's id with other content might have joined, too
    events: pa.Table  # photon.logs.parse.PRIMARY_EVENTS, each once
    files: Mapping[int, LogFile]  # those that the events are in, by number
    unread: frozenset[int] = frozenset()  # numbers of the files of what is unanswered


class EventStore(Protocol):
    """Where the joiner finds primary events."""

    def lookup(self, keys: pa.Array, around: Around) -> Primaries:
        """The primary event of each key (text, no nulls), in all the logs that are indexed.

        Of several with one id the nearest counts (protocol F14).
        The cost grows with the number of segments, not with that of events, nor with that of an id's events.
        """
        ...
