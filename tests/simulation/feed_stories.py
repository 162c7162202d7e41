"""A pipeline behind another one, whose feed is made step by step; and what has to hold of it (G6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from photon.feed.folder import FedFolder
from photon.feed.sink import Fed
from photon.process.clock import MICROSECONDS
from tests.feed.made_steps import row, step
from tests.simulation.world import NOON_US, World, assert_counts

PIPELINE = """
name: conversions
datacenters:
  east: {logs: logs/east}
primary: {files: "clicks/*.jsonl", format: jsonl, id: _event_id, time: _event_time, watermark: feed}
foreign: {files: "conversions/*.jsonl", format: jsonl, id: conversion, key: click, time: at, time_unit: us}
retry: {unjoinable_after: 1m, allowed_lateness: 1m}
"""
MINUTE_US = 60 * MICROSECONDS


class FedWorld:
    """A pipeline behind another one: its clicks come by a feed, its conversions in a log."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs" / "east"
        self.clicks = self.logs / "clicks"
        (self.logs / "conversions").mkdir(parents=True)
        (folder / "pipeline.yaml").write_text(PIPELINE)
        self.world = World.of(folder / "pipeline.yaml")

    def conversions(self, **clicks: str) -> None:
        """Conversions of now, each with its click."""
        with (self.logs / "conversions" / "a.jsonl").open("a") as log:
            for conversion, click in clicks.items():
                record = {"conversion": conversion, "click": click, "at": NOON_US}
                log.write(json.dumps(record) + "\n")

    def feed(self, *clicks: str, complete_up_to_us: int | None) -> None:
        """Deliver the next release, with these clicks as its rows."""
        at = datetime.fromtimestamp(NOON_US / MICROSECONDS, UTC)
        with closing(FedFolder(self.clicks, Fed(Path("/first.yaml"), "first"))) as sink:
            last = sink.cursor()
            number = 1 if last is None else last.number + 1
            rows = [row(number, n, _event_id=click, _event_time=at) for n, click in enumerate(clicks)]
            made = step(number, rows, complete_up_to_us=complete_up_to_us)
            sink.deliver([replace(made, after=last)])

    def expect(self, because: str = "", **counts: int) -> None:
        """Join again and again, for far longer than events wait for their primaries."""
        for _ in range(6):
            self.world.join()
            self.world.clock.advance(600)
        assert_counts(self.world.join().counts, because, **counts)

    @contextmanager
    def away(self, file: Path) -> Iterator[None]:
        """Have a file of the feed away for a while."""
        elsewhere = self.logs / "elsewhere"
        file.rename(elsewhere)
        yield
        elsewhere.rename(file)


def a_file_that_the_marker_names_is_awaited(fed: FedWorld) -> None:
    """A folder is put back without its last file."""
    fed.conversions(c="late")
    fed.feed("k", complete_up_to_us=NOON_US)
    fed.feed("late", complete_up_to_us=NOON_US + 10 * MINUTE_US)
    with fed.away(fed.clicks / "000000000002.jsonl"):
        fed.expect("an event was given up", pending=1, unjoinable=0)
    fed.expect(joined=1)
