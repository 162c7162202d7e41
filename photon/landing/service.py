"""The service that lands the topics of datacenters, each on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from photon.landing.lander import Lander, ask
from photon.landing.marker import ASIDE, read_marker
from photon.landing.partition_file import LandedAlready
from photon.landing.topic import BrokerSilent, Offsets, Topic, TopicGone, TopicRefused
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.errors import UserError
from photon.process.extras import need_extra
from photon.process.mounts import file_system_of, is_of_network, mounts_here
from photon.process.operating_system import HeldByAnother, boot_id, held_alone
from photon.storage.full_disks import is_without_room
from photon.storage.sync import remove_abandoned

RETRY_SECONDS = 1.0  # between two attempts to begin
LOCK = "lock"

log = logging.getLogger(__name__)


class LockReplaced(UserError):
    """Somebody has removed or replaced the lock of a landed folder."""


@dataclass(frozen=True)
class TopicToLand:
    """A topic, and the folder for its lines. `connect` speaks to its broker."""

    name: str
    folder: Path
    connect: Callable[[], Topic]


def topics_of(pipeline: Pipeline, names: Sequence[str]) -> list[TopicToLand]:
    """The topics that these datacenters land. ExtraMissing without a client of Kafka, where there are any."""
    if not any(one.kafka is not None for name in names for one in pipeline.datacenters[name].land):
        return []
    need_extra("kafka")
    from photon.landing.kafka import KafkaTopic  # late: of an extra

    found = []
    for name in names:
        place = pipeline.datacenters[name]
        for one in place.land:
            assert isinstance(place.logs, Path), "the pipeline file refuses others"
            if one.kafka is None:
                continue
            connect = partial(KafkaTopic, one.kafka.servers, one.kafka.topic, one.kafka.settings)
            found.append(TopicToLand(one.kafka.topic, place.logs / one.into, connect))
    return found


@dataclass
class Landing:
    """Lands topics until it is stopped; with `complete` until all that is there now is landed.

    `is_patient`: it waits for a folder into which another process lands, and then goes on there.
    """

    topics: Sequence[TopicToLand]
    clock: Clock
    complete: bool = False
    is_patient: bool = False
    stop_requested: Callable[[], bool] = lambda: False
    stopped: threading.Event = field(default_factory=threading.Event)
    not_landed: list[str] = field(default_factory=list)  # losses that somebody has to acknowledge first
    held: dict[str, str] = field(default_factory=dict)  # topics that wait for another process, and for which

    def run(self) -> None:
        """Land. What ends one topic ends all: UserError, OSError."""
        with ThreadPoolExecutor(len(self.topics), "land") as threads:
            futures = [threads.submit(self._land, topic) for topic in self.topics]
            for future in futures:
                future.result()

    def _is_stopped(self) -> bool:
        return self.stopped.is_set() or self.stop_requested()

    def _land(self, topic: TopicToLand) -> None:
        try:
            refuse_network(topic.folder)
            with closing(topic.connect()) as connected:
                while not self._land_alone(topic, connected):
                    self.stopped.wait(RETRY_SECONDS)
        except BaseException:
            self.stopped.set()
            raise

    def _land_alone(self, topic: TopicToLand, connected: Topic) -> bool:
        """Land until it is over; False if another process lands there."""
        lock = topic.folder / ASIDE / LOCK
        try:
            # Protocol K2; each file is locked too, as the lock may be removed.
            with held_alone(lock), ThreadPoolExecutor(1, "ask") as asker:
                self.held.pop(topic.name, None)
                remove_abandoned(lock.parent)
                inode = lock.stat().st_ino
                while not self._land_once(topic, connected, asker, lock, inode):
                    self.stopped.wait(RETRY_SECONDS)
        except HeldByAnother as error:
            if self.complete:
                self._wait_for_another(topic, connected)
                return True
            says = f"{topic.folder}: process {error.process or 'another'} lands into it already: end it"
            if not self.is_patient:
                raise LandedAlready(f"{says}, or name another folder (into:)") from None
            self.held[topic.name] = says
            return self._is_stopped()
        return True

    def _land_once(
        self, topic: TopicToLand, connected: Topic, asker: ThreadPoolExecutor, lock: Path, inode: int
    ) -> bool:
        """Land until it is over; False if it could not begin yet."""
        lander = Lander(connected, topic.name, topic.folder, self.clock, asker, boot_id())
        with closing(lander):
            try:
                ends = lander.begin().offsets
            except (BrokerSilent, OSError) as error:
                if self.complete and isinstance(error, TopicGone):
                    raise TopicRefused(f"{error}: make it, or mend its name (topic:)") from None
                if not (isinstance(error, BrokerSilent) or is_without_room(error, topic.folder)):
                    raise
                log.warning("topic %s: %s; it is tried again", topic.name, error)
                return self._is_stopped()
            lander.run(lambda: self._is_over(lander, ends, lock, inode))
            self.not_landed += [loss.sentence() for loss in lander.losses.open]
        return True

    def _is_over(self, lander: Lander, ends: Mapping[int, Offsets], lock: Path, inode: int) -> bool:
        if not lock.exists() or lock.stat().st_ino != inode:
            raise LockReplaced(f"{lock} was removed or replaced while it was held: start landing again")
        return self._is_stopped() or (self.complete and lander.has_landed(ends))

    def _wait_for_another(self, topic: TopicToLand, connected: Topic) -> None:
        """Wait until the process that lands the topic has landed what is there now."""
        while not self._is_stopped():
            try:
                ends = ask(connected, self.clock).offsets
                break
            except BrokerSilent as error:
                log.warning("topic %s: %s; it is tried again", topic.name, error)
                self.stopped.wait(RETRY_SECONDS)
        while not self._is_stopped():
            self.stopped.wait(RETRY_SECONDS)
            marker = read_marker(topic.folder)
            there = {} if marker is None else marker.partitions
            behind = [n for n, one in ends.items() if n not in there or there[n].next_offset < one.end]
            if not [n for n in behind if n not in there or there[n].stopped_by is None]:
                open_losses = () if marker is None else marker.open_losses
                self.not_landed += [loss.sentence() for loss in open_losses]
                return


def refuse_network(folder: Path) -> None:
    """Over a network file system neither locks nor appending hold. TopicRefused."""
    kind = file_system_of(folder.resolve(), mounts_here())
    if is_of_network(kind):
        raise TopicRefused(
            f"{folder} is on a network file system ({kind}): expected a disk of this machine, "
            "where one process can append alone"
        )
