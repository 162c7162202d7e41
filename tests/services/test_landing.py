"""`photon land` on a real broker: kills, transactions, topics made again, a broker that stops."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from infra.servers.kafka import KafkaBroker
from photon.landing.marker import read_marker
from tests.services.landed_topics import PATIENCE_SECONDS, LandedTopics, ids, until
from tests.support.commands import photon

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def topics(tmp_path: Path, broker: KafkaBroker, request: pytest.FixtureRequest) -> LandedTopics:
    return LandedTopics(tmp_path, broker, f"t{abs(hash(request.node.name)) % 10**9}")


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
