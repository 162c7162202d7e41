"""The registry, as the page sees it: people's decisions, and whether its endpoints answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from photon.dispatcher.shift.people import Decisions, beside_states, decisions_seen
from photon.health.memory import Memory
from photon.health.registry import ENDPOINTS, look_at_endpoints
from photon.health.verdict import Verdict
from photon.page.asking import Shared
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.in_time import NotInTime

DECISIONS_EVERY_SECONDS, ENDPOINTS_EVERY_SECONDS = 2.0, 10.0
# The page shows what was known before if an answer takes longer; before the first one it waits.
ANSWER_SECONDS, FIRST_SECONDS = 1.0, 5.0
_UNKNOWN = Decisions(unknown_because="the registry has not answered yet")


class RegistrySeen:
    """Asks the registry for all viewers, and keeps what it said last."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline = pipeline
        self._decisions = _UNKNOWN
        self._verdicts: Mapping[str, Verdict] = {}
        self._memory, self._clock = Memory(is_patient=False), clock
        self._asks_decisions = Shared("the registry", self._read_decisions, DECISIONS_EVERY_SECONDS, clock)
        self._asks_endpoints = Shared("the registry", self._read_endpoints, ENDPOINTS_EVERY_SECONDS, clock)

    async def decisions(self) -> Decisions:
        """People's decisions; those known last while the registry can't be asked."""
        with suppress(NotInTime):
            seconds = FIRST_SECONDS if self._decisions is _UNKNOWN else ANSWER_SECONDS
            self._decisions = await self._asks_decisions.answer(seconds)
        return self._decisions

    async def verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts on its promises, as they were known last."""
        if (why := self._decisions.refused_because) != "":
            return {ENDPOINTS: Verdict("error", why)}
        with suppress(NotInTime):
            self._verdicts = await self._asks_endpoints.answer(ANSWER_SECONDS)
        return self._verdicts

    def _read_decisions(self) -> Decisions:
        return beside_states(self._pipeline, decisions_seen(self._pipeline))

    def _read_endpoints(self) -> Mapping[str, Verdict]:
        found = {ENDPOINTS: (look_at_endpoints(self._pipeline),)}
        now_us = self._clock.now_us()
        self._memory = self._memory.fresh(now_us).having_found(found, now_us)
        return {promise: one for promise, (one,) in self._memory.telling(found, now_us).items()}
