"""The landing of a datacenter's logs: how far each topic is, and whether somebody has to do something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from photon.dispatcher.landed_logs import BELIEVED_US
from photon.dispatcher.shift.lease import lease_status_of
from photon.health.landed_objects import ObjectsSeen, judge_objects
from photon.health.landed_source import SourceSeen
from photon.health.verdict import Verdict, level_after, passing
from photon.landing.marker import Landed, Marker, MarkerDamaged, landing_lease, read_marker
from photon.landing.objects.marker import ObjectsMarker
from photon.landing.objects.marker import read_marker as read_objects_marker
from photon.pipeline.file import Pipeline, dagster_name
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.process.pace import span
from photon.process.readable import counted

MOST_LOSSES_NAMED = 3
MOST_BEHIND_NAMED = 3  # partitions in one sentence: a topic may have hundreds
MOST_PARTS = 64  # that have a number of their own; what those behind them lack is added up
OTHER_PARTS = "others"

_M = TypeVar("_M", Marker, ObjectsMarker)


@dataclass(frozen=True)
class LandingSeen(SourceSeen):
    """A landed folder at one moment. `marker` None: there is none, or `problem` says why it can't be read."""

    topic: str
    into: str
    marker: Marker | None = None
    problem: str = ""

    @property
    def source(self) -> str:
        """The name of the source, for people."""
        return f"topic {self.topic}"

    @property
    def _partitions(self) -> Mapping[int, Landed]:
        return {} if self.marker is None else self.marker.partitions

    @property
    def lag(self) -> int | None:
        """Messages that are not landed; None: of some partition nobody knows."""
        lags = [landed.lag for landed in self._partitions.values()]
        return None if self.marker is None or None in lags else sum(lag for lag in lags if lag is not None)

    @property
    def behind_us(self) -> int | None:
        """For how long at most what was acknowledged is not landed; None: nobody knows."""
        if self.marker is None:
            return None
        is_believed = abs(self.looked_us - self.marker.said_us) <= BELIEVED_US
        behind = [one for one in self._partitions.values() if one.lag != 0 or not is_believed]
        since = [one.reached_us for one in behind]
        known = [max(0, self.looked_us - reached_us) for reached_us in since if reached_us is not None]
        return None if len(known) < len(since) else max(known, default=0)

    @property
    def silent_us(self) -> int | None:
        """For how long nobody has said how far it is; None: nobody ever has."""
        return None if self.marker is None else max(0, self.looked_us - self.marker.said_us)

    @property
    def losses(self) -> int:
        """How many losses nobody has acknowledged; each has a partition stand still."""
        return 0 if self.marker is None else len(self.marker.open_losses)

    @property
    def lag_by_part(self) -> Mapping[str, int]:
        """The same as `lag` by partition, where it is known, in a bounded number of them."""
        found = dict[str, int]()
        for number, landed in self._partitions.items():
            part = str(number) if number < MOST_PARTS else OTHER_PARTS
            if landed.lag is not None:
                found[part] = found.get(part, 0) + landed.lag
        return found

    @property
    def current_files(self) -> frozenset[str]:
        """The files, below the logs folder, to which lines are still appended."""
        landed = self._partitions.values()
        return frozenset(f"{self.into}/{one.file}" for one in landed if one.file is not None)

    def sentence(self) -> str:
        """How far the topic is landed, for people."""
        if self.marker is None:
            return f"waits for {self.source}: {self.problem or 'nobody has landed it yet'}"
        count, lag, behind_us = counted(len(self._partitions), "partition"), self.lag, self.behind_us
        said = ["nobody knows how many messages wait" if lag is None else f"{lag:,} offsets wait"]
        said[0] += f", {span(behind_us / MICROSECONDS)} behind" if behind_us else ""
        if lag and len(self._partitions) > 1:
            said.append(f"most in {self._most_behind()}")
        if unknown := sum(one.lag is None for one in self._partitions.values()):
            said.append(f"the end of {counted(unknown, 'partition')} is not known")
        if self.losses:
            said.append(f"{counted(self.losses, 'partition', 'stand')} still until the loss is acknowledged")
        return f"lands {self.source} ({count}): {'; '.join([*said, *filter(None, [self.marker.problem])])}"

    def _most_behind(self) -> str:
        lags = sorted(((one.lag or 0, -number) for number, one in self._partitions.items()), reverse=True)
        return ", ".join(f"{-number} ({lag:,})" for lag, number in lags[:MOST_BEHIND_NAMED] if lag)


def look_at_landing(
    pipeline: Pipeline, datacenter: str, now_us: int
) -> tuple[LandingSeen | ObjectsSeen, ...]:
    """Look at the topics and objects that a datacenter lands."""
    place = pipeline.datacenters[datacenter]
    if isinstance(place.logs, S3Folder) or not place.land:
        return ()
    found, shift = list[LandingSeen | ObjectsSeen](), lease_status_of(landing_lease(pipeline, datacenter))
    for one in place.land:
        folder = place.logs / one.into
        if one.kafka is None:
            objects, problem = _read(read_objects_marker, folder)
            seen: LandingSeen | ObjectsSeen = ObjectsSeen(one.objects or "", one.into, objects, problem)
        else:
            marker, problem = _read(read_marker, folder)
            seen = LandingSeen(one.kafka.topic, one.into, marker, problem)
        found.append(replace(seen, looked_us=now_us, shift=shift))
    return tuple(found)


def _read(read_one: Callable[[Path], _M | None], folder: Path) -> tuple[_M | None, str]:
    """A marker, and why it can't be read."""
    try:
        return read_one(folder), ""
    except (MarkerDamaged, FormatTooNew, OSError) as error:
        return None, str(error)


def judge_landing(
    name: str, seen: LandingSeen | ObjectsSeen, now_us: int, pipeline: Pipeline
) -> Verdict | None:
    """The verdict on what is not landed, or has lost messages; None: it is well."""
    if isinstance(seen, ObjectsSeen):
        return judge_objects(name, seen, now_us, pipeline)
    start, topic, marker = seen.start(pipeline, name), seen.source, seen.marker
    ended_by = f"; its last shift ended: {seen.shift.ended_by}" if seen.shift.ended_by else ""
    if marker is None:
        return passing("warn", f"{name} {seen.sentence()}{ended_by}", start, f"waits for {topic}")
    if marker.open_losses:
        first = "; ".join(loss.sentence() for loss in marker.open_losses[:MOST_LOSSES_NAMED])
        beyond = len(marker.open_losses) - MOST_LOSSES_NAMED
        more = f"; and {beyond:,} more" if beyond > 0 else ""
        return Verdict(
            "error",
            f"{name}: messages of {topic} are in no log: {first}{more}. These partitions are not landed",
            "each hour the broker may remove more: find who else has them; then, to go on behind them, "
            f"photon acknowledge {pipeline.typed} {name} (under Dagster the job "
            f"{dagster_name(pipeline.name, 'acknowledgement')})",
            f"has lost messages of {topic}",
            counts_exactly=True,
        )
    silent_us = now_us - marker.said_us
    if (level := level_after(silent_us, pipeline.health.lag)) != "ok":
        says = f"{name}: {topic} was not landed for {span(silent_us / MICROSECONDS)}{ended_by}"
        return Verdict(level, says, start, f"does not land {topic}")
    if marker.problem:
        remedy = "as that says; it is tried again by itself"
        return passing("warn", f"{name}: {topic}: {marker.problem}", remedy, f"does not land {topic}")
    if hidden := sum(landed.hidden for landed in marker.partitions.values()):
        says = f"{name}: {topic}: an open transaction hides {hidden:,} offsets, and holds what is complete"
        remedy = "end it at its producer, or by kafka-transactions.sh (abort)"
        return passing("warn", says, remedy, f"waits for a transaction of {topic}")
    return None
