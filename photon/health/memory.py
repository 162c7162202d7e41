"""What a watcher remembers from one look to the next: since when something lasts, and earlier counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from photon.clock import microseconds
from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline
from photon.shift.standing import LIVE_BYTES


@dataclass(frozen=True)
class Mark:
    """The counts of an epoch at one moment, by name."""

    at_us: int
    epoch: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Memory:
    """Of one datacenter. Shares are of what came since `before`: one or two windows."""

    still_since_us: int | None = None  # there is work, and nobody at it
    behind_since_us: int | None = None  # more is unread than a live datacenter ever leaves
    before: Mark | None = None
    latest: Mark | None = None

    def after(self, found: Vitals, pipeline: Pipeline) -> Memory:
        """What is remembered after another look: the same, where it could not read the state."""
        if found.growth.state_unreadable:
            return self
        still = found.is_still(pipeline.shift.lease_duration.total_seconds())
        behind = found.unread_bytes > LIVE_BYTES
        before, latest = self._marks(found, microseconds(pipeline.health.window))
        return Memory(
            (self.still_since_us or found.now_us) if still else None,
            (self.behind_since_us or found.now_us) if behind else None,
            before,
            latest,
        )

    def _marks(self, found: Vitals, window_us: int) -> tuple[Mark | None, Mark | None]:
        state = found.growth.state
        if state.epoch is None:
            return None, None
        mark = Mark(found.now_us, state.epoch, state.counts.as_dict())
        if self.before is None or self.latest is None or self.latest.epoch != state.epoch:
            return mark, mark
        if found.now_us - self.latest.at_us < window_us:
            return self.before, self.latest
        return self.latest, mark

    def since(self, found: Vitals) -> dict[str, int]:
        """How much each count has grown since `before`; of all, where nothing is remembered."""
        now = found.growth.state.counts.as_dict()
        before = self.before.counts if self.before is not None else {}
        return {name: count - before.get(name, 0) for name, count in now.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Memory:
        """What `asdict` gave."""
        marks = [Mark(**mark) if mark else None for mark in (stored["before"], stored["latest"])]
        return cls(stored["still_since_us"], stored["behind_since_us"], *marks)
