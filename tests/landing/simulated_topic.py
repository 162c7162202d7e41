"""A topic whose broker a test drives: transactions, retention, partitions that come, a topic made again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from photon.landing.topic import (
    BrokerSilent,
    Given,
    Message,
    Offsets,
    ReadUpTo,
    TopicFacts,
    Unreadable,
)


@dataclass
class Record:
    """What lies at an offset: a message, or the mark at a transaction's end."""

    value: bytes | None = None
    transaction: int | None = None
    is_mark: bool = False
    epoch: int = 0  # of the leader that took it


@dataclass
class SimulatedPartition:
    """The log of one partition."""

    start: int = 0
    records: list[Record] = field(default_factory=list)
    epoch: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def epoch_of(self, offset: int) -> int:
        """The epoch of the leader that took what lies at an offset."""
        return self.records[offset - self.start].epoch

    def diverges_at(self, offset: int, epoch: int) -> int | None:
        """Where this log parts from one that has a record of this epoch before an offset; None: nowhere."""
        ends = [n for n, record in enumerate(self.records, self.start + 1) if record.epoch <= epoch]
        end = max(ends, default=self.start)
        return end if end < offset and epoch < self.epoch else None


@dataclass
class SimulatedBroker:
    """One topic, which several landers may read."""

    topic_id: str = "a1"
    partitions: dict[int, SimulatedPartition] = field(default_factory=lambda: {0: SimulatedPartition()})
    transactions: dict[int, str] = field(default_factory=dict)  # open, committed or aborted
    is_silent: bool = False
    is_compacted: bool = False

    def send(self, partition: int, value: bytes | None, transaction: int | None = None) -> int:
        """Append a message; its offset."""
        log = self.partitions[partition]
        log.records.append(Record(value, transaction, epoch=log.epoch))
        if transaction is not None:
            self.transactions.setdefault(transaction, "open")
        return log.end - 1

    def settle(self, transaction: int, how: str) -> None:
        """Commit or abort a transaction: a mark lies behind its messages in each of their partitions."""
        self.transactions[transaction] = how
        for log in self.partitions.values():
            if any(one.transaction == transaction and not one.is_mark for one in log.records):
                log.records.append(Record(transaction=transaction, is_mark=True, epoch=log.epoch))

    def add_partition(self, number: int) -> None:
        """Give the topic one partition more."""
        self.partitions[number] = SimulatedPartition()

    def remove_before(self, partition: int, offset: int) -> None:
        """Retention: remove the messages before an offset."""
        log = self.partitions[partition]
        del log.records[: offset - log.start]
        log.start = offset

    def elect(self, partition: int, kept: int | None = None) -> None:
        """Elect another leader, who has the messages before an offset, or all of them."""
        log = self.partitions[partition]
        if kept is not None:
            del log.records[max(0, kept - log.start) :]
        log.epoch += 2

    def make_again(self, partitions: Collection[int]) -> None:
        """Delete the topic, and make another one of its name."""
        self.topic_id = f"a{int(self.topic_id[1:]) + 1}"
        self.partitions = {number: SimulatedPartition() for number in partitions}
        self.transactions = {}

    def committed(self, partition: int) -> list[tuple[int, bytes | None]]:
        """The messages that a reader of committed ones is given, with their offsets."""
        log, found = self.partitions[partition], list[tuple[int, bytes | None]]()
        for offset, record in enumerate(log.records[: self.stable_end(partition) - log.start], log.start):
            is_given = record.transaction is None or self.transactions[record.transaction] == "committed"
            if is_given and not record.is_mark:
                found.append((offset, record.value))
        return found

    def stable_end(self, partition: int) -> int:
        """The first offset of an open transaction, else the end: readers are given nothing behind it."""
        log = self.partitions[partition]
        for offset, record in enumerate(log.records, log.start):
            if record.transaction is not None and self.transactions[record.transaction] == "open":
                return offset
        return log.end


class SimulatedTopic:
    """A reader's connection to the broker (`photon.landing.topic.Topic`)."""

    def __init__(
        self, broker: SimulatedBroker, before_answer: Callable[[str], object] = lambda _: None
    ) -> None:
        """`before_answer` is called before each answer with what was asked; it may change the broker."""
        self._broker, self._before = broker, before_answer
        self._next: dict[int, int] = {}
        self._epochs: dict[int, int | None] = {}
        self._told_end: dict[int, int] = {}

    def _ask(self, what: str) -> SimulatedBroker:
        self._before(what)
        if self._broker.is_silent:
            raise BrokerSilent("the broker does not answer")
        return self._broker

    def facts(self) -> TopicFacts:
        broker = self._ask("facts")
        return TopicFacts(broker.topic_id, frozenset(broker.partitions), broker.is_compacted)

    def offsets(self, partitions: Collection[int]) -> Mapping[int, Offsets]:
        broker = self._ask("offsets")
        if not broker.partitions.keys() >= set(partitions):
            raise BrokerSilent("there is no such partition")
        logs = {number: broker.partitions[number] for number in partitions}
        return {n: Offsets(log.start, log.end, broker.stable_end(n)) for n, log in logs.items()}

    def read(self, partition: int, offset: int, leader_epoch: int | None) -> None:
        self._next[partition], self._epochs[partition] = offset, leader_epoch
        self._told_end.pop(partition, None)

    def stop(self, partition: int) -> None:
        self._next.pop(partition, None)

    def take(self, most: int, seconds: float) -> Sequence[Given]:
        self._before("take")
        given: list[Given] = []
        for number in sorted(self._next.keys() & self._broker.partitions.keys()):
            if not self._broker.is_silent:
                given += self._taken(number, max(0, most - len(given)))
        return given

    def _taken(self, number: int, most: int) -> list[Given]:
        log, at, epoch = self._broker.partitions[number], self._next[number], self._epochs[number]
        diverges_at = None if epoch is None else log.diverges_at(at, epoch)
        if diverges_at is not None or not log.start <= at <= log.end:
            del self._next[number]  # told once, and not read any more
            return [Unreadable(number, diverges_at)]
        there = [(offset, value) for offset, value in self._broker.committed(number) if offset >= at]
        given: list[Given] = [Message(number, n, value, log.epoch_of(n)) for n, value in there[:most]]
        if given:
            last = there[len(given) - 1][0]
            self._next[number], self._epochs[number] = last + 1, log.epoch_of(last)
        if len(given) == len(there):
            end = max(self._next[number], self._broker.stable_end(number))
            if end > self._next[number]:
                self._next[number], self._epochs[number] = end, log.epoch
            if self._told_end.get(number) != end:
                self._told_end[number] = end
                given.append(ReadUpTo(number, end))
        return given

    def close(self) -> None:
        self._next = {}
