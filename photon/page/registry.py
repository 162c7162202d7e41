"""The registry, as the page sees it: people's decisions, and whether its endpoints answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from photon.dispatcher.shift.people import Decisions, beside_states, decisions_seen, silent_registry
from photon.errors import UserError
from photon.health.registry import ENDPOINTS, judge_registry, judge_unavailable
from photon.health.verdict import Verdict
from photon.page.asking import Shared
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.in_time import NotInTime
from photon.registry.errors import RegistryUnavailable
from photon.registry.opening import GRACE_SECONDS, close_registries
from photon.registry.servers.local_server import is_silent
from photon.upkeep.registry_state import registry_state

DECISIONS_EVERY_SECONDS = 2.0
# A silent server takes two seconds to be known, and its answer is to be told before the next question.
ENDPOINTS_EVERY_SECONDS, LOCAL_EVERY_SECONDS = 10.0, 4.0
LOOKS_TO_BE_SILENT = 2
# The page shows what was known before if an answer takes longer; before the first one it waits.
ANSWER_SECONDS, FIRST_SECONDS = 1.0, 5.0
_UNKNOWN = Decisions(unknown_because="the registry has not answered yet")


class RegistrySeen:
    """Asks the registry for all viewers, and keeps what it said last."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline = pipeline
        self._is_local = pipeline.registry.endpoints == "local"
        self._lock, self._users = threading.Lock(), 0
        self._decisions = _UNKNOWN
        self._verdicts: Mapping[str, Verdict] = {}
        self._asks_decisions = Shared("the registry", self._read_decisions, DECISIONS_EVERY_SECONDS, clock)
        self._silent_looks = 0  # in succession
        read, seconds = self._read_endpoints, ENDPOINTS_EVERY_SECONDS
        if self._is_local:
            read, seconds = self._read_local, LOCAL_EVERY_SECONDS
        self._asks_endpoints = Shared("the registry", read, seconds, clock)

    async def decisions(self) -> Decisions:
        """People's decisions; those known last while the registry can't be asked."""
        with suppress(NotInTime):
            seconds = FIRST_SECONDS if self._decisions is _UNKNOWN else ANSWER_SECONDS
            self._decisions = await self._asks_decisions.answer(seconds)
        return self._decisions

    async def verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts on its promises, as they were known last."""
        if self._is_local and (why := self._decisions.unknown_because) is not None:
            return {ENDPOINTS: Verdict("error", why)}
        with suppress(NotInTime):
            self._verdicts = await self._asks_endpoints.answer(ANSWER_SECONDS)
        return self._verdicts

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Ask the registry inside. A local one is left afterwards, so that it stops with the last join."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._is_local and not self._users:
                    close_registries()

    def _read_decisions(self) -> Decisions:
        with self.in_use():
            return beside_states(self._pipeline, decisions_seen(self._pipeline))

    def _read_local(self) -> Mapping[str, Verdict]:
        """Whether a server that is to run answers. One that is just stopping is silent for one look."""
        self._silent_looks = self._silent_looks + 1 if is_silent(self._pipeline.registry_folder) else 0
        if self._silent_looks >= LOOKS_TO_BE_SILENT:
            says = silent_registry(self._pipeline, "no answer to the page's last questions")
            return {ENDPOINTS: Verdict("error", says)}
        return {ENDPOINTS: Verdict("ok", "The local registry runs while somebody needs it")}

    def _read_endpoints(self) -> Mapping[str, Verdict]:
        try:
            state = registry_state(self._pipeline, GRACE_SECONDS, endpoints_only=True)
            return {ENDPOINTS: judge_registry(state, self._pipeline)[ENDPOINTS]}
        except RegistryUnavailable as error:
            return judge_unavailable(error)
        except (UserError, OSError) as error:
            return {ENDPOINTS: Verdict("error", str(error))}
