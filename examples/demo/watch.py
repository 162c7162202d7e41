"""What a demo sees, as any other process could: the datacenters' status, and rows once they are readable."""

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
    """Looks at the datacenters of a pipeline. Rows of an earlier demo are passed over."""

    pipeline: Pipeline
    clock: Clock
    rows: deque[SeenRow] = field(default_factory=deque)  # in the order in which they were seen
    newest_row_us: dict[str, int] = field(default_factory=dict)  # by datacenter
    datacenters: Mapping[str, DatacenterStatus] = field(default_factory=dict)
    _looked_us: int = 0

    def __post_init__(self) -> None:
        tables = [place.lake / "joined_events" for place in self.pipeline.datacenters.values()]
        self._reader = TableReader(tables, self.clock)
        self._reader.poll()

    def look(self, began_us: int, kill: Kill | None, verified: bool) -> Facts:
        """What is new; each datacenter's status is looked up once a second."""
        for row in self._reader.poll():
            self.rows.append(row)
            self.newest_row_us[row.row[0]] = row.readable_us
        now_us = self.clock.now_us()
        if now_us - self._looked_us >= STATUS_SECONDS * MICROSECONDS:
            self._looked_us = now_us
            self.datacenters = {
                name: status_of(self.pipeline, name, self.clock) for name in self.pipeline.datacenters
            }
        return Facts(now_us, began_us, self.datacenters, dict(self.newest_row_us), kill, verified)

    def recent_p90_seconds(self) -> dict[str, float]:
        """By datacenter, of its last rows: from the later line being written to the row being readable."""
        now_us = self.clock.now_us()
        return {name: recent_p90_seconds(self.rows, name, now_us) for name in self.pipeline.datacenters}


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
