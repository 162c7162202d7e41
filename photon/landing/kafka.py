"""A topic of a real broker, by the client of librdkafka (extra `kafka`).

Partitions are assigned at offsets that the marker knows, so no consumer group is used. Only committed
messages are given, and nothing is skipped silently: an offset that the broker does not have is told, once.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from photon.landing.topic import (
    BrokerSilent,
    Given,
    Message,
    Offsets,
    ReadUpTo,
    TopicFacts,
    TopicGone,
    TopicRefused,
    Unreadable,
)

ANSWER_SECONDS = 10.0  # so long a question waits
GROUP = "photon-land"  # the client wants a name; nothing is stored under it
FIXED = {
    "group.id": GROUP,
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
# Landing rests on these beside them: ends are the leader's, and no message is too long to be given.
OURS = frozenset(
    {
        *(*FIXED, "bootstrap.servers", "client.rack", "topic.blacklist", "enable.auto.offset.store"),
        *("receive.message.max.bytes", "fetch.max.bytes", "message.max.bytes"),
    }
)
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_DIVERGES = re.compile(r"truncation detected.*broker end offset is (\d+)")  # no field has it


class KafkaTopic:
    """One topic (`photon.landing.topic.Topic`)."""

    def __init__(self, servers: str, name: str, settings: Mapping[str, str]) -> None:
        """`settings`: librdkafka's own. TopicRefused for an unknown one, and one that landing rests on."""
        if taken := sorted(OURS & settings.keys()):
            raise TopicRefused(f"topic {name}: settings: {taken[0]} is set by landing itself: remove it")
        self._name = name
        shared: dict[str, str | int | float | bool] = {
            "log_level": 0,
            **settings,
            "bootstrap.servers": servers,
        }
        try:
            self._admin = AdminClient(shared)
            self._consumer = Consumer({**shared, **FIXED})
        except KafkaException as error:
            raise TopicRefused(f"topic {name}: settings: {error.args[0].str()}") from None
        self._read: set[int] = set()

    def facts(self) -> TopicFacts:
        """See `Topic`."""
        named = TopicCollection([self._name])
        [described] = self._admin.describe_topics(named, request_timeout=ANSWER_SECONDS).values()
        said = self._answer(described)
        resource = ConfigResource(ResourceType.TOPIC, self._name)
        [asked] = self._admin.describe_configs([resource], request_timeout=ANSWER_SECONDS).values()
        policy = str(self._answer(asked)["cleanup.policy"].value)
        topic_id = base64.b64decode(str(said.topic_id) + "==").hex()
        return TopicFacts(topic_id, frozenset(one.id for one in said.partitions), "compact" in policy)

    def offsets(self, partitions: Collection[int]) -> Mapping[int, Offsets]:
        """See `Topic`. Ends are the high watermark: what was acknowledged with acks=all is below it."""
        starts = self._asked(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        ends = self._asked(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        stable = self._asked(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        return {number: Offsets(starts[number], ends[number], stable[number]) for number in partitions}

    def _asked(
        self, partitions: Collection[int], which: OffsetSpec, isolation: IsolationLevel
    ) -> dict[int, int]:
        if not partitions:
            return {}
        asked = self._admin.list_offsets(
            {TopicPartition(self._name, number): which for number in partitions},
            isolation_level=isolation,
            request_timeout=ANSWER_SECONDS,
        )
        found = {one.partition: int(self._answer(answer).offset) for one, answer in asked.items()}
        if any(offset < 0 for offset in found.values()):  # so it says while a leader goes down
            raise BrokerSilent("the broker does not say where a partition ends")
        return found

    def _answer(self, asked: Future[Any]) -> Any:
        try:
            return asked.result(ANSWER_SECONDS)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() in _FORBIDDEN:
                raise TopicRefused(
                    f"topic {self._name}: {reason.str()}: "
                    "expected the rights Describe, DescribeConfigs and Read"
                ) from None
            if reason.code() in _UNKNOWN_TOPIC:
                raise TopicGone(f"the broker has no topic {self._name}") from None
            raise BrokerSilent(f"the broker does not answer: {reason.str()}") from None
        except NoAnswer:
            raise BrokerSilent(f"the broker does not answer within {ANSWER_SECONDS:g} s") from None

    def read(self, partition: int, offset: int, leader_epoch: int | None) -> None:
        """See `Topic`."""
        self.stop(partition)
        place = TopicPartition(self._name, partition, offset)
        if leader_epoch is not None:
            place = TopicPartition(self._name, partition, offset, leader_epoch=leader_epoch)
        self._consumer.incremental_assign([place])
        self._read.add(partition)

    def stop(self, partition: int) -> None:
        """See `Topic`."""
        if partition in self._read:
            self._consumer.incremental_unassign([TopicPartition(self._name, partition)])
            self._read.remove(partition)

    def take(self, most: int, seconds: float) -> Sequence[Given]:
        """See `Topic`. What a broker that is away says here is left alone: its answers tell."""
        given = map(self._given, self._consumer.consume(most, seconds))
        return [one for one in given if one is not None]

    def _given(self, one: KafkaMessage) -> Given | None:
        error, partition, offset = one.error(), one.partition(), one.offset()
        if one.topic() != self._name or partition is None:  # of the client as a whole
            return None
        if error is None:
            assert offset is not None, "a message has an offset"
            return Message(partition, offset, one.value(), one.leader_epoch())
        if error.code() == KafkaError._PARTITION_EOF:
            return None if offset is None else ReadUpTo(partition, offset)
        found = _DIVERGES.search(error.str())
        return Unreadable(partition, None if found is None else int(found[1]))

    def close(self) -> None:
        """See `Topic`."""
        self._consumer.close()
