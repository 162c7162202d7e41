"""Land one topic: take messages, append their lines, say in the marker what is on disk."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from photon.landing.beginning import FilesThere, begin_of
from photon.landing.lines import has_schema_prefix
from photon.landing.losses import Losses
from photon.landing.marker import LossKind, Marker, put_marker, read_marker
from photon.landing.partition import OtherContent, Partition, Taken, sync_all
from photon.landing.partition_file import files_of
from photon.landing.topic import (
    BrokerSilent,
    Given,
    Message,
    Offsets,
    ReadUpTo,
    Topic,
    TopicFacts,
    TopicRefused,
    Unreadable,
)
from photon.process.clock import MICROSECONDS, Clock
from photon.process.faults import fault_point
from photon.storage.full_disks import is_without_room
from photon.storage.sync import sync

AT_ONCE_MESSAGES = 1_000  # the client copies its queue: with more at once a message costs more
WAIT_SECONDS = 0.05  # the client gathers for so long
MARKER_EVERY_US = MICROSECONDS
SAID_EVERY_US = 5 * MICROSECONDS  # where nothing is new
ASK_EVERY_US = 3 * MICROSECONDS  # joins believe an answer for 10 s
FULL_DISK_PAUSE_SECONDS = 1.0
FIRST_MESSAGES = 100  # tell whether clients of a schema registry write to the topic
LEAP_US = MICROSECONDS  # the wall clock was set if it is off by more

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """The broker's answer on the topic and its partitions, all of it asked after these times."""

    as_of_us: int
    as_of_elapsed_us: int
    facts: TopicFacts
    offsets: Mapping[int, Offsets]


def ask(topic: Topic, clock: Clock) -> Answer:
    """Ask which partitions there are, then for their offsets, then whether the topic is still the same.

    BrokerSilent. A partition that comes later has no message that is older than `as_of_us`.
    """
    as_of_us, as_of_elapsed_us = clock.now_us(), clock.elapsed_us()
    facts = topic.facts()
    offsets = topic.offsets(sorted(facts.partitions))
    if topic.facts().topic_id != facts.topic_id:
        raise BrokerSilent("the topic is being made again")
    return Answer(as_of_us, as_of_elapsed_us, facts, offsets)


class Lander:
    """Lands one topic into one folder, which this process has locked (protocol K)."""

    def __init__(
        self, topic: Topic, name: str, folder: Path, clock: Clock, asker: Executor, boot: str
    ) -> None:
        """`asker` runs the questions that are asked beside reading. `boot`: of this machine."""
        self._topic, self._name, self._folder = topic, name, folder
        self._clock, self._asker, self._boot = clock, asker, boot
        self._partitions: dict[int, Partition] = {}
        self._said: Marker | None = None  # the marker as it was put last
        self.losses = Losses(name, folder, clock)
        self._asking: Future[Answer] | None = None
        self._asked_us = self._marked_us = 0  # by the clock that nobody sets
        self._wall_ahead_us = 0  # of the clock that nobody sets, at the last answer
        self._first: list[bool] = []  # whether each of the first messages has a schema's prefix
        self._problems: dict[str, str] = {}  # why nothing can be landed now, by what says so
        self._taken: Counter[Taken] = Counter()

    # -- the beginning

    def begin(self) -> Answer:
        """Go on where the folder is; the broker's answer, whose ends are those of now.

        TopicRefused, MarkerDamaged, LandedAlready, BrokerSilent, OSError.
        """
        said = self._said = read_marker(self._folder)
        if said is not None and said.topic != self._name:
            raise TopicRefused(
                f"{self._folder} has topic {said.topic}: name another folder (into:) for {self._name}"
            )
        answer = ask(self._topic, self._clock)
        self._refuse(answer.facts)
        if said is not None:
            self.losses.all = said.losses
            self._taken.update(messages=said.messages, odd=said.odd, tombstones=said.tombstones)
        known = set[int]() if said is None else set(said.partitions)
        for number in sorted(known | answer.facts.partitions):
            self._begin(number, answer)
        self.mark(at_once=True)  # a crash before it would forget where each partition began
        sync(self._folder)  # the name of the marker's folder
        if self._said is None:
            raise OSError(errno.ENOSPC, "no room for the marker", str(self._folder))
        for partition in self._partitions.values():
            self._read(partition)
        self._note_asked()
        self._take_in(answer)
        return answer

    def _begin(self, number: int, answer: Answer) -> None:
        landed = None if self._said is None else self._said.partitions.get(number)
        topic_id = answer.facts.topic_id if landed is None else landed.topic_id
        marked = None if landed is None or landed.file is None else self._folder / landed.file
        size_bytes = marked.stat().st_size if marked is not None and marked.exists() else None
        there = FilesThere(files_of(self._folder, number), size_bytes)
        where = begin_of(landed, there, topic_id, is_first_start=self._said is None)
        start = answer.offsets[number].start if number in answer.offsets else 0
        if where.is_removed and where.offset is not None and where.offset < start:
            self.losses.note(number, "removed", where.offset, start, is_told_only=True)
            where = replace(where, offset=start)
        partition = Partition.begin(number, self._folder, topic_id, where, start, landed)
        if landed is not None and landed.stopped_by is not None:
            partition.stop(landed.stopped_by)
        self._partitions[number] = partition
        if partition.file is not None:
            partition.file.prepare()

    def _refuse(self, facts: TopicFacts) -> None:
        if facts.is_compacted:
            raise TopicRefused(
                f"topic {self._name} is compacted: the broker removes messages that are not landed yet; "
                "expected a topic with cleanup.policy=delete"
            )
        if not facts.topic_id.strip("0"):
            raise TopicRefused(
                f"topic {self._name} has no id at this broker, so one that is made again could not be told "
                "from it: expected Kafka 2.8 or later"
            )

    def _read(self, partition: Partition) -> None:
        if partition.stopped_by is None:
            self._topic.read(partition.number, *partition.reads_from)

    def close(self) -> None:
        """Let go of the files."""
        for partition in self._partitions.values():
            partition.close()

    # -- a step

    def run(self, is_over: Callable[[], bool]) -> None:
        """Land until it is over, and say what is landed. TopicRefused, LandedAlready, OSError."""
        while not is_over():
            self.step()
        self._write()
        self.mark(at_once=True)

    def has_landed(self, ends: Mapping[int, Offsets]) -> bool:
        """Whether all before these ends is landed; partitions that stand still land nothing more."""
        known = self._partitions  # one that is gone was in a topic that was made again
        there = [(known[number], offsets) for number, offsets in ends.items() if number in known]
        return all(one.stopped_by is not None or one.next_offset >= offsets.end for one, offsets in there)

    def step(self) -> None:
        """Land what came, and say so if it is time to. TopicRefused, LandedAlready, OSError."""
        if self._has_room():
            for one in self._topic.take(AT_ONCE_MESSAGES, WAIT_SECONDS):
                self._take(one)
        else:
            self._clock.sleep(FULL_DISK_PAUSE_SECONDS)
        self._write()
        fault_point("land.after_write")
        self._ask()
        self.mark()

    def _has_room(self) -> bool:
        return not any(one.file is not None and one.file.has_waiting for one in self._partitions.values())

    def _take(self, given: Given) -> None:
        partition = self._partitions.get(given.partition)
        if partition is None:
            return
        match given:
            case Message():
                self._take_message(partition, given)
            case ReadUpTo():
                partition.read_up_to(given.offset)
            case Unreadable():
                partition.unreadable(given.diverges_at)
                self._asked_us = 0  # the next answer says why

    def _take_message(self, partition: Partition, message: Message) -> None:
        self._look_at_first(message)
        try:
            taken = partition.take(message)
        except OtherContent:
            first = partition.file.name.first_offset if partition.file is not None else None
            self._stop(partition, "other content", partition.sure_next, None, first)
            return
        if taken is not None:
            self._taken[taken] += 1

    def _look_at_first(self, message: Message) -> None:
        """Refuse a topic to which clients of a schema registry write. TopicRefused."""
        if len(self._first) < FIRST_MESSAGES and message.value is not None:
            self._first.append(has_schema_prefix(message.value))
            if len(self._first) == FIRST_MESSAGES and all(self._first):
                raise TopicRefused(
                    f"topic {self._name}: its values begin as a schema registry's clients write them "
                    "(Avro, Protobuf), which is not read: have a stream processor write JSON to another topic"
                )

    def _write(self) -> None:
        with self._minding_room():
            for partition in self._partitions.values():
                partition.write()

    @contextmanager
    def _minding_room(self) -> Iterator[None]:
        """A block that a full disk ends, and not the process: it is tried again. OSError of other kinds."""
        try:
            yield
        except OSError as error:
            if not is_without_room(error, self._folder):
                raise
            self.tell("disk", f"no room in {self._folder}: make room there")
        else:
            self.tell("disk", "")

    def tell(self, source: str, problem: str) -> None:
        """Take note of why nothing is landed; empty: it is over."""
        if problem and problem != self._problems.get(source):
            log.warning("topic %s: %s", self._name, problem)
        self._problems[source] = problem

    # -- what the broker says

    def _ask(self) -> None:
        if self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            try:
                answer = asking.result()
            except BrokerSilent as error:
                self.tell("broker", str(error))
            else:
                self._take_in(answer)
        if self._asking is None and self._clock.elapsed_us() - self._asked_us >= ASK_EVERY_US:
            self._asked_us = self._clock.elapsed_us()
            self._note_asked()
            self._asking = self._asker.submit(ask, self._topic, self._clock)

    def _note_asked(self) -> None:
        for partition in self._partitions.values():
            partition.asked_next = partition.next_offset

    def _take_in(self, answer: Answer) -> None:
        self._refuse(answer.facts)
        self.tell("broker", "")
        self._notice_leaps(answer)
        self._compare_topic(answer)
        for number in sorted(answer.facts.partitions - self._partitions.keys()):
            self._begin(number, answer)
            self._read(self._partitions[number])
        self._take_up(answer)
        for number, offsets in answer.offsets.items():
            partition = self._partitions[number]
            if partition.is_unreadable and partition.stopped_by is None:
                self._find_out(partition, offsets)
            partition.answered(answer.as_of_us, answer.as_of_elapsed_us, offsets)

    def _notice_leaps(self, answer: Answer) -> None:
        ahead_us = answer.as_of_us - answer.as_of_elapsed_us
        if abs(ahead_us - self._wall_ahead_us) > LEAP_US:
            for partition in self._partitions.values():
                partition.is_quiet_no_more()
        self._wall_ahead_us = ahead_us

    def _compare_topic(self, answer: Answer) -> None:
        """Another topic has the name: no offset of before means anything, nor does an earlier loss."""
        for partition in self._partitions.values():
            if partition.topic_id != answer.facts.topic_id and not self.losses.is_of_another_topic(
                partition.stopped_by
            ):
                end = None if partition.end is None else partition.end.end
                self._stop(partition, "another topic", partition.sure_next, end, None)

    def _find_out(self, partition: Partition, offsets: Offsets) -> None:
        """Why a partition gives nothing, by what the broker says: only what could not be read is lost."""
        first = partition.file.name.first_offset if partition.file is not None else None
        next_offset = partition.next_offset
        if partition.diverges_at is not None:
            self._stop(partition, "truncated", partition.diverges_at, next_offset, partition.diverges_at)
        elif next_offset < offsets.start:
            self._stop(partition, "retention", next_offset, offsets.start, None)
        elif next_offset > offsets.end:
            self._stop(partition, "truncated", offsets.end, next_offset, first)
        else:  # its last line, or marks of transactions, went by retention; or the broker took its time
            partition.read_again()
            is_there = partition.read_offset >= offsets.start
            offset = partition.read_offset if is_there else offsets.start
            self._topic.read(partition.number, offset, partition.leader_epoch if is_there else None)

    def _stop(
        self,
        partition: Partition,
        kind: LossKind,
        from_offset: int,
        to_offset: int | None,
        goes_on_at: int | None,
    ) -> None:
        loss = self.losses.note(partition.number, kind, from_offset, to_offset, goes_on_at=goes_on_at)
        partition.stop(loss.name)
        self._topic.stop(partition.number)

    def _take_up(self, answer: Answer) -> None:
        """Go on in partitions whose loss somebody has acknowledged."""
        for partition in list(self._partitions.values()):
            loss = self.losses.acknowledged(partition.stopped_by)
            if loss is None:
                continue
            if partition.number not in answer.offsets:
                self._partitions.pop(partition.number).close()
                continue
            start = answer.offsets[partition.number].start
            offset = start if loss.goes_on_at is None else max(start, loss.goes_on_at)
            self.losses.settle(loss, offset)
            partition.go_on(answer.facts.topic_id, offset)
            self._read(partition)
        for loss in self.losses.open:  # a topic that was made again may have fewer partitions
            if loss.partition not in self._partitions and self.losses.acknowledged(loss.name) is not None:
                self.losses.end(loss)

    # -- the marker

    def mark(self, at_once: bool = False) -> None:
        """Put what is landed on disk, then say so, each second. OSError but of a full disk."""
        now_us = self._clock.elapsed_us()
        if not self._has_room() or not (at_once or now_us - self._marked_us >= MARKER_EVERY_US):
            return  # while lines wait in memory, no marker could say how far the files are
        self._marked_us = now_us
        with self._minding_room():
            if not self._sync():
                return
            marker = self._marker()
            if self._said is None or self._is_news(marker, self._said):
                fault_point("land.before_marker")
                put_marker(self._folder, marker)
                fault_point("land.after_marker")
                self._said = marker
            for partition in self._partitions.values():
                partition.end_long_file()

    def _is_news(self, marker: Marker, said: Marker) -> bool:
        """Whether there is something new to say; that this process lives, it says now and then."""
        is_due = not 0 <= marker.said_us - said.said_us < SAID_EVERY_US
        return is_due or replace(marker, said_us=said.said_us) != said

    def _sync(self) -> bool:
        """Put all on disk; False if somebody has replaced a file, whose lines are then landed anew."""
        replaced = sync_all(list(self._partitions.values()))
        if not replaced:
            return True
        try:
            answer = ask(self._topic, self._clock)
        except BrokerSilent as error:  # the next second finds it replaced as well
            self.tell("broker", str(error))
            return False
        for partition in replaced:
            partition.close()
            self._begin(partition.number, answer)
            self._read(self._partitions[partition.number])
        return False

    def _marker(self) -> Marker:
        return Marker(
            topic=self._name,
            boot=self._boot,
            said_us=self._clock.now_us(),
            partitions={one.number: one.landed() for one in self._partitions.values()},
            losses=self.losses.all,
            problem="; ".join(filter(None, self._problems.values())),
            messages=self._taken["messages"],
            odd=self._taken["odd"],
            tombstones=self._taken["tombstones"],
        )
