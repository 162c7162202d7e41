"""The landing of a datacenter's logs: how far each topic is, and whether somebody has to do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from photon.dispatcher.landed_logs import BELIEVED_US
from photon.dispatcher.shift.lease import lease_status_of
from photon.health.landed_objects import ObjectsSeen
from photon.health.landed_source import SourceSeen, some_named
from photon.health.verdict import Verdict, passing
from photon.landing.marker import Landed, Marker, landing_lease, read_marker, read_or_why, why_waiting
from photon.landing.objects.marker import read_marker as read_objects_marker
from photon.pipeline.file import Pipeline
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS
from photon.process.pace import span
from photon.process.readable import counted

MOST_BEHIND_NAMED = 3  # partitions in one sentence: a topic may have hundreds
MOST_PARTS = 64  # that have a number of their own; what those behind them lack is added up
OTHER_PARTS = "others"


@dataclass(frozen=True)
class LandingSeen(SourceSeen[Marker]):
    """A landed topic's folder at one moment."""

    silence: ClassVar[str] = "was not landed"
    pronoun: ClassVar[str] = "it"

    @property
    def source(self) -> str:
        """The name of the source, for people."""
        return f"topic {self.name}"

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

    def _progress(self, marker: Marker) -> str:
        count, lag, behind_us = counted(len(self._partitions), "partition"), self.lag, self.behind_us
        said = ["nobody knows how many messages wait" if lag is None else f"{lag:,} offsets wait"]
        said[0] += f", {span(behind_us / MICROSECONDS)} behind" if behind_us else ""
        if lag and len(self._partitions) > 1:
            said.append(f"most in {self._most_behind()}")
        if unknown := sum(one.lag is None for one in self._partitions.values()):
            said.append(f"the end of {counted(unknown, 'partition')} is not known")
        if self.losses:
            said.append(f"{counted(self.losses, 'partition', 'stand')} still until the loss is acknowledged")
        return f"lands {self.source} ({count}): {'; '.join([*said, *filter(None, [marker.problem])])}"

    def lost(self, datacenter: str, acknowledge: str) -> Verdict | None:
        """The verdict on messages that are in no log; each loss has a partition stand still."""
        if self.marker is None or not self.marker.open_losses:
            return None
        losses = self.marker.open_losses
        first = some_named((loss.sentence() for loss in losses), len(losses))
        return Verdict(
            "error",
            f"{datacenter}: messages of {self.source} are in no log: {first}. "
            "These partitions are not landed",
            "each hour the broker may remove more: find who else has them; then, to go on behind them, "
            f"{acknowledge}",
            f"has lost messages of {self.source}",
            counts_exactly=True,
        )

    def waits(self, datacenter: str) -> Verdict | None:
        """The verdict on transactions that are open."""
        if not (hidden := sum(landed.hidden for landed in self._partitions.values())):
            return None
        says = f"{self.source}: an open transaction hides {hidden:,} offsets, and holds what is complete"
        remedy = "end it at its producer, or by kafka-transactions.sh (abort)"
        in_short = f"waits for a transaction of {self.source}"
        return passing("warn", f"{datacenter}: {says}", remedy, in_short)

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
            objects, problem = read_or_why(read_objects_marker, folder)
            seen: LandingSeen | ObjectsSeen = ObjectsSeen(one.objects or "", one.into, objects, problem)
        else:
            marker, problem = read_or_why(read_marker, folder)
            seen = LandingSeen(one.kafka.topic, one.into, marker, problem)
        found.append(replace(seen, looked_us=now_us, shift=shift, not_begun=why_waiting(folder, now_us)))
    return tuple(found)
