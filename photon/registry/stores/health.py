"""The health of a registry's endpoints: which answer, which are slow, and what is logged of it.

An endpoint that did not answer gets nothing but probes until it answers one: else every batch would wait for
its time-out. A slow endpoint is much later than a majority, again and again: no request waits for it, else
every fast round would be as slow. All this decides nothing but how long requests take: an endpoint that is
not asked, or not waited for, counts as one that did not answer.
"""

from __future__ import annotations

import logging
import statistics
import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from photon.process.clock import MICROSECONDS, Clock
from photon.process.measures import Meter
from photon.registry.stores.copies import NoReply, NoReplyKind
from photon.registry.stores.decisions import majority

PAUSE_US = MICROSECONDS  # a probe a second costs nothing, and an endpoint that is back is soon asked again
SAID_AFTER_SECONDS = 5.0  # a shorter silence is a hiccup, as of a busy server: no person need act
# Credentials that may read but not write pass each probe and are denied again: that is no news every second,
# and no answer to a read tells that they may write by now.
REMIND_SECONDS = 3600.0
# An endpoint is slow if it takes over three times as long as a majority. An offer that waits for it takes its
# time and once a majority's; an offer without it takes four times a majority's.
LATE_TIMES = 3.0
# A slow one also takes longer by this: endpoints may be 300 ms apart, and each offer without one costs all
# others one more write.
LATE_SECONDS = 0.4
LOOKED_AT = 5  # the latest requests that went to all; their median counts, since one is slow by chance
LEAST_LOOKED_AT = 3  # after fewer a new connection would look slow
FAILURES: tuple[NoReplyKind, ...] = ("unclear", "throttled", "unreachable", "denied")

# `missed`, `goes_on`: a hiccup begins and ends. `is_silent`: it lasts longer than SAID_AFTER_SECONDS.
# `fails`: for so long every answer was an error. `is_back`: what was told of an endpoint is over.
News = Literal["missed", "goes_on", "is_silent", "fails", "denies", "is_back"]
# How each is logged: a hiccup as information, what lasts as a warning.
_TOLD: Mapping[News, tuple[int, str]] = {
    "missed": (logging.INFO, "missed a request: {}"),
    "goes_on": (logging.INFO, "goes on"),
    "is_silent": (logging.WARNING, "does not answer: {}"),
    "fails": (logging.WARNING, "answers with errors: {}"),
    "denies": (logging.WARNING, "does not let us in: {}"),
    "is_back": (logging.WARNING, "answers again"),
}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Endpoint:
    """All that is known of one endpoint. `probe_at_us`: when it is probed next; None: it answers."""

    probe_at_us: int | None = None
    silent_since_us: int = 0
    failing_since_us: int | None = None  # when it began to answer with errors only
    denied_said_us: int | None = None
    denies_writes: bool = False  # it denied one, and has answered none since
    said: News | None = None  # the latest news since it last answered
    took_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKED_AT))
    usual_seconds: float = 0.0  # the median of `took_seconds`; 0: it has none yet

    def leave_alone(self, now_us: int, since_us: int) -> None:
        """Send this endpoint only probes from now on."""
        if self.probe_at_us is None:
            self.probe_at_us, self.silent_since_us = now_us + PAUSE_US, since_us

    def say_once(self, news: News) -> News | None:
        """Note the news and return it; None: something that lasts was told already."""
        if self.said in ("is_silent", "fails", "denies"):
            return None
        self.said = news
        return news


class EndpointsHealth:
    """The health of n endpoints. Thread-safe."""

    def __init__(self, n: int, clock: Clock) -> None:
        self.meter = Meter()  # measures requests
        self.slow: frozenset[int] = frozenset()
        self._clock = clock
        self._lock = threading.Lock()
        self._endpoints = [_Endpoint() for _ in range(n)]
        self._majority = majority(n)

    def lets_pass(self, slot: int) -> bool:
        """Whether to send a request to an endpoint. All are asked while no majority answers."""
        with self._lock:
            answering = sum(one.probe_at_us is None for one in self._endpoints)
            return self._endpoints[slot].probe_at_us is None or answering < self._majority

    def prompt_among(self, slots: Collection[int]) -> frozenset[int]:
        """The slots that will answer in time, as they are neither silent nor slow."""
        return frozenset(slot for slot in slots if self.lets_pass(slot)) - self.slow

    def slow_among(self, slots: Collection[int]) -> frozenset[int]:
        """The slow slots, for which no request need wait; none if the prompt ones are no majority."""
        is_enough = len(self.prompt_among(slots)) >= self._majority
        return self.slow.intersection(slots) if is_enough else frozenset()

    def nearest_among(self, slots: Collection[int]) -> int:
        """The slot that has been quickest, of the prompt ones if there are any."""
        among = self.prompt_among(slots) or slots
        return min(among, key=lambda slot: (self._endpoints[slot].usual_seconds, slot))

    def take_probe(self, slot: int) -> bool:
        """Whether to probe an endpoint now: one that is left alone, once in `PAUSE_US`."""
        now_us = self._clock.elapsed_us()
        with self._lock:
            one = self._endpoints[slot]
            if one.probe_at_us is None or now_us < one.probe_at_us:
                return False
            one.probe_at_us = now_us + PAUSE_US
            return True

    def heard(self, slot: int, reply: object, is_write: bool = False) -> None:
        """Note the reply to one request, and log what is new about the endpoint."""
        news = self.news_of(slot, reply, is_write)
        if news is not None:
            level, words = _TOLD[news]
            reason = reply.reason if isinstance(reply, NoReply) else ""
            log.log(level, "endpoint %d of the registry %s", slot + 1, words.format(reason))

    def news_of(self, slot: int, reply: object, is_write: bool = False) -> News | None:
        """Note the reply to one request, and return what is new about the endpoint, if anything."""
        kind = reply.kind if isinstance(reply, NoReply) else None
        if kind == "not_asked":
            return None
        with self._lock:
            one, now_us = self._endpoints[slot], self._clock.elapsed_us()
            if kind == "unclear":
                return self._failed(one, now_us)
            one.failing_since_us = None
            if kind == "denied":
                one.denies_writes |= is_write
                return self._denied(one, now_us)
            if kind == "unreachable":
                return self._silent(one, now_us)
            one.probe_at_us = None
            if is_write and kind is None:
                one.denies_writes, one.denied_said_us = False, None
            if one.denies_writes:
                return None
            said, one.said = one.said, None
            return None if said is None else "goes_on" if said == "missed" else "is_back"

    def _silent(self, one: _Endpoint, now_us: int) -> News | None:
        if one.probe_at_us is None:
            one.leave_alone(now_us, now_us)
            one.said, one.denied_said_us = "missed", None  # a denial is news again
            return "missed"
        lasts = now_us - one.silent_since_us >= SAID_AFTER_SECONDS * MICROSECONDS
        return one.say_once("is_silent") if lasts else None

    def _failed(self, one: _Endpoint, now_us: int) -> News | None:
        """Note an error. An endpoint that gives these alone for long is left alone, as if it were silent."""
        if one.failing_since_us is None:
            one.failing_since_us = now_us
        if now_us - one.failing_since_us < SAID_AFTER_SECONDS * MICROSECONDS:
            return None
        one.leave_alone(now_us, one.failing_since_us)
        return one.say_once("fails")

    def _denied(self, one: _Endpoint, now_us: int) -> News | None:
        one.leave_alone(now_us, now_us)
        said_us = one.denied_said_us
        if said_us is not None and now_us - said_us < REMIND_SECONDS * MICROSECONDS:
            return None
        one.denied_said_us, one.said = now_us, "denies"
        return "denies"

    def took(self, slot: int, seconds: float) -> None:
        """Note how long an endpoint took to answer a request that went to all."""
        with self._lock:
            one, before = self._endpoints[slot], self.slow
            one.took_seconds.append(seconds)
            one.usual_seconds = statistics.median_low(one.took_seconds)
            known = {
                at: each.usual_seconds
                for at, each in enumerate(self._endpoints)
                if len(each.took_seconds) >= LEAST_LOOKED_AT
            }
            self.slow = after = slow_of(known, self._majority)
        for at in sorted(before ^ after):  # others too, for an endpoint is slow beside the others
            log.info("endpoint %d of the registry is %s", at + 1, "slow" if at in after else "quick again")

    def measure(self, slot: int, reply: object, seconds: float) -> None:
        """Measure one request, and count why it got no answer, if so."""
        endpoint, kind = str(slot + 1), reply.kind if isinstance(reply, NoReply) else None
        if kind != "not_asked":
            self.meter.time("registry_request_seconds", endpoint, seconds=seconds)
            for failure in FAILURES:  # also by 0, so that a rate shows the first failure of each kind
                self.meter.count("registry_failed_requests", endpoint, failure, by=int(failure == kind))

    def forget(self, slot: int) -> None:
        """Treat the endpoint as a good one: another store has taken its place."""
        with self._lock:
            self._endpoints[slot] = _Endpoint()
            self.slow -= {slot}


def slow_of(usual: Mapping[int, float], quorum: int) -> frozenset[int]:
    """The slots of endpoints that take much longer than a majority. `usual`: seconds by slot."""
    if len(usual) < quorum:
        return frozenset()
    of_majority = sorted(usual.values())[quorum - 1]
    longest = max(LATE_TIMES * of_majority, of_majority + LATE_SECONDS)
    return frozenset(slot for slot, seconds in usual.items() if seconds > longest)
