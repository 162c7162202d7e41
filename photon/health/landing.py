"""The landing of a datacenter's logs: how far each topic is, and whether somebody has to do something."""

from __future__ import annotations

from dataclasses import dataclass

from photon.health.verdict import Verdict, level_after, passing
from photon.landing.marker import Marker, MarkerDamaged, read_marker
from photon.pipeline.file import Pipeline, dagster_name
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.process.pace import span
from photon.process.readable import counted

MOST_LOSSES_NAMED = 3


@dataclass(frozen=True)
class LandingSeen:
    """A landed folder at one moment. `marker` None: there is none, or `problem` says why it can't be read."""

    topic: str
    into: str
    marker: Marker | None = None
    problem: str = ""

    @property
    def lag(self) -> int | None:
        """Messages that are not landed; None: of some partition nobody knows."""
        if self.marker is None:
            return None
        lags = [landed.lag for landed in self.marker.partitions.values()]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    @property
    def current_files(self) -> frozenset[str]:
        """The files, below the logs folder, to which lines are still appended."""
        landed = () if self.marker is None else self.marker.partitions.values()
        return frozenset(f"{self.into}/{one.file}" for one in landed if one.file is not None)

    def sentence(self) -> str:
        """How far the topic is landed, for people."""
        if self.marker is None:
            return f"waits for topic {self.topic}: {self.problem or 'nobody has landed it yet'}"
        count, lag = counted(len(self.marker.partitions), "partition"), self.lag
        behind = "nobody knows how many messages wait" if lag is None else f"{lag:,} offsets wait"
        return f"lands topic {self.topic} ({count}): {behind}"


def look_at_landing(pipeline: Pipeline, datacenter: str) -> tuple[LandingSeen, ...]:
    """The topics that a datacenter lands."""
    place = pipeline.datacenters[datacenter]
    if isinstance(place.logs, S3Folder):
        return ()
    found = []
    for one in place.land:
        seen = LandingSeen(one.kafka.topic, one.into)
        try:
            seen = LandingSeen(one.kafka.topic, one.into, read_marker(place.logs / one.into))
        except (MarkerDamaged, FormatTooNew, OSError) as error:
            seen = LandingSeen(one.kafka.topic, one.into, problem=str(error))
        found.append(seen)
    return tuple(found)


def judge_landing(name: str, seen: LandingSeen, now_us: int, pipeline: Pipeline) -> Verdict | None:
    """The verdict on a topic that is not landed, or that has lost messages; None: it is well."""
    start = f"let it run: photon land {pipeline.typed} -d {name}"
    topic, marker = f"topic {seen.topic}", seen.marker
    if marker is None:
        return passing("warn", f"{name} {seen.sentence()}", start, f"waits for {topic}")
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
        says = f"{name}: {topic} was not landed for {span(silent_us / MICROSECONDS)}"
        return Verdict(level, says, start, f"does not land {topic}")
    if marker.problem:
        remedy = "as that says; it is tried again by itself"
        return passing("warn", f"{name}: {topic}: {marker.problem}", remedy, f"does not land {topic}")
    if hidden := sum(landed.hidden for landed in marker.partitions.values()):
        says = f"{name}: {topic}: an open transaction hides {hidden:,} offsets, and holds what is complete"
        remedy = "end it at its producer, or by kafka-transactions.sh (abort)"
        return passing("warn", says, remedy, f"waits for a transaction of {topic}")
    return None
