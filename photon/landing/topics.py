"""Topics that are landed, each by a lander of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from photon.landing.lander import Lander, ask
from photon.landing.marker import ASIDE, has_begun, read_marker
from photon.landing.service import RETRY_SECONDS, CheckLock, Landing
from photon.landing.topic import BrokerSilent, Offsets, Topic, TopicGone, TopicRefused
from photon.pipeline.file import Pipeline
from photon.process.extras import need_extra
from photon.process.operating_system import boot_id
from photon.storage.full_disks import is_without_room
from photon.storage.sync import remove_abandoned

log = logging.getLogger(__name__)


@dataclass
class TopicToLand:
    """A topic, and the folder for its lines. `connect` speaks to its broker. See `ToLand`."""

    name: str
    folder: Path
    connect: Callable[[], Topic]
    _ends: Mapping[int, Offsets] | None = field(default=None, init=False)  # that another process has to reach

    def land(self, landing: Landing, check_lock: CheckLock) -> None:
        """Protocol K2; each file is locked too, as the lock may be removed."""
        with closing(self.connect()) as connected, ThreadPoolExecutor(1, "ask") as asker:
            remove_abandoned(self.folder / ASIDE)
            while not self._land_once(landing, connected, asker, check_lock):
                landing.stopped.wait(RETRY_SECONDS)

    def _land_once(
        self, landing: Landing, connected: Topic, asker: ThreadPoolExecutor, check_lock: CheckLock
    ) -> bool:
        """Land until it is over; False if it could not begin yet."""
        lander = Lander(connected, self.name, self.folder, landing.clock, asker, boot_id())
        with closing(lander):
            try:
                ends = lander.begin().offsets
            except (BrokerSilent, OSError) as error:
                is_gone = isinstance(error, TopicGone)
                why = f"{error}: make it, or mend its name (topic:)" if is_gone else str(error)
                if landing.complete and is_gone:
                    raise TopicRefused(why) from None
                if not (isinstance(error, BrokerSilent) or is_without_room(error, self.folder)):
                    raise
                landing.tell_waiting(self, "topic", why)
                return landing.is_stopped()
            has_begun(self.folder)

            def is_over() -> bool:
                check_lock()
                return landing.is_stopped() or (landing.complete and lander.has_landed(ends))

            lander.run(is_over)
            landing.not_landed += [loss.sentence() for loss in lander.losses.open]
        return True

    def is_landed_by_another(self, landing: Landing) -> bool:
        """A partition that stands still is landed as far as it can be."""
        if self._ends is None:
            try:
                with closing(self.connect()) as connected:
                    self._ends = ask(connected, landing.clock).offsets
            except BrokerSilent as error:
                log.warning("topic %s: %s; it is tried again", self.name, error)
            return False
        marker = read_marker(self.folder)
        there = {} if marker is None else marker.partitions
        behind = [n for n, one in self._ends.items() if n not in there or there[n].next_offset < one.end]
        if any(n not in there or there[n].stopped_by is None for n in behind):
            return False
        landing.not_landed += [loss.sentence() for loss in (() if marker is None else marker.open_losses)]
        return True


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
