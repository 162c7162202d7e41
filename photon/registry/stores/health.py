"""The health of a registry's endpoints: which answer, which are slow, and what people hear of it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from photon.clock import Clock
from photon.measures import Meter
from photon.registry.stores.breaker import Breaker, is_silence
from photon.registry.stores.channel import Heard, Send
from photon.registry.stores.copies import NoReply, NoReplyKind, Store
from photon.registry.stores.decisions import majority
from photon.registry.stores.tempo import Tempo

FAILURES: tuple[NoReplyKind, ...] = ("unclear", "throttled", "unreachable", "denied")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """A request that one store is sent. Those of one `group` are the same request, to several."""

    slot: int
    store: Store
    group: int


class Health:
    """The health of n endpoints. Thread-safe."""

    def __init__(self, n: int, clock: Clock) -> None:
        self.meter = Meter()  # of requests
        self.tempo = Tempo(n)
        self._breaker = Breaker(n, clock)
        self._n = n

    def lets_pass(self, slot: int) -> bool:
        """Whether to send a request to an endpoint."""
        return self._breaker.lets_pass(slot)

    def prompt_among(self, slots: Collection[int]) -> frozenset[int]:
        """Those that will answer in time: that are neither silent nor slow."""
        return frozenset(slot for slot in slots if self.lets_pass(slot)) - self.tempo.slow

    def slow_among(self, slots: Collection[int]) -> frozenset[int]:
        """Those that are slow and that nobody need wait for; none, if the others are no majority."""
        slow = self.tempo.slow.intersection(slots)
        return slow if len(self.prompt_among(slots)) >= majority(self._n) else frozenset()

    def probes_due(self, slots: Collection[int]) -> list[int]:
        """Those that did not answer, and that somebody should ask now whether they do again."""
        return [slot for slot in slots if self._breaker.take_probe(slot)]

    def heard(self, slot: int, answers: Sequence[Any]) -> None:
        """Take note of the answers to one request, and say what is new about the endpoint.

        What lasts is a warning; a hiccup is for the log alone.
        """
        match self._breaker.saw(slot, answers):
            case "missed":
                log.info("endpoint %d of the registry missed a request: %s", slot + 1, answers[0].reason)
            case "goes_on":
                log.info("endpoint %d of the registry goes on", slot + 1)
            case "is_silent":
                log.warning("endpoint %d of the registry does not answer: %s", slot + 1, answers[0].reason)
            case "fails":
                log.warning(
                    "endpoint %d of the registry answers with errors: %s", slot + 1, answers[0].reason
                )
            case "denies":
                reason = next(answer.reason for answer in answers if answer.kind == "denied")
                log.warning("endpoint %d of the registry does not let us in: %s", slot + 1, reason)
            case "is_back":
                log.warning("endpoint %d of the registry answers again", slot + 1)

    def took(self, slot: int, seconds: float, others: Sequence[float]) -> None:
        """Take note of how long an answer took; `others`: of other endpoints, as far as they were faster."""
        if self.tempo.saw(slot, seconds, others):
            is_slow = slot in self.tempo.slow
            log.info("endpoint %d of the registry is %s", slot + 1, "slow" if is_slow else "quick again")

    def measure(self, slot: int, answers: Sequence[Any], seconds: float) -> None:
        """Count one request and what kept it from an answer, in whole or in part."""
        endpoint = str(slot + 1)
        kinds = {one.kind for one in answers if isinstance(one, NoReply)}
        if "not_asked" not in kinds:
            self.meter.time("registry_request_seconds", endpoint, seconds=seconds)
            for kind in FAILURES:  # by 0 too, so that a rate shows the first one
                self.meter.count("registry_failed_requests", endpoint, kind, by=int(kind in kinds))

    def forget(self, slot: int) -> None:
        """Treat the endpoint as a good one: another store has taken its place."""
        self.tempo.forget(slot)
        self._breaker.forget(slot)


class Hearing:
    """The requests of one kind that go out together: what comes of them is noted, whoever waits for it.

    `is_current`: whether a part's store is still in its slot. Thread-safe.
    """

    def __init__(self, health: Health | None, is_current: Callable[[Part], bool]) -> None:
        self._health = health
        self._is_current = is_current
        self._silent: set[int] = set()  # slots that did not answer one of these requests
        self._times: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)  # by group: slot, seconds

    def sender(self, send: Send[Any, Any], parts: Sequence[Part]) -> Send[Any, Any]:
        """`send`, unless the endpoint has fallen silent by then.

        Decided when it is to be sent: what waited in line behind a time-out need not meet it too.
        """
        slots = {id(part.store): part.slot for part in parts}

        def send_unless_silent(store: Store, batch: Sequence[Any]) -> Sequence[Any]:
            slot = slots[id(store)]
            if slot in self._silent or not (self._health is None or self._health.lets_pass(slot)):
                spared = f"endpoint {slot + 1} did not answer lately; it is being probed"
                return [NoReply(spared, "not_asked")] * len(batch)
            return send(store, batch)

        return send_unless_silent

    def told_of(
        self, sent: Sequence[tuple[Part, Sequence[Any]]]
    ) -> tuple[list[tuple[Store, Sequence[Any]]], Heard[Any]]:
        """What a channel sends for these parts, and what it is to tell their answers."""

        def heard(number: int, answers: Sequence[Any], seconds: float) -> None:
            part, _ = sent[number]
            if is_silence(answers):
                self._silent.add(part.slot)
            if self._health is None or not self._is_current(part):
                return
            self._health.heard(part.slot, answers)
            self._health.measure(part.slot, answers, seconds)
            if not all(isinstance(reply, NoReply) for reply in answers):
                times = self._times[part.group]
                others = [other_seconds for slot, other_seconds in times if slot != part.slot]
                times.append((part.slot, seconds))
                self._health.took(part.slot, seconds, others)

        return [(part.store, batch) for part, batch in sent], heard
