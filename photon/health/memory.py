"""A watcher remembers since when something lasts, from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline
from photon.shift.lease import LEASE_SECONDS
from photon.shift.standing import LIVE_BYTES


@dataclass(frozen=True)
class Memory:
    """The memory of one datacenter."""

    still_since_us: int | None = None  # there is work, and nobody at it
    behind_since_us: int | None = None  # more is unread than a live datacenter ever leaves
    is_patient: bool = True  # a run that is to come has its time; a person who asks is told what is so now

    @classmethod
    def of_one_look(cls, found: Vitals, pipeline: Pipeline) -> Memory:
        """The memory of a person who looks once: the last process says since when nobody works."""
        return cls(still_since_us=found.lease.beat_us or None, is_patient=False).after(found, pipeline)

    def after(self, found: Vitals, pipeline: Pipeline) -> Memory:
        """What is remembered after another look: the same, where it could not read the state."""
        if found.growth.state_unreadable:
            return self
        still = found.is_still(LEASE_SECONDS)
        behind = found.unread_bytes > LIVE_BYTES
        return Memory(
            (self.still_since_us or found.now_us) if still else None,
            (self.behind_since_us or found.now_us) if behind else None,
            self.is_patient,
        )

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Memory:
        """What `asdict` gave."""
        return cls(stored["still_since_us"], stored["behind_since_us"])
