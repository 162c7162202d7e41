"""Landing and a join of two topics beside Spark's stream-stream join of them; each is killed once.

They take the same traffic in turn. A click counts from when the broker acknowledged it, and its query long
before, until this process can read its row.
"""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from bench.landing_spark import spark_kafka
from bench.live_measurement import MeasurementFailed
from infra.servers.kafka import KafkaBroker
from infra.servers.process import cpu_seconds_of, family_of, kill_all, start_process

PARTITIONS, QUERIES_A_CLICK = 4, 10
LIVE_SECONDS, WARM_UP_SECONDS = 10.0, 240.0
POLL_SECONDS, START_SECONDS, DRAIN_SECONDS, IN_FLIGHT_SECONDS = 0.05, 600.0, 120.0, 5.0
TOPICS = ("queries", "clicks")
PHOTON = (sys.executable, "-m", "photon.cli.main")
SOURCE = '{{kafka: {{servers: "{url}", topic: {name}-{topic}}}, into: {topic}}}'
PIPELINE = """\
name: landed
datacenters: {{east: {{logs: logs, land: [{land}]}}}}
primary: {{files: "queries/*/*.jsonl", format: jsonl, id: query_id, time: at}}
foreign: {{files: "clicks/*/*.jsonl", format: jsonl, id: click_id, key: query_id, time: at}}
tailing: {{idle_after: 5s}}
"""


@dataclass
class Contender:
    """Processes that join the topics of a name, and the table that they write."""

    commands: Sequence[Sequence[str]]
    table: Path
    column: str  # with a click's id
    folder: Path
    roots: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0  # of those that were killed

    def start(self) -> None:
        """Start all of them, on what earlier ones have left."""
        started = [start_process(list(one), self.folder / "log") for one in self.commands]
        self.roots = [process.pid for process in started]

    def kill(self) -> None:
        """kill -9 of all."""
        family = [process for root in self.roots for process in family_of(root)]
        self.cpu_seconds += cpu_seconds_of(family)
        kill_all(family)


@dataclass
class Rows:
    """When the row of each click could be read first, and how often it is in the table."""

    contender: Contender
    first: dict[int, float] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def poll(self) -> None:
        """Look for files that are new."""
        with suppress(TableNotFoundError, FileNotFoundError):
            for file in set(DeltaTable(self.contender.table).file_uris()) - self.known:
                for click in pq.read_table(file, columns=[self.contender.column])[0].to_pylist():
                    self.first.setdefault(int(click[1:]), time.time())
                self.known.add(file)

    def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Poll until it is so, or for so long."""
        ends = time.monotonic() + seconds
        while not is_so() and time.monotonic() < ends:
            self.poll()
            time.sleep(POLL_SECONDS)

    def twice(self) -> int:
        """Clicks with several rows now."""
        column = DeltaTable(self.contender.table).to_pyarrow_table(columns=[self.contender.column])[0]
        return sum(count - 1 for count in Counter(column.to_pylist()).values())


class Traffic:
    """Queries at a steady rate, and a click for each tenth of them, a second after it."""

    def __init__(self, url: str, name: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": url, "linger.ms": 5})
        self._name, self._rate, self.acknowledged = name, rate, dict[int, float]()
        self.latest = 0  # the click that was acknowledged last
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        admin = AdminClient({"bootstrap.servers": url})
        for topic in TOPICS:
            admin.create_topics([NewTopic(f"{name}-{topic}", PARTITIONS, 1)])[f"{name}-{topic}"].result(30)
        self._thread.start()

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._is_over.wait(0.005):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                self._send("queries", number, b'{"query_id": "q%d", "at": %.3f}' % (number, time.time()))
                if (click := number - self._rate) >= 0 and click % QUERIES_A_CLICK == 0:
                    text = b'{"click_id": "c%d", "query_id": "q%d", "at": %.3f}'
                    self._send("clicks", click, text % (click, click, time.time()))
            sent = due
            self._producer.poll(0)

    def _send(self, topic: str, number: int, value: bytes) -> None:
        def told(*_: object) -> None:
            if topic == "clicks":
                self.acknowledged[number], self.latest = time.time(), number

        self._producer.produce(f"{self._name}-{topic}", value, b"%d" % number, on_delivery=told)

    def end(self) -> None:
        """Send no more."""
        self._is_over.set()
        self._thread.join()
        self._producer.flush(30)


def measure_peers(
    folder: Path, seconds: float, rate: int, progress: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """So many seconds calm and so many after a kill, of each; the figures by name. MeasurementFailed."""
    if not spark_kafka().is_there():
        spark_kafka().fetch()
    with KafkaBroker(folder / "kafka") as broker:
        found = {}
        for name in ("photon", "spark"):
            found[name] = _measure(_contender(folder / name, broker.url), broker.url, seconds, rate)
            progress(f"{name}: {found[name]}")
    return found


def _contender(folder: Path, url: str) -> Contender:
    folder.mkdir()
    if folder.name == "spark":
        command = (sys.executable, "-m", "bench.landing_spark", str(folder), url)
        return Contender([command], folder / "table", "click_id", folder)
    land = ", ".join(SOURCE.format(url=url, name=folder.name, topic=topic) for topic in TOPICS)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(land=land))
    commands = [(*PHOTON, "land", str(file)), (*PHOTON, "join", str(file), "--engine", "local")]
    return Contender(commands, folder / "lake" / "east" / "joined_events", "_event_id", folder)


def _measure(one: Contender, url: str, seconds: float, rate: int) -> dict[str, float]:
    traffic, rows = Traffic(url, one.folder.name, rate), Rows(one)
    try:
        one.start()
        rows.until(lambda: bool(rows.first), START_SECONDS)
        if not rows.first:
            raise MeasurementFailed(f"no row within {START_SECONDS:.0f} s; look at {one.folder / 'log'}")
        # A join works off first all that came while it started.
        rows.until(lambda: traffic.latest - max(rows.first) < rate * LIVE_SECONDS, WARM_UP_SECONDS)
        began, before = time.time(), cpu_seconds_of(p for root in one.roots for p in family_of(root))
        rows.until(lambda: False, seconds)
        used = cpu_seconds_of(p for root in one.roots for p in family_of(root)) - before
        killed = time.time()
        one.kill()
        one.start()
        rows.until(lambda: False, seconds)
        traffic.end()
        rows.until(lambda: len(rows.first) >= len(traffic.acknowledged), DRAIN_SECONDS)
        twice = rows.twice()
    finally:
        traffic.end()
        one.kill()
    acknowledged, sure = traffic.acknowledged, killed - IN_FLIGHT_SECONDS
    delays = {click: rows.first[click] - at for click, at in acknowledged.items() if click in rows.first}
    calm = array("d", sorted(delays[click] for click in delays if began <= acknowledged[click] < sure))
    return {
        "delay p50, s": calm[len(calm) // 2],
        "delay p99, s": calm[len(calm) * 99 // 100],
        "most after the kill, s": max(delays[click] for click in delays if acknowledged[click] >= sure),
        "cores": used / seconds,
        "lost": float(len(acknowledged) - len(delays)),
        "joined twice": float(twice),
    }
