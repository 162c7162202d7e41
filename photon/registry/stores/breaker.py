"""Which endpoints are worth asking: one that did not answer is left alone until a probe gets an answer.

Without this, every batch would wait for the time-out of an endpoint that is known to be down. Only time
depends on it: an endpoint that is not asked counts as one that did not answer.
"""

from __future__ import annotations

import threading
from typing import Literal

from photon.process.clock import MICROSECONDS, Clock
from photon.registry.stores.copies import NoReply, NoReplyKind
from photon.registry.stores.decisions import majority

# `missed`, `goes_on`: a hiccup begins and ends. `is_silent`, `is_back`: it lasts, and it ends.
# `fails`: every answer is an error, and has been for as long as a silence is borne.
News = Literal["missed", "goes_on", "is_silent", "fails", "denies", "is_back"]

PAUSE_SECONDS = 1.0  # a probe a second costs nothing, and an endpoint that is back is soon asked again
SAID_AFTER_SECONDS = 5.0  # a shorter silence is a hiccup, as of a busy server, and nobody need do anything
# Who may read but not write is let pass after each probe and denied again: that is no news every second.
REMIND_SECONDS = 3600.0

_SILENCE = ("unreachable", "denied")


class Breaker:
    """The health of n endpoints. Thread-safe."""

    def __init__(self, n: int, clock: Clock) -> None:
        self._clock = clock
        self._pause_us = round(PAUSE_SECONDS * MICROSECONDS)
        self._lock = threading.Lock()
        self._probe_at_us: list[int | None] = [None] * n  # None: it answers
        self._silent_since_us = [0] * n  # of those that do not answer
        self._failing_since_us: list[int | None] = [None] * n  # of those that answer with errors only
        self._said: list[News | None] = [None] * n  # the latest, since it last answered
        self._denied_said_us: list[int | None] = [None] * n

    def lets_pass(self, slot: int) -> bool:
        """Whether to send a request to an endpoint. All are asked while no majority answers."""
        with self._lock:
            answering = sum(at_us is None for at_us in self._probe_at_us)
            return self._probe_at_us[slot] is None or answering < majority(len(self._probe_at_us))

    def saw(self, slot: int, reply: object) -> News | None:
        """Take note of the reply to one request: what is new about the endpoint, if anything."""
        kind = reply.kind if isinstance(reply, NoReply) else None
        if kind == "not_asked":
            return None
        with self._lock:
            if kind == "unclear":
                return self._failed(slot)
            self._failing_since_us[slot] = None
            return self._silent(slot, kind) if kind in _SILENCE else self._answered(slot)

    def _silent(self, slot: int, kind: NoReplyKind | None) -> News | None:
        elapsed_us, was_silent = self._clock.elapsed_us(), self._probe_at_us[slot] is not None
        if not was_silent:
            self._probe_at_us[slot] = elapsed_us + self._pause_us
            self._silent_since_us[slot] = elapsed_us
        if kind == "denied":
            return self._denied(slot, elapsed_us)
        if not was_silent:
            self._said[slot] = "missed"
            return "missed"
        lasts = elapsed_us - self._silent_since_us[slot] >= SAID_AFTER_SECONDS * MICROSECONDS
        if self._said[slot] in ("is_silent", "fails", "denies") or not lasts:
            return None
        self._said[slot] = "is_silent"
        return "is_silent"

    def _answered(self, slot: int) -> News | None:
        said, self._said[slot] = self._said[slot], None
        self._probe_at_us[slot] = None
        return None if said is None else "goes_on" if said == "missed" else "is_back"

    def _failed(self, slot: int) -> News | None:
        """It answered with an error. One that has for long is left alone, as if it were silent."""
        elapsed_us, since_us = self._clock.elapsed_us(), self._failing_since_us[slot]
        if since_us is None:
            self._failing_since_us[slot] = elapsed_us
            return None
        if elapsed_us - since_us < SAID_AFTER_SECONDS * MICROSECONDS:
            return None
        if self._probe_at_us[slot] is None:
            self._probe_at_us[slot], self._silent_since_us[slot] = elapsed_us + self._pause_us, since_us
        if self._said[slot] in ("is_silent", "fails", "denies"):
            return None
        self._said[slot] = "fails"
        return "fails"

    def _denied(self, slot: int, elapsed_us: int) -> News | None:
        said_us = self._denied_said_us[slot]
        if said_us is not None and elapsed_us - said_us < REMIND_SECONDS * MICROSECONDS:
            return None
        self._denied_said_us[slot], self._said[slot] = elapsed_us, "denies"
        return "denies"

    def take_probe(self, slot: int) -> bool:
        """Whether to probe an endpoint that is left alone: at most once a pause."""
        elapsed_us = self._clock.elapsed_us()
        with self._lock:
            probe_at_us = self._probe_at_us[slot]
            if probe_at_us is None or elapsed_us < probe_at_us:
                return False
            self._probe_at_us[slot] = elapsed_us + self._pause_us
            return True

    def forget(self, slot: int) -> None:
        """Treat the endpoint as one that answers: another store has taken its place."""
        with self._lock:
            self._probe_at_us[slot] = self._denied_said_us[slot] = self._failing_since_us[slot] = None
            self._said[slot] = None
