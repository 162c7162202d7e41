"""`photon land` on a real broker: kills, transactions, topics made again, a broker that stops."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from infra.servers.kafka import KafkaBroker
from infra.servers.process import start_process
from photon.landing.marker import Marker, read_marker
from photon.read import joined
from tests.support.commands import photon

pytestmark = pytest.mark.services

PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


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
        """What the marker says; of a topic that nobody has landed yet: nothing."""
        return read_marker(self.folder / "logs" / into) or Marker(into, "", 0)

    def join(self) -> list[str]:
        """Land and join all that is there; the joined ids."""
        done = photon("join", self.file, "--complete", "--engine", "local")
        assert done.exit_code == 0, done.output
        return sorted(joined(self.file).to_table(columns=["_event_id"])["_event_id"].to_pylist())


@pytest.fixture
def topics(tmp_path: Path, broker: KafkaBroker, request: pytest.FixtureRequest) -> LandedTopics:
    return LandedTopics(tmp_path, broker, f"t{abs(hash(request.node.name)) % 10**9}")


def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def ids(numbers: range) -> list[str]:
    return sorted(f"c{n}" for n in numbers)


def test_each_click_of_a_pair_of_topics_is_joined_once(topics: LandedTopics) -> None:
    topics.send(range(2_000))
    assert topics.join() == ids(range(2_000))


def test_a_lander_that_is_killed_again_and_again_lands_each_message_once(topics: LandedTopics) -> None:
    chance = random.Random(7)
    for n in range(6):
        with topics.landing():
            topics.send(range(500 * n, 500 * (n + 1)))
            time.sleep(chance.uniform(0.5, 3.0))  # where it is killed
    assert topics.join() == ids(range(3_000))
    assert len(topics.lines("clicks")) == 3_000
    assert len(topics.lines("queries")) == 3_000


def test_a_second_lander_is_refused(topics: LandedTopics) -> None:
    with topics.landing():
        until(lambda: read_marker(topics.folder / "logs" / "clicks") is not None)
        refused = photon("land", topics.file)
        assert refused.exit_code == 3
        assert "lands into it already" in refused.output


def test_messages_of_transactions_are_landed_once_they_are_committed(topics: LandedTopics) -> None:
    open_ = topics.producer(**{"transactional.id": topics.clicks})
    open_.init_transactions(PATIENCE_SECONDS)
    with topics.landing():
        open_.begin_transaction()
        topics.send(range(10), open_)
        topics.send(range(10, 20))
        until(lambda: any(landed.hidden for landed in topics.marker("clicks").partitions.values()))
        assert all(
            landed.at_end is None for landed in topics.marker("clicks").partitions.values() if landed.hidden
        )
        open_.abort_transaction()
        open_.begin_transaction()
        topics.send(range(20, 30), open_)
        open_.commit_transaction()
        until(lambda: len(topics.lines("clicks")) == 20)
    assert topics.join() == ids(range(10, 30))


def test_a_partition_that_is_added_is_landed(topics: LandedTopics) -> None:
    with topics.landing():
        topics.send(range(10))
        topics.admin.create_partitions([NewPartitions(topics.clicks, 4)])[topics.clicks].result(
            PATIENCE_SECONDS
        )
        until(lambda: len(topics.marker("clicks").partitions) == 4)
        topics.send(range(10, 200))
    assert topics.join() == ids(range(200))


def test_a_topic_that_is_made_again_waits_for_somebody(topics: LandedTopics) -> None:
    topics.send(range(10))
    with topics.landing():
        until(lambda: len(topics.lines("clicks")) == 10)
        topics.admin.delete_topics([topics.clicks])[topics.clicks].result(PATIENCE_SECONDS)
        time.sleep(1)  # the broker deletes beside
        topics.create(topics.clicks, 2)
        topics.send(range(10, 40))
        until(lambda: len(topics.marker("clicks").open_losses) == 2)
        assert photon("status", topics.file, "--check").exit_code == 1
        acknowledged = photon("acknowledge", topics.file, "east")
        assert "the topic was deleted and made again" in acknowledged.output
        until(lambda: len(set(topics.lines("clicks"))) == 40)
    assert topics.join() == ids(range(40))


def test_messages_that_retention_took_are_told_and_the_rest_is_landed(topics: LandedTopics) -> None:
    topics.send(range(100))
    with topics.landing():
        until(lambda: sum(one.next_offset for one in topics.marker("clicks").partitions.values()) == 100)
    topics.send(range(100, 200))
    taken = {
        TopicPartition(topics.clicks, p, topics.marker("clicks").partitions[p].next_offset + 5)
        for p in (0, 1)
    }
    for done in topics.admin.delete_records(list(taken)).values():
        done.result(PATIENCE_SECONDS)
    assert photon("land", topics.file, "--complete").exit_code == 3
    losses = topics.marker("clicks").open_losses
    assert [(loss.kind, (loss.to_offset or 0) - loss.from_offset) for loss in losses] == [
        ("retention", 5)
    ] * 2
    assert photon("acknowledge", topics.file, "east").exit_code in (0, 3)  # no join has begun yet
    assert len(topics.join()) == 190


def test_a_broker_that_stops_is_told_and_landing_goes_on_after_it(topics: LandedTopics) -> None:
    with topics.landing():
        topics.send(range(50))
        until(lambda: len(topics.lines("clicks")) == 50)
        topics.broker.kill()
        until(lambda: "does not answer" in topics.marker("clicks").problem)
        topics.broker.start()
        topics.send(range(50, 100))
        until(lambda: len(topics.lines("clicks")) == 100)
        until(lambda: not topics.marker("clicks").problem)
    assert topics.marker("clicks").losses == ()
    assert topics.join() == ids(range(100))


def test_a_topic_of_a_schema_registry_is_refused(topics: LandedTopics) -> None:
    producer = topics.producer()
    for n in range(200):
        producer.produce(topics.clicks, b"\x00\x00\x00\x00\x01" + b"%d" % n, partition=0)
    producer.flush(PATIENCE_SECONDS)
    refused = photon("land", topics.file, "--complete")
    assert refused.exit_code == 3
    assert "schema registry" in refused.output


def test_a_compacted_topic_is_refused(topics: LandedTopics) -> None:
    config = {"cleanup.policy": "compact"}
    made = topics.admin.create_topics([NewTopic(f"{topics.clicks}-c", 1, 1, config=config)])
    made[f"{topics.clicks}-c"].result(PATIENCE_SECONDS)
    topics.file.write_text(topics.file.read_text().replace(topics.clicks, f"{topics.clicks}-c"))
    refused = photon("land", topics.file, "--complete")
    assert refused.exit_code == 3
    assert "cleanup.policy=delete" in refused.output
