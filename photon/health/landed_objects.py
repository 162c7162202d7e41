"""The landing of objects: how many wait, which can't be landed, and whether somebody has to do something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from photon.health.landed_source import SourceSeen
from photon.health.verdict import Verdict, level_after, passing
from photon.landing.objects.marker import ObjectsMarker
from photon.pipeline.file import Pipeline, dagster_name
from photon.process.clock import MICROSECONDS
from photon.process.pace import size, span
from photon.process.readable import counted

MOST_FAILED_NAMED = 3
BELIEVED_US = 60 * MICROSECONDS  # a source is looked at more often, or its listing takes minutes


@dataclass(frozen=True)
class ObjectsSeen(SourceSeen):
    """A folder of landed objects at one moment. `marker` None: there is none, or `problem` says why."""

    objects: str
    into: str
    marker: ObjectsMarker | None = None
    problem: str = ""
    current_files: frozenset[str] = frozenset()  # each file is written once

    @property
    def source(self) -> str:
        return f"objects {self.objects}"

    @property
    def lag(self) -> int | None:
        return None if self.marker is None else self.marker.waiting

    @property
    def lag_by_part(self) -> Mapping[str, int]:
        """The same: objects have no partitions."""
        return {} if self.lag is None else {"all": self.lag}

    @property
    def behind_us(self) -> int | None:
        if self.marker is None or self.marker.at_end is None:
            return None
        is_well = not self.marker.waiting and (self.silent_us or 0) <= BELIEVED_US
        return 0 if is_well else max(0, self.looked_us - self.marker.at_end.as_of_us)

    @property
    def silent_us(self) -> int | None:
        """For how long nobody has looked at them; None: nobody ever has."""
        return None if self.marker is None else max(0, self.looked_us - self.marker.said_us)

    @property
    def losses(self) -> int:
        return 0 if self.marker is None else self.marker.failed_count

    def sentence(self) -> str:
        """How far the objects are landed, for people."""
        if self.marker is None:
            return f"waits for {self.source}: {self.problem or 'nobody has landed them yet'}"
        said = self.marker
        failed = f", {counted(said.failed_count, 'object')} can't be landed" if said.failed_count else ""
        waits = (
            f"{counted(said.waiting, 'object')} ({size(said.waiting_bytes)}) wait"
            if said.waiting
            else "none waits"
        )
        return f"lands {self.source}: {counted(said.landed, 'object')} landed, {waits}{failed}"


def judge_objects(name: str, seen: ObjectsSeen, now_us: int, pipeline: Pipeline) -> Verdict | None:
    """The verdict on objects that are not landed; None: all is well."""
    start, source, marker = seen.start(pipeline, name), seen.source, seen.marker
    ended_by = f"; its last shift ended: {seen.shift.ended_by}" if seen.shift.ended_by else ""
    if marker is None:
        return passing("warn", f"{name} {seen.sentence()}{ended_by}", start, f"waits for {source}")
    if marker.failed_count:
        first = "; ".join(one.sentence() for one in marker.failed[:MOST_FAILED_NAMED])
        beyond = marker.failed_count - MOST_FAILED_NAMED
        more = f"; and {beyond:,} more" if beyond > 0 else ""
        return Verdict(
            "error",
            f"{name}: {source}: in no log: {first}{more}. Nothing is complete beside them",
            "have them written again, under the same key; or, to go on without them, "
            f"photon acknowledge {pipeline.typed} {name} (under Dagster the job "
            f"{dagster_name(pipeline.name, 'acknowledgement')})",
            f"can't land all {source}",
            counts_exactly=True,
        )
    silent_us = now_us - marker.said_us
    if (level := level_after(silent_us, pipeline.health.lag)) != "ok":
        says = f"{name}: {source} were not looked at for {span(silent_us / MICROSECONDS)}{ended_by}"
        return Verdict(level, says, start, f"does not land {source}")
    if marker.problem:
        remedy = "as that says; it is tried again by itself"
        return passing("warn", f"{name}: {source}: {marker.problem}", remedy, f"does not land {source}")
    return None
