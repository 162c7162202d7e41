"""What a demo sees: how each datacenter stands, and every joined row as soon as anybody can read it.

It reads state folders and tables, as any other process may. What follows from it is `scenario`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Reversible
from dataclasses import dataclass, field

from bench.latency import SeenRow, TableReader, percentile
from examples.demo.scenario import Facts, Kill
from photon.clock import MICROSECONDS, Clock
from photon.pipeline.file import Pipeline
from photon.shift.status import DatacenterStatus, status_of

STATUS_SECONDS = 1.0  # a look at files and state: some ms a datacenter
RECENT_SECONDS = 10.0


@dataclass
class Watch:
    """Looks at the datacenters of a pipeline. It keeps all rows, or as many as `rows` is bounded to."""

    pipeline: Pipeline
    clock: Clock
    rows: deque[SeenRow] = field(default_factory=deque)  # in the order in which they were seen
    newest_row_us: dict[str, int] = field(default_factory=dict)  # by datacenter
    datacenters: Mapping[str, DatacenterStatus] = field(default_factory=dict)
    _looked_us: int = 0

    def __post_init__(self) -> None:
        tables = [place.lake / "joined_events" for place in self.pipeline.datacenters.values()]
        self._reader = TableReader(tables, self.clock)

    def skip_history(self) -> None:
        """Take no notice of rows that are there already: they are of an earlier demo."""
        self._reader.poll()

    def look(self, began_us: int, kill: Kill | None, verified: bool) -> Facts:
        """What is new; how the datacenters stand is looked up once a second."""
        self._read_rows()
        now_us = self.clock.now_us()
        if now_us - self._looked_us >= STATUS_SECONDS * MICROSECONDS:
            self._looked_us = now_us
            self.datacenters = {
                name: status_of(self.pipeline, name, self.clock) for name in self.pipeline.datacenters
            }
        return Facts(now_us, began_us, self.datacenters, dict(self.newest_row_us), kill, verified)

    def recent_p90_seconds(self, datacenter: str) -> float:
        """Of the rows of the last seconds, from the later line being written to the row being readable."""
        return recent_p90_seconds(self.rows, datacenter, self.clock.now_us())

    def _read_rows(self) -> None:
        for row in self._reader.poll():
            self.rows.append(row)
            self.newest_row_us[row.row[0]] = row.readable_us


def recent_p90_seconds(rows: Reversible[SeenRow], datacenter: str, now_us: int) -> float:
    """The 90th percentile of the datacenter's rows first seen within the last seconds; NaN of none."""
    since_us = now_us - round(RECENT_SECONDS * MICROSECONDS)
    latencies = []
    for row in reversed(rows):
        if row.readable_us < since_us:
            break
        if row.row[0] == datacenter:
            latencies.append(row.latency_us)
    return percentile(sorted(latencies), 0.9) / MICROSECONDS
