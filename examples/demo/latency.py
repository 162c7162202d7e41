"""How soon a joined row is readable after its two lines were written: arithmetic, and reading of tables.

`TableReader` notes when another process first sees a row; `summarize` makes percentiles of it. Starting
a join and its traffic is `live_measurement`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow.parquet as pq
from deltalake import DeltaTable

from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.storage.delta import is_table, open_table
from photon.storage.replacing import data_files
from photon.storage.store import store_of

_COLUMNS = [
    "click_id", "_datacenter", "_epoch", "_batch", "_occurrence", "logged_at", "primary_logged_at",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The stretch of time whose clicks are measured: [start_us, end_us)."""

    start_us: int
    end_us: int

    def __contains__(self, time_us: int) -> bool:
        return self.start_us <= time_us < self.end_us

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / MICROSECONDS


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the later of a click's two lines being written to its row being readable elsewhere."""

    clicks: int  # written in the window
    rows: int  # clicks with a readable row
    missing: int  # clicks without one
    joined_twice: int  # clicks with two rows, in the window or not
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    most_seconds: float
    window_seconds: float

    def as_dict(self) -> dict[str, object]:
        """For `--json`. Without any row, the percentiles are null."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }


def percentile(sorted_values: Sequence[int], share: float) -> float:
    """The least value that `share` of them do not exceed (nearest rank); NaN of none."""
    if not sorted_values:
        return math.nan
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


def summarize(rows: Iterable[SeenRow], written: Mapping[str, int], window: TimeSpan) -> Latency:
    """Latency of the clicks written within the window; `written` has the time of each click's line, in us.

    A row seen again in another file (compaction) counts when it was seen first; a click with two
    different rows was joined twice.
    """
    first: dict[str, SeenRow] = {}
    twice: set[str] = set()
    for row in sorted(rows, key=lambda row: row.readable_us):
        known = first.setdefault(row.click_id, row)
        if known.row != row.row:
            twice.add(row.click_id)
    measured = [click for click, time_us in written.items() if time_us in window]
    latencies = sorted(first[click].latency_us for click in measured if click in first)
    p50, p90, p99, most = (percentile(latencies, share) / MICROSECONDS for share in (0.5, 0.9, 0.99, 1))
    missing = len(measured) - len(latencies)
    return Latency(len(measured), len(latencies), missing, len(twice), p50, p90, p99, most, window.seconds)


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A joined row, when its lines were written and when it was first seen."""

    click_id: str
    row: tuple[str, str, int, str]  # datacenter, epoch, batch, occurrence: what tells it from any other row
    written_us: int  # the later of its two lines
    readable_us: int

    @property
    def latency_us(self) -> int:
        """From its later line to a reader, in microseconds."""
        return self.readable_us - self.written_us


class TableReader:
    """Reads what is new in the joined_events tables of several datacenters, as any other process would."""

    def __init__(self, tables: Sequence[Location], clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tables = {folder: _Table(folder) for folder in tables}

    def poll(self) -> list[SeenRow]:
        """The rows that are readable and were not at the last poll; none of a table that is not there yet."""
        return [
            row
            for table in self._tables.values()
            for records in table.new_records()
            for row in self._rows(records)
        ]

    def _rows(self, records: list[dict[str, object]]) -> list[SeenRow]:
        now_us = self._clock.now_us()  # after reading: the time at which somebody had the rows in hand
        return [_seen(record, now_us) for record in records]


class _Table:
    """One Delta table and which of its files were read."""

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._handle: DeltaTable | None = None
        self._version = -1
        self._known: set[str] = set()

    def new_records(self) -> Iterable[list[dict[str, object]]]:
        """The rows of each new file in turn."""
        handle = self._load()
        if handle is None or handle.version() == self._version:
            return
        paths, store = set(data_files(handle)), store_of(self._folder)
        for path in sorted(paths - self._known):
            yield pq.read_table(store.open(path), columns=_COLUMNS).to_pylist()
        self._known, self._version = paths, handle.version()

    def _load(self) -> DeltaTable | None:
        if self._handle is None:
            if not is_table(self._folder):
                return None
            self._handle = open_table(self._folder)
        self._handle.update_incremental()
        return self._handle


def _seen(record: Mapping[str, object], now_us: int) -> SeenRow:
    # undeclared columns are text, also where JSON has a number
    written_us = max(int(str(record["logged_at"])), int(str(record["primary_logged_at"])))
    row = (
        str(record["_datacenter"]), str(record["_epoch"]),
        int(str(record["_batch"])), str(record["_occurrence"]),
    )  # fmt: skip
    return SeenRow(str(record["click_id"]), row, written_us, now_us)
