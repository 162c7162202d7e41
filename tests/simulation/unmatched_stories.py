"""Worlds that look for unmatched primaries: real logs, tables and state, and a clock that is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from photon.registry.id_registry import IdRegistry
from photon.state.unmatched import Progress, published
from photon.unmatched.found import Found
from photon.unmatched.run import find_unmatched
from tests.simulation.world import NOON_US, World

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
UNMATCHED = "unmatched: {after: 24h, columns: [text]}\nreleases: {keep: 30d}"


class UnmatchedWorld(World):
    """A world whose clock is two days behind its first events, and whose logs go on for so long."""

    def __init__(self, folder: Path, datacenters: Sequence[str] = ("east",), more: str = UNMATCHED) -> None:
        super().__init__(folder, datacenters, more)

    def go_on(self, to_us: int = 2 * DAY_US, datacenter: str | None = None) -> None:
        """Have both logs read up to a time since noon: a pair that joins is logged there."""
        for name in [datacenter] if datacenter else self.pipeline.datacenters:
            mark = f"{to_us}"
            self.queries(f"on{mark}", datacenter=name, at_us=NOON_US + to_us)
            self.clicks((f"on{mark}", f"on{mark}"), datacenter=name, at_us=NOON_US + to_us)
        self.clock.advance(max(0, NOON_US + to_us - self.clock.now_us()) / 1e6)
        for name in [datacenter] if datacenter else self.pipeline.datacenters:
            self.join(name)

    def look(self, anew: bool = False, dry_run: bool = False, registry: IdRegistry | None = None) -> Found:
        """Look for unmatched primaries."""
        return find_unmatched(self.pipeline, registry or self.reader(), self.clock, anew, dry_run)

    def unmatched(self) -> list[dict[str, Any]]:
        """All rows of unmatched primaries, by id."""
        return sorted(self.rows("unmatched"), key=lambda row: str(row["primary_id"]))

    def unmatched_ids(self) -> list[str]:
        """Their ids; one that is there twice is named twice."""
        return [row["primary_id"] for row in self.unmatched()]

    def progress(self, datacenter: str = "east") -> Progress:
        found = published(self.pipeline.datacenters[datacenter].lake)
        assert found is not None
        return found
