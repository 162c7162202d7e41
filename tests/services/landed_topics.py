"""A pair of topics on a real broker, and the pipeline whose logs they become."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from infra.servers.kafka import KafkaBroker
from infra.servers.process import start_process
from photon.landing.marker import Marker, read_marker
from photon.read import joined
from tests.support.commands import photon

PATIENCE_SECONDS = 90.0


class LandedTopics:
    """A pair of topics, queries and clicks, and the pipeline whose logs they become."""

    def __init__(self, folder: Path, broker: KafkaBroker, name: str) -> None:
        self.folder, self.broker = folder, broker
        self.queries, self.clicks = f"{name}-queries", f"{name}-clicks"
        self.admin = AdminClient({"bootstrap.servers": broker.url, "log_level": 0})
        self.create(self.queries, 2)
        self.create(self.clicks, 2)
        self.file = folder / "pipeline.yaml"
        topics = ((self.queries, "queries"), (self.clicks, "clicks"))
        land = ", ".join(
            f"{{kafka: {{servers: '{broker.url}', topic: {topic}}}, into: {into}}}" for topic, into in topics
        )
        self.file.write_text(
            "name: landed\n"
            f"datacenters:\n  east: {{logs: logs, land: [{land}]}}\n"
            'primary: {files: "queries/*/*.jsonl", format: jsonl, id: query_id, time: at}\n'
            'foreign: {files: "clicks/*/*.jsonl", format: jsonl, id: click_id, key: query_id, time: at}\n'
        )

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_SECONDS)

    def producer(self, **settings: str) -> Producer:
        return Producer({"bootstrap.servers": self.broker.url, "log_level": 0, **settings})

    def send(self, numbers: range, producer: Producer | None = None) -> None:
        """Send a query of each number, and the click on it."""
        producer = producer or self.producer()
        for n in numbers:
            producer.produce(
                self.queries, b'{"query_id": "q%d", "at": %d}' % (n, 1_767_607_200 + n), b"%d" % n
            )
            click = b'{"click_id": "c%d", "query_id": "q%d", "at": %d}' % (n, n, 1_767_607_201 + n)
            producer.produce(self.clicks, click, b"%d" % n)
        producer.flush(PATIENCE_SECONDS)

    @contextmanager
    def landing(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run `photon land` as people do, in a process of its own."""
        command = [sys.executable, "-m", "photon.cli.main", "land", str(self.file)]
        process = start_process(command, self.folder / "land.log")
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def lines(self, into: str) -> list[bytes]:
        files = sorted((self.folder / "logs" / into).glob("*/*.jsonl"))
        return [line for file in files for line in file.read_bytes().splitlines()]

    def marker(self, into: str) -> Marker:
        """The marker of a landed topic; an empty one before anybody has landed it."""
        return read_marker(self.folder / "logs" / into) or Marker(into, "", 0)

    def join(self) -> list[str]:
        """Land and join all that is there; the joined ids."""
        done = photon("join", self.file, "--complete", "--engine", "local")
        assert done.exit_code == 0, done.output
        return sorted(joined(self.file).to_table(columns=["_event_id"])["_event_id"].to_pylist())


def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def ids(numbers: range) -> list[str]:
    return sorted(f"c{n}" for n in numbers)
