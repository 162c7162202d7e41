"""How soon `photon follow` has rows in PostgreSQL, and how many a second, beside Spark's Delta source.

Both deliver the same tables to the same server in turns; the other one is stopped meanwhile, for nobody runs
both. When a row was committed the server says (`track_commit_timestamp`).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa

from bench.join_logs import JoinLogs
from bench.join_rows import read_rows
from bench.live_measurement import PHOTON_JOIN, MeasurementFailed, measure_live
from bench.timing import Spent, family_cpu_seconds, timed
from examples.demo.latency import SeenRow, TimeSpan, percentile
from examples.demo.traffic import Traffic
from infra.servers.postgres import postgres
from infra.servers.process import cpu_seconds_of, end_process, family_of, free_steady_port, start_process
from photon.feed.postgres_rows import KEY
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.releases import copies
from photon.releases.finding import kept_releases
from photon.releases.release import Part, Place, Release
from photon.storage.output_files import write_rows_by_date
from photon.storage.tables import OutputTable, app_id

NAMES = ("photon", "spark")
WARM_UP_SECONDS, TURN_SECONDS, SETTLING_SECONDS = 20.0, 20.0, 5.0  # a turn settles before and behind
PATIENCE_SECONDS, POLL_SECONDS = 120.0, 0.5
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {  # what both are told
    "snapshot": ([], {}),
    "releases": (["--from", "0", "--changes"], {"startingVersion": "0"}),
}
CLOCK = SystemClock()
COMMITTED_US = "(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint"


@dataclass
class Deliveries:
    """The server, Spark's process, and what both deliver: to tables `WHAT_photon` and `WHAT_spark`."""

    folder: Path
    url: str
    spark: subprocess.Popen[bytes]
    turns: list[tuple[str, TimeSpan, float]] = field(default_factory=list)  # whose, when, seconds of CPU

    def ask(self, query: str) -> list[Any]:
        """Ask the server."""
        with contextlib.closing(psycopg2.connect(self.url)) as server, server, server.cursor() as run:
            run.execute(query)
            return run.fetchall() if run.description else []

    def follow(self, pipeline: Pipeline, what: str, *more: str) -> list[str]:
        """The command by which Photon delivers."""
        target = ["--to", self.url, "--into", f"{what}_photon"]
        return [PHOTON_JOIN[0], "follow", str(pipeline.file), *target, *more]

    def order(self, pipeline: Pipeline, what: str, options: dict[str, str], is_live: bool = False) -> None:
        """Have Spark deliver to a table with the columns and the key of Photon's."""
        create = f"CREATE TABLE {what}_spark (LIKE {what}_photon INCLUDING ALL)"
        self.ask(f"{create}; ALTER TABLE {what}_spark DROP COLUMN _release")
        tables = [str(table) for table in tables_of(pipeline)]
        order = f"{what}_spark", tables, str(self.folder / "checkpoints"), options, is_live
        assert self.spark.stdin is not None
        self.spark.stdin.write(json.dumps(order).encode() + b"\n")
        self.spark.stdin.flush()

    def backlog(self, pipeline: Pipeline, way: str, turn: int) -> tuple[Spent, Spent]:
        """Deliver all rows: what that took Photon, and Spark."""
        what, (more, options) = f"{way}_{turn}", WAYS[way]
        with timed(family_cpu_seconds) as photon:
            subprocess.run(self.follow(pipeline, what, *more, "--once"), check=True)
        with timed(family_cpu_seconds) as spark:
            self.order(pipeline, what, options)
            assert self.spark.stdout is not None
            if not self.spark.stdout.readline():
                raise MeasurementFailed(f"Spark has ended; see {self.folder / 'spark.log'}")
        self.check(pipeline, what)
        return photon, spark

    def check(self, pipeline: Pipeline, what: str) -> None:
        """Drop what was delivered. MeasurementFailed unless both have each row of the lakes, once."""
        columns = [*KEY, "_event_id"]
        rows = sorted(tuple(row.values()) for row in read_rows(tables_of(pipeline), columns).to_pylist())
        delivered = sorted(self.ask(f"SELECT {', '.join(columns)} FROM {what}_photon"))
        self.ask(f"ALTER TABLE {what}_photon DROP COLUMN _release")
        ways = [
            f"(TABLE {what}_{one} EXCEPT ALL TABLE {what}_{other})" for one, other in (NAMES, NAMES[::-1])
        ]
        differing = self.ask(" UNION ALL ".join(ways))
        if rows != delivered or differing or len({row[-1] for row in rows}) != len(rows):
            raise MeasurementFailed(
                f"{what}: the lakes have {len(rows):,} rows, Photon delivered {len(delivered):,}; "
                f"{len(differing):,} of its rows and of Spark's differ"
            )
        self.ask(f"DROP TABLE {what}_photon, {what}_spark")

    @contextlib.contextmanager
    def live(self, file: Path) -> Iterator[None]:
        """Deliver in turns beside a join, and behind its end until all rows are there."""
        pipeline, ended = load_pipeline(file), Event()
        follower = start_process(self.follow(pipeline, "live"), self.folder / "follow.log")
        turns = Thread(target=self._take_turns, args=(pipeline, follower, ended))
        turns.start()
        try:
            yield
            ended.set()
            turns.join()
            rows = read_rows(tables_of(pipeline), KEY).num_rows
            counts = " UNION ALL ".join(f"SELECT count(*) FROM live_{name}" for name in NAMES)
            self._wait_for(lambda: self.ask(counts) == [(rows,)] * 2, Event())
        finally:
            ended.set()
            turns.join()
            end_process(follower, PATIENCE_SECONDS)

    def _take_turns(self, pipeline: Pipeline, follower: subprocess.Popen[bytes], ended: Event) -> None:
        self._wait_for(lambda: self.ask("SELECT to_regclass('live_photon')") != [(None,)], ended)
        self.order(pipeline, "live", {}, is_live=True)
        ended.wait(WARM_UP_SECONDS)
        pids = {"photon": follower.pid, "spark": self.spark.pid}
        for name, other in itertools.cycle((NAMES, NAMES[::-1])):
            stopped = family_of(pids[other])
            for process in stopped:
                process.suspend()
            ended.wait(SETTLING_SECONDS)
            start_us, before = CLOCK.now_us(), cpu_seconds_of(family_of(pids[name]))
            ended.wait(TURN_SECONDS)
            turn = name, TimeSpan(start_us, CLOCK.now_us()), cpu_seconds_of(family_of(pids[name])) - before
            is_cut = ended.wait(SETTLING_SECONDS)
            for process in stopped:
                process.resume()
            if is_cut:
                return
            self.turns.append(turn)

    def _wait_for(self, is_so: Callable[[], bool], ended: Event) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so() and not ended.wait(POLL_SECONDS):
            if time.monotonic() > deadline:
                raise MeasurementFailed(f"rows are not delivered; see the logs in {self.folder}")

    def latencies(self, pipeline: Pipeline, seen: Sequence[SeenRow]) -> dict[str, float]:
        """Seconds to a row's commit, from when it was readable in its lake, and its release was made."""
        readable_us = {row.click_id: row.readable_us for row in reversed(seen)}
        made_us = {one.number: one.made_us for one in kept_releases(pipeline)}
        found: dict[str, float] = {}
        for name in NAMES:
            turns = [(span, cpu_seconds) for whose, span, cpu_seconds in self.turns if whose == name]
            release = "_release" if name == "photon" else "0"
            rows = self.ask(f"SELECT click_id, {COMMITTED_US}, {release} FROM live_{name}")
            own = [row for row in rows if any(readable_us[row[0]] in span for span, _ in turns)]
            waits_us = {"readable": [at_us - readable_us[click] for click, at_us, _ in own]}
            if name == "photon":
                waits_us["release"] = [at_us - made_us[number] for _, at_us, number in own]
            found[f"live {name} rows"] = len(own)
            for since, each_us in waits_us.items():
                for share in (0.5, 0.99):
                    key = f"live {name} seconds from {since} p{share * 100:.0f}"
                    found[key] = percentile(sorted(each_us), share) / MICROSECONDS
            measured_seconds = sum(span.seconds for span, _ in turns)
            found[f"live {name} cores"] = sum(cpu_seconds for _, cpu_seconds in turns) / measured_seconds
        return found


def measure_feed(
    folder: Path, seconds: float, rows: int, releases: int, rounds: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """Deliver a backlog in so many rounds, then live traffic for so many seconds of turns of each."""
    found: dict[str, float] = {}
    progress(f"writing {rows:,} rows in {releases:,} releases")
    pipeline = write_backlog(folder / "backlog", rows, releases)
    with postgres(free_steady_port(), "track_commit_timestamp=on") as server:
        server.database("fed")
        url, log = server.url("fed"), folder / "spark.log"
        command = [sys.executable, "-m", "bench.feed_peer", url]
        spark = start_process(command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            deliveries = Deliveries(folder, url, spark)
            for way in WAYS:
                progress(f"delivering a backlog: {way}")
                runs = [deliveries.backlog(pipeline, way, turn) for turn in range(rounds + 1)][1:]
                for name, spents in zip(NAMES, zip(*runs, strict=True), strict=True):
                    found[f"{way} {name} rows/s"] = rows / median(spent.seconds for spent in spents)
                    cpu_seconds = median(spent.cpu_seconds for spent in spents)
                    found[f"{way} {name} us of CPU a row"] = cpu_seconds / rows * MICROSECONDS
                ratios = [theirs.seconds / own.seconds for own, theirs in runs]
                found[f"{way} photon is faster, times"] = median(ratios)
            turns = 2 * math.ceil(seconds / TURN_SECONDS)
            live = measure_live(
                folder / "live",
                WARM_UP_SECONDS + turns * (TURN_SECONDS + 2 * SETTLING_SECONDS),
                more="releases: {every: 1s}\n",
                command=(*PHOTON_JOIN, "--engine", "local"),
                beside=deliveries.live,
                progress=progress,
            )
            pipeline = load_pipeline(folder / "live" / "pipeline.yaml")
            found |= deliveries.latencies(pipeline, live.rows)
            deliveries.check(pipeline, "live")
        finally:
            end_process(spark, PATIENCE_SECONDS)
    return found


def write_backlog(folder: Path, rows: int, releases: int) -> Pipeline:
    """Write so many releases; each has a commit more of both tables."""
    pipeline, logs = load_pipeline(Traffic(seed=1).write_pipeline(folder)), JoinLogs(rows, rows)
    tables = {name: OutputTable(each.lake, "joined_events") for name, each in pipeline.datacenters.items()}
    for name, table in tables.items():
        table.create(pipeline.name, name)
    count, firsts, made = rows // releases // len(tables), itertools.count(), []
    for batch in range(releases + 1):
        parts = {}
        for name, table in tables.items():
            numbers = np.arange(count if batch else 0) + next(firsts) * count
            page = _joined(logs.clicks(numbers), name, batch)
            files = write_rows_by_date(table.folder.parent, table.name, batch, page) if batch else []
            table.commit(files, app_id(name, "1"), batch, max(0, batch - 1))
            parts[name] = Part(Place(1, batch), table.table_id(), batch * count, table.load().version())
        made.append(Release(batch, CLOCK.now_us(), "east", parts))
    for each in pipeline.datacenters.values():
        copies.put(each.lake, made)
    return pipeline


def _joined(clicks: pa.Table, datacenter: str, batch: int) -> pa.Table:
    """Clicks as a batch has them joined."""
    at = clicks["time"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    same = {"_datacenter": datacenter, "_epoch": "1", "_batch": batch, "_plan": f"plan-{batch}"}
    own = {name: pa.repeat(value, clicks.num_rows) for name, value in same.items()}
    own["_occurrence"] = pa.array([f"{batch}:{row}" for row in range(clicks.num_rows)])
    own |= {"_joined_at": at, "_event_time": at}
    own |= {"_event_id": clicks["click_id"], "_primary_occurrence": clicks["query_id"]}
    return pa.table({**own, **{name: clicks[name] for name in clicks.column_names}})


def tables_of(pipeline: Pipeline) -> list[Path]:
    """The tables of joined rows, in lakes of this machine."""
    return [Path(str(place.lake)) / "joined_events" for place in pipeline.datacenters.values()]
