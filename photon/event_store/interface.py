"""The EventStore's interface: primary events by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.logs.files import LogFile
from photon.pipeline.location import Location

Ints = npt.NDArray[np.int64]


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
class TimeWindows:
    """For each key, the first and the last microsecond at which its event may be."""

    first_us: Ints
    last_us: Ints


@dataclass(frozen=True)
class Primaries:
    """The events that a lookup found for each key."""

    rows: Ints  # row in `events`; -1: no event, as far as the logs are read
    unanswered: npt.NDArray[np.bool_]  # the key has an event in a log file that can't be read now
    events: pa.Table  # photon.logs.parse.PRIMARY_EVENTS, each once
    files: Mapping[int, LogFile]  # those that the events are in, by number


class EventStore(Protocol):
    """Where the joiner finds primary events."""

    def lookup(self, keys: pa.Array, windows: TimeWindows | None = None) -> Primaries:
        """The primary event of each key (text, no nulls), in all the logs that are indexed.

        Where the same id was logged twice, the first by (time, path, offset) counts.
        The cost grows with the number of segments, not with that of events.
        """
        ...
