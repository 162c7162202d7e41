"""A watcher remembers since when something lasts, from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from photon.dispatcher.shift.growth import LIVE_BYTES
from photon.health.activity import Activity, activity_of
from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline


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
        activity = activity_of(found.facts)
        behind = found.unread_bytes > LIVE_BYTES
        return Memory(
            self._still_since_us(activity, found),
            (self.behind_since_us or found.now_us) if behind else None,
            self.is_patient,
        )

    def _still_since_us(self, activity: Activity, found: Vitals) -> int | None:
        """Return since when nobody is at work: a silent process says so itself, by its last sign of life."""
        if activity in ("silent", "fenced") and found.facts.is_silent:
            return found.lease.beat_us or self.still_since_us or found.now_us
        is_nobody_there = activity in ("not running", "new") and found.has_work
        return (self.still_since_us or found.now_us) if is_nobody_there else None

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Memory:
        """What `asdict` gave."""
        return cls(stored["still_since_us"], stored["behind_since_us"])
