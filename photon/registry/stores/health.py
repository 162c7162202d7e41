"""The health of a registry's endpoints: which answer, which are slow, and what people hear of it."""

from __future__ import annotations

import logging
from collections.abc import Collection

from photon.process.clock import Clock
from photon.process.measures import Meter
from photon.registry.stores.breaker import Breaker
from photon.registry.stores.copies import NoReply, NoReplyKind
from photon.registry.stores.decisions import majority
from photon.registry.stores.tempo import Tempo

FAILURES: tuple[NoReplyKind, ...] = ("unclear", "throttled", "unreachable", "denied")

log = logging.getLogger(__name__)


class Health:
    """The health of n endpoints. Thread-safe."""

    def __init__(self, n: int, clock: Clock) -> None:
        self.meter = Meter()  # of requests
        self._tempo = Tempo(n)
        self._breaker = Breaker(n, clock)
        self._n = n

    def lets_pass(self, slot: int) -> bool:
        """Whether to send a request to an endpoint."""
        return self._breaker.lets_pass(slot)

    def prompt_among(self, slots: Collection[int]) -> frozenset[int]:
        """Those that will answer in time: that are neither silent nor slow."""
        return frozenset(slot for slot in slots if self.lets_pass(slot)) - self._tempo.slow

    def slow_among(self, slots: Collection[int]) -> frozenset[int]:
        """Those that are slow and that nobody need wait for; none, if the others are no majority."""
        is_enough = len(self.prompt_among(slots)) >= majority(self._n)
        return self._tempo.slow.intersection(slots) if is_enough else frozenset()

    def nearest_among(self, slots: Collection[int]) -> int:
        """The one that has been quickest."""
        return min(
            self.prompt_among(slots) or slots, key=lambda slot: (self._tempo.usual_seconds(slot), slot)
        )

    def probes_due(self, slots: Collection[int]) -> list[int]:
        """Those that did not answer, and that somebody should ask now whether they do again."""
        return [slot for slot in slots if self._breaker.take_probe(slot)]

    def heard(self, slot: int, reply: object) -> None:
        """Take note of the reply to one request, and say what is new about the endpoint.

        What lasts is a warning; a hiccup is for the log alone.
        """
        news, endpoint = self._breaker.saw(slot, reply), f"endpoint {slot + 1} of the registry"
        reason = reply.reason if isinstance(reply, NoReply) else ""
        match news:
            case "missed":
                log.info("%s missed a request: %s", endpoint, reason)
            case "goes_on":
                log.info("%s goes on", endpoint)
            case "is_silent":
                log.warning("%s does not answer: %s", endpoint, reason)
            case "fails":
                log.warning("%s answers with errors: %s", endpoint, reason)
            case "denies":
                log.warning("%s does not let us in: %s", endpoint, reason)
            case "is_back":
                log.warning("%s answers again", endpoint)

    def took(self, slot: int, seconds: float) -> None:
        """Take note of how long it took with what all were asked."""
        before = self._tempo.slow
        self._tempo.took(slot, seconds)
        after = self._tempo.slow
        for one in sorted(before ^ after):  # another one too: slow is who is later than the others
            log.info("endpoint %d of the registry is %s", one + 1, "slow" if one in after else "quick again")

    def measure(self, slot: int, reply: object, seconds: float) -> None:
        """Count one request, and what kept it from an answer."""
        endpoint, kind = str(slot + 1), reply.kind if isinstance(reply, NoReply) else None
        if kind != "not_asked":
            self.meter.time("registry_request_seconds", endpoint, seconds=seconds)
            for one in FAILURES:  # by 0 too, so that a rate shows the first one
                self.meter.count("registry_failed_requests", endpoint, one, by=int(one == kind))

    def forget(self, slot: int) -> None:
        """Treat the endpoint as a good one: another store has taken its place."""
        self._tempo.forget(slot)
        self._breaker.forget(slot)
