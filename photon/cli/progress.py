"""Progress of a join: a live table on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import click

LINE_EVERY_SECONDS = 5.0
SHOWN = ("primary", "foreign", "joined", "joined_elsewhere", "unjoinable", "dead_letters")


class JoinProgress:
    """What the datacenters of a run have done since it began. A context manager; safe from many threads."""

    def __init__(self, datacenters: list[str]) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._batches = dict.fromkeys(datacenters, 0)
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

    def show(self, datacenter: str, message: Mapping[str, Any]) -> None:
        """Show that a batch was completed, with its counts, or what a datacenter waits for."""
        with self._lock:
            if "waits" in message:
                self._waits[datacenter] = message["waits"]
                lines = [f"{datacenter}: waits: {message['waits']}"]
            else:
                self._waits.pop(datacenter, None)
                self._counts[datacenter].update(message["batch"])
                self._batches[datacenter] += 1
                lines = self._lines_if_due()
        if self._live is None:
            for line in lines:
                click.echo(line, err=True)

    def _lines_if_due(self) -> list[str]:
        if time.monotonic() - self._said_at < LINE_EVERY_SECONDS:
            return []
        self._said_at = time.monotonic()
        return [f"{name}: {self._line(name)}" for name in self._batches]

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
