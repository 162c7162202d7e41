"""The landing of objects at one moment: how many wait, and which can't be landed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from photon.health.landed_source import SourceSeen, some_named
from photon.health.verdict import Verdict
from photon.landing.objects.marker import ObjectsMarker
from photon.process.clock import MICROSECONDS
from photon.process.pace import size
from photon.process.readable import counted

BELIEVED_US = 60 * MICROSECONDS  # a source is looked at more often, or its listing takes minutes


@dataclass(frozen=True)
class ObjectsSeen(SourceSeen[ObjectsMarker]):
    """A folder of landed objects at one moment."""

    silence: ClassVar[str] = "were not looked at"
    pronoun: ClassVar[str] = "them"
    current_files: ClassVar[frozenset[str]] = frozenset()  # each file is written once

    @property
    def source(self) -> str:
        return f"objects {self.name}"

    def _silent_from_us(self, marker: ObjectsMarker) -> int:
        return max(marker.said_us, marker.due_us)

    @property
    def lag(self) -> int | None:
        return None if self.marker is None else self.marker.waiting

    @property
    def lag_by_part(self) -> Mapping[str, int]:
        return {} if self.lag is None else {"all": self.lag}

    @property
    def behind_us(self) -> int | None:
        if self.marker is None or self.marker.at_end is None:
            return None
        is_well = not self.marker.waiting and (self.silent_us or 0) <= BELIEVED_US
        return 0 if is_well else max(0, self.looked_us - self.marker.at_end.as_of_us)

    @property
    def losses(self) -> int:
        return 0 if self.marker is None else self.marker.failed_count

    def _progress(self, said: ObjectsMarker) -> str:
        failed = f", {counted(said.failed_count, 'object')} can't be landed" if said.failed_count else ""
        waits = (
            f"{counted(said.waiting, 'object')} ({size(said.waiting_bytes)}) wait"
            if said.waiting
            else "none waits"
        )
        return f"lands {self.source}: {counted(said.landed, 'object')} landed, {waits}{failed}"

    def lost(self, datacenter: str, acknowledge: str) -> Verdict | None:
        """The verdict on objects that can't be landed."""
        if self.marker is None or not self.marker.failed_count:
            return None
        first = some_named((one.sentence() for one in self.marker.failed), self.marker.failed_count)
        return Verdict(
            "error",
            f"{datacenter}: {self.source}: in no log: {first}. Nothing is complete beside them",
            f"have them written again, under the same key; or, to go on without them, {acknowledge}",
            f"can't land all {self.source}",
            counts_exactly=True,
        )
