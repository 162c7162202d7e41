"""LogsEventStore and CombinedEventStore: the map decides, the cache or the logs serve.

Which entries are to be looked at is `log_file_map`; parsing is `photon.logs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from photon.event_store.cache import CacheEventStore
from photon.event_store.interface import PrimaryEvent, Wanted
from photon.event_store.log_file_map import LogFileMap
from photon.pipeline import EventStoreSettings, Limits, PrimaryLog


@dataclass(frozen=True)
class EventStorePlace:
    """Where the primary events of one datacenter are, and how to read them. Picklable: tasks get it."""

    map_path: Path
    logs_folder: Path
    log: PrimaryLog
    limits: Limits
    settings: EventStoreSettings
    lookup_window_us: int
    workers: int = 1  # task processes that share the cache's memory


class CombinedEventStore:
    """The EventStore of the joiner. `unreadable` counts ids that could not be read, `bytes_read` what was."""

    cache: CacheEventStore
    log_map: LogFileMap
    unreadable: int
    bytes_read: int

    def lookup(self, wanted: Sequence[Wanted]) -> list[PrimaryEvent | None]:
        """See `EventStore.lookup`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the map; the cache stays with the process."""


def open_event_store(place: EventStorePlace) -> CombinedEventStore:
    """The event store at `place`. Its cache lives as long as the process, and goes with the map's identity:
    a new map (a new epoch's) begins with an empty cache."""
    raise NotImplementedError
