"""Photon beside Spark's stream-stream join and Flink's interval join, live: their delay, and a kill of each.

They join the same traffic of one datacenter in turn. Its logs grow by whole files, for Spark and Flink read a
file once. Rows count from the moment when this process has read them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from bench.figure_outage import longest_gap_seconds
from bench.join_contenders import Contender, Flink, Peer, Photon
from bench.join_flink import COMMON, FIRST_OF_EACH, STATES
from bench.join_rows import PARQUET_FILES
from bench.live_measurement import MeasurementFailed, TableWatch, clicks_written
from bench.live_spark import LOGS, LONGEST_LAG_SECONDS, PREFIX, WATERMARK_SECONDS, declared
from examples.demo.latency import Latency, SeenRow, TimeSpan, summarize
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import generating
from photon.process.clock import Clock, SystemClock

POLL_SECONDS = 0.05
FLINK_TIME = "TIMESTAMP_LTZ(3)"
TIMES = ("logged_at", "primary_logged_at")
SETTINGS = {
    "watermark of both logs": f"{WATERMARK_SECONDS} s",
    "join": f"query.time <= click.time <= query.time + {LONGEST_LAG_SECONDS} s",
    "duplicates": "the first click of each click_id",
    "Spark's trigger": "a batch as soon as the last one is done",
    "Flink's checkpoints": "each second; files are visible as soon as one is complete",
}


@dataclass(frozen=True)
class Story:
    """How long each part takes, in seconds, and how much is logged a second."""

    start: float = 300.0  # at most, until the first row
    warm_up: float = 45.0
    calm: float = 60.0
    after_kill: float = 60.0
    drain: float = 120.0  # at most, until the last row of a part
    primary_per_second: float = 1_000.0
    foreign_per_second: float = 50.0
    whole_file_seconds: float = 0.5


@dataclass(frozen=True)
class PeerSeen:
    """All that was seen of a join."""

    name: str
    rows: Sequence[SeenRow]
    written: dict[str, int]  # when each click's line was written, by its id
    calm: TimeSpan
    killed_us: int
    ends_us: int
    cores: float  # in use while it was calm
    behind_seconds: float  # the generator's
    load_average: float  # before

    @property
    def last_us(self) -> int:
        """When the last row was readable: a join may come back only after the last line was written."""
        return max(row.readable_us for row in self.rows)

    def numbers(self) -> dict[str, Any]:
        """Its delay while it was calm, and what the kill did."""
        whole = TimeSpan(0, self.ends_us)
        hit = TimeSpan(self.killed_us, self.ends_us)
        return {
            **percentiles(summarize(self.rows, self.written, self.calm)),
            "cores": round(self.cores, 2),
            "kill": {
                "silent_seconds": longest_gap_seconds(self.rows, (self.killed_us, self.last_us)),
                **percentiles(summarize(self.rows, self.written, hit)),
            },
            "clicks": len(self.written),
            "lost": summarize(self.rows, self.written, whole).missing,
            "joined_twice": summarize(self.rows, self.written, whole).joined_twice,
            "generator_most_behind_seconds": round(self.behind_seconds, 3),
            "load_average_before": self.load_average,
        }


def percentiles(latency: Latency) -> dict[str, float]:
    """The percentiles of a delay, for JSON."""
    names = ("p50_seconds", "p90_seconds", "p99_seconds", "most_seconds")
    return {name: round(getattr(latency, name), 3) for name in names}


@dataclass
class RowReader:
    """Reads the rows that are new in a table, of Delta or of Flink's files."""

    name: str
    table: Path
    clock: Clock = field(default_factory=SystemClock)
    _seen: set[Path] = field(default_factory=set)

    def poll(self) -> list[SeenRow]:
        """The rows that are readable and were not at the last poll."""
        return [row for file in self._new_files() for row in self._rows(file)]

    def _new_files(self) -> Iterator[Path]:
        for commit in sorted(set((self.table / "_delta_log").glob("*.json")) - self._seen):
            self._seen.add(commit)
            for line in commit.read_text().splitlines():
                added = json.loads(line).get("add")
                if added and added["dataChange"]:  # a compaction adds rows that were there
                    yield self.table / unquote(added["path"])
        for file in sorted(set(self.table.glob(PARQUET_FILES)) - self._seen):
            self._seen.add(file)
            yield file

    def _rows(self, file: Path) -> Iterator[SeenRow]:
        columns = pq.read_table(file, columns=["click_id", *TIMES], partitioning=None).to_pydict()
        now_us = self.clock.now_us()  # after reading: the time at which somebody had the rows in hand
        for number, (click, *times) in enumerate(zip(*columns.values(), strict=True)):
            yield SeenRow(click, (self.name, file.name, 0, str(number)), max(map(int, times)), now_us)


class LiveSpark(Peer):
    """Spark's join of live logs, `live_spark`."""

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.live_spark", str(self.folder)]


def photon(folder: Path) -> Contender:
    """`photon join` of one datacenter."""
    return Photon("photon", folder, ["one"])


def spark(folder: Path) -> Contender:
    """Spark's stream-stream join, its state in memory."""
    return LiveSpark("spark", folder, files_per_trigger=0)


def flink(folder: Path) -> Contender:
    """Flink's interval join, its state on the heap."""
    plan = flink_plan(folder)
    (folder / "plan.json").write_text(json.dumps(plan))
    return Flink("flink", folder, plan)


PEERS: dict[str, Callable[[Path], Contender]] = {"photon": photon, "spark": spark, "flink": flink}


def flink_plan(folder: Path) -> dict[str, Any]:
    """The work of `flink_join`."""
    rows = [*LOGS["clicks"], *(PREFIX + name for name in LOGS["queries"])]
    wanted = ", ".join(f"{log[0]}.`{name}`" for log, names in LOGS.items() for name in names)
    files = "'connector' = 'filesystem', 'path' ="
    computed = "seen AS PROCTIME(), event_time AS `time`"
    statements = [
        f"CREATE TEMPORARY TABLE {log} ({declared(names, FLINK_TIME)}, {computed},"
        f" WATERMARK FOR event_time AS event_time - INTERVAL '{WATERMARK_SECONDS}' SECOND(3))"
        f" WITH ({files} '{(folder / 'logs' / 'one' / log).as_uri()}', 'format' = 'json',"
        " 'json.timestamp-format.standard' = 'ISO-8601', 'source.monitor-interval' = '200 ms')"
        for log, names in LOGS.items()
    ]
    statements += [
        f"CREATE TEMPORARY TABLE joined ({declared(rows, FLINK_TIME)})"
        f" WITH ({files} '{(folder / 'table').as_uri()}', 'format' = 'parquet')",
        f"INSERT INTO joined SELECT {wanted} FROM ({FIRST_OF_EACH}) AS c JOIN queries AS q"
        " ON c.query_id = q.query_id AND c.event_time BETWEEN q.event_time"
        f" AND q.event_time + INTERVAL '{LONGEST_LAG_SECONDS}' SECOND(3)",
    ]
    often = {"execution.checkpointing.interval": "1 s"}
    task = {"statements": statements, "checkpoints": str(folder / "checkpoint")}
    return {"configuration": COMMON | STATES["flink_heap"] | often, "measured": task}


def measure(name: str, folder: Path, story: Story, seed: int, say: Callable[[str], None]) -> PeerSeen:
    """Have one join live traffic in a new folder, kill it with all its processes, and start it again."""
    seconds = sum((story.start, story.warm_up, story.calm, story.after_kill))
    traffic = Traffic(
        seed, ("one",), story.primary_per_second, story.foreign_per_second, seconds, streams=2,
        whole_file_seconds=story.whole_file_seconds,
    )  # fmt: skip
    traffic.write_pipeline(folder, "live_peers")
    clicks = folder / "logs" / "one" / "clicks"
    for log in (clicks, clicks.with_name("queries")):
        log.mkdir(parents=True)
    load_average, peer = round(os.getloadavg()[0], 2), PEERS[name](folder)
    watch = TableWatch(RowReader(name, peer.tables()[0]).poll, lambda: _alive(peer), POLL_SECONDS)

    def until(done: Callable[[], bool], most: float, what: str) -> None:
        if not watch.until(done, most):
            raise MeasurementFailed(f"{name}: not within {most:.0f} s: {what}")

    with generating(traffic, folder) as generator:
        try:
            peer.begin_again()
            until(lambda: bool(watch.rows), story.start, "the first row")
            watch.pass_by(story.warm_up)
            say(f"{name}: measuring")
            begins_us, cpu = watch.clock.now_us(), peer.cpu_seconds() or 0.0
            watch.pass_by(story.calm)
            calm = TimeSpan(begins_us, watch.clock.now_us())
            cores = ((peer.cpu_seconds() or 0.0) - cpu) / calm.seconds
            watch.pass_by(2 * story.whole_file_seconds)  # until the last lines of that time are in a file
            due = {click for click, time_us in clicks_written(clicks).items() if time_us in calm}
            watch.until(lambda: due <= watch.clicks, story.drain)
            killed_us = watch.clock.now_us()
            peer.kill()
            say(f"{name}: killed")
            peer.begin_again()
            watch.pass_by(story.after_kill)
            run = generator.stop()
            ends_us, written = watch.clock.now_us(), clicks_written(clicks)
            watch.until(lambda: written.keys() <= watch.clicks, story.drain)
        finally:
            peer.stop()
    return PeerSeen(
        name, watch.rows, written, calm, killed_us, ends_us, cores, run.most_behind_seconds, load_average
    )


def _alive(peer: Contender) -> None:
    peer.has_ended()  # JoinFailed if it died
