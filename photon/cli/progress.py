"""Progress of a join: a live table on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping

import click

LINE_EVERY_SECONDS = 5.0
SHOWN = ("primary", "foreign", "joined", "joined_elsewhere", "unjoinable", "dead_letters")


class JoinProgress:
    """What the datacenters of a run have done since it began. A context manager; safe from many threads."""

    def __init__(self, datacenters: list[str]) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._batches: dict[str, int] = {name: 0 for name in datacenters}
        self._waits: dict[str, str] = {}
        self._lock = threading.Lock()
        self._said_at = time.monotonic()
        self._live = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> JoinProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def batch(self, datacenter: str, counts: Mapping[str, int]) -> None:
        """A batch was completed."""
        with self._lock:
            self._counts[datacenter].update(counts)
            self._batches[datacenter] += 1
            self._waits.pop(datacenter, None)
            if self._live is None and time.monotonic() - self._said_at >= LINE_EVERY_SECONDS:
                self._said_at = time.monotonic()
                for name in self._batches:
                    click.echo(f"{name}: {self._line(name)}", err=True)

    def waits(self, datacenter: str, reason: str) -> None:
        """Something is unavailable, and the datacenter waits for it."""
        with self._lock:
            self._waits[datacenter] = reason
        if self._live is None:
            click.echo(f"{datacenter}: waits: {reason}", err=True)

    def _line(self, name: str) -> str:
        counts = self._counts[name]
        return f"{self._batches[name]} batches, " + ", ".join(f"{counts[key]:,} {key}" for key in SHOWN)

    def _table(self):  # type: ignore[no-untyped-def]
        from rich.table import Table

        table = Table("datacenter", "batches", *SHOWN, "", box=None, pad_edge=False)
        for name, batches in self._batches.items():
            cells = (f"{self._counts[name][key]:,}" for key in SHOWN)
            waits = f"waits: {self._waits[name]}" if name in self._waits else ""
            table.add_row(name, str(batches), *cells, waits)
        return table
