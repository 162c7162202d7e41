"""A source that a datacenter lands, at one moment: how far it is, and the verdict on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from photon.dispatcher.shift.lease import LeaseStatus
from photon.health.verdict import Verdict, level_after, passing
from photon.landing.marker import Marker
from photon.landing.objects.marker import ObjectsMarker
from photon.pipeline.file import Pipeline, dagster_name
from photon.process.clock import MICROSECONDS
from photon.process.pace import span

MOST_LOSSES_NAMED = 3
AS_SAID = "as that says; it is tried again by itself"

M = TypeVar("M", Marker, ObjectsMarker)


@dataclass(frozen=True)
class SourceSeen(ABC, Generic[M]):
    """A landed folder at one moment. `marker` None: there is none, or `problem` says why it can't be read."""

    name: str  # the topic, or the pattern of objects, as the pipeline file has it
    into: str
    marker: M | None = None
    problem: str = ""
    looked_us: int = field(default=0, kw_only=True)
    not_begun: str = field(default="", kw_only=True)  # why the process that lands it can't begin
    # Dagster's shift that lands it, or did last
    shift: LeaseStatus = field(default_factory=LeaseStatus, kw_only=True)

    silence: ClassVar[str]  # says that nobody lands the source
    pronoun: ClassVar[str]  # of the source

    @property
    @abstractmethod
    def source(self) -> str:
        """Its kind and name, for people."""

    @property
    @abstractmethod
    def lag(self) -> int | None:
        """How much of it is not landed; None: nobody knows."""

    @property
    @abstractmethod
    def lag_by_part(self) -> Mapping[str, int]:
        """The same as `lag` by partition, where it is known, in a bounded number of them."""

    @property
    @abstractmethod
    def behind_us(self) -> int | None:
        """For how long at most something is not landed; None: nobody knows."""

    @property
    def silent_us(self) -> int | None:
        """For how long nobody has said how far it is; None: nobody ever has."""
        return None if self.marker is None else max(0, self.looked_us - self._silent_from_us(self.marker))

    def _silent_from_us(self, marker: M) -> int:
        """From when on something was to be said."""
        return marker.said_us

    @property
    @abstractmethod
    def losses(self) -> int:
        """How many losses nobody has acknowledged."""

    def sentence(self) -> str:
        """How far it is landed, for people."""
        if self.marker is None:
            why = self.problem or self.not_begun or f"nobody has landed {self.pronoun} yet"
            return f"waits for {self.source}: {why}"
        return self._progress(self.marker)

    @abstractmethod
    def _progress(self, marker: M) -> str:
        """What the marker says of it, for people."""

    @abstractmethod
    def lost(self, datacenter: str, acknowledge: str) -> Verdict | None:
        """The verdict on its losses. `acknowledge`: the command by which landing goes on without them."""

    def waits(self, datacenter: str) -> Verdict | None:
        """The verdict on what it waits for while it is landed; None: for nothing."""
        return None

    def as_dict(self) -> dict[str, Any]:
        """The same for status and the live page."""
        behind_us = self.behind_us
        return {
            "source": self.source,
            "lag": self.lag,
            "behind_seconds": None if behind_us is None else behind_us / MICROSECONDS,
            "losses": self.losses,
            "says": self.sentence(),
        }

    def start(self, pipeline: Pipeline, datacenter: str) -> str:
        """Say what to do so that somebody lands it."""
        if self.not_begun:
            return AS_SAID
        if self.shift.lease is not None and self.shift.lease.run:
            return f"let it run: Dagster's sensor of the landing of {datacenter} has to be on"
        return f"let it run: photon land {pipeline.typed} -d {datacenter}"


def judge_landing(name: str, seen: SourceSeen[Any], pipeline: Pipeline) -> Verdict | None:
    """The verdict on what is not landed, or is lost; None: it is well."""
    start, source, marker = seen.start(pipeline, name), seen.source, seen.marker
    ended_by = f"; its last shift ended: {seen.shift.ended_by}" if seen.shift.ended_by else ""
    if marker is None:
        return passing("warn", f"{name} {seen.sentence()}{ended_by}", start, f"waits for {source}")
    acknowledge = (
        f"photon acknowledge {pipeline.typed} {name} (under Dagster the job "
        f"{dagster_name(pipeline.name, 'acknowledgement')})"
    )
    if (lost := seen.lost(name, acknowledge)) is not None:
        return lost
    silent_us = seen.silent_us or 0
    if (level := level_after(silent_us, pipeline.health.lag)) != "ok":
        why = f": {seen.not_begun}" if seen.not_begun else ended_by
        says = f"{name}: {source} {seen.silence} for {span(silent_us / MICROSECONDS)}{why}"
        return Verdict(level, says, start, f"does not land {source}")
    if marker.problem:
        return passing("warn", f"{name}: {source}: {marker.problem}", AS_SAID, f"does not land {source}")
    return seen.waits(name)


def some_named(sentences: Iterable[str], count: int) -> str:
    """Some of these sentences, and how many more there are."""
    more = f"; and {count - MOST_LOSSES_NAMED:,} more" if count > MOST_LOSSES_NAMED else ""
    return "; ".join(islice(sentences, MOST_LOSSES_NAMED)) + more
