"""Judgements of datacenters for those whom Prometheus tells: checks, the newest verification, the budget.

Checks of some promises go by what earlier looks have seen, so this process is a watcher of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from photon.errors import UserError
from photon.health.levels import Level
from photon.health.memory import Memory
from photon.health.newest_verification import Verified
from photon.health.verdicts import judge
from photon.health.vitals import look
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.verification.availability.budget import Budget, budget_of
from photon.verification.availability.stored import stored_minutes

# Tables of the lake are read for it, which costs requests on S3. Prometheus asks every 15 s.
EVERY_SECONDS = 30


@dataclass(frozen=True)
class Judged:
    """One datacenter."""

    levels: Mapping[str, Level]  # level of each check; none where the datacenter can't be looked at
    verified: Verified | None = None  # the newest verification
    budget: Budget | None = None  # None: no minute was judged yet, or the lake can't be read


class Judging:
    """Judges datacenters now and then, and says in between what it found. Threads may share it."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline, self._clock = pipeline, clock
        self._lock = threading.Lock()
        self._memories: dict[str, Memory] = {}
        self._found: dict[str, Judged] = {}
        self._looked_us = 0

    def judged(self, datacenters: Collection[str]) -> Mapping[str, Judged]:
        """Each of these datacenters, as of some seconds ago."""
        with self._lock:
            now_us = self._clock.now_us()
            is_fresh = 0 <= now_us - self._looked_us < EVERY_SECONDS * MICROSECONDS  # a clock may be set back
            if not is_fresh or set(datacenters) - self._found.keys():
                self._found = {name: self._judge(name, now_us) for name in datacenters}
                self._looked_us = now_us
            return {name: self._found[name] for name in datacenters}

    def _judge(self, datacenter: str, now_us: int) -> Judged:
        try:
            vitals = look(self._pipeline, datacenter, now_us)
        except (UserError, OSError):  # the datacenter's other numbers, or their absence, tell of it
            return Judged({})
        memory = self._memories.get(datacenter, Memory()).after(vitals, self._pipeline)
        self._memories[datacenter] = memory
        verdicts = judge(datacenter, vitals, memory, self._pipeline)
        before = self._found.get(datacenter, Judged({})).levels  # a check that can't be judged keeps its own
        levels = {**before, **{name: verdict.level for name, verdict in verdicts.items()}}
        return Judged(levels, vitals.verified, self._budget(datacenter))

    def _budget(self, datacenter: str) -> Budget | None:
        """Read what is left of the budget; None too where the lake can't be read: a check tells of that."""
        try:
            return budget_of(stored_minutes(self._pipeline, datacenter), self._pipeline.availability)
        except (UserError, OSError):
            return None
