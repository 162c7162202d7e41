"""Which endpoints are worth asking: one that did not answer is left alone until a probe gets an answer.

Without this, every batch would wait for the time-out of an endpoint that is known to be down. Only time
depends on it: an endpoint that is not asked counts as one that did not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal

from photon.clock import MICROSECONDS, Clock
from photon.registry.consensus.acceptor import NoReply, NoReplyKind
from photon.registry.consensus.decisions import majority

News = Literal["fell_silent", "is_back"]

PAUSE_SECONDS = 1.0  # a probe a second costs nothing, and an endpoint that is back is soon asked again


class Breaker:
    """The health of n endpoints. Thread-safe."""

    def __init__(self, n: int, clock: Clock) -> None:
        self._clock = clock
        self._pause_us = round(PAUSE_SECONDS * MICROSECONDS)
        self._lock = threading.Lock()
        self._probe_at_us: list[int | None] = [None] * n  # None: it answers

    def lets_pass(self, slot: int) -> bool:
        """Whether to send a request to an endpoint. All are asked while no majority answers."""
        with self._lock:
            answering = sum(at_us is None for at_us in self._probe_at_us)
            return self._probe_at_us[slot] is None or answering < majority(len(self._probe_at_us))

    def saw(self, slot: int, replies: Sequence[object]) -> News | None:
        """Take note of the replies to one request: whether the endpoint fell silent, or is back."""
        if all(_kind(reply) == "not_asked" for reply in replies):
            return None
        with self._lock:
            was_silent = self._probe_at_us[slot] is not None
            if all(_kind(reply) != "unreachable" for reply in replies):
                self._probe_at_us[slot] = None
                return "is_back" if was_silent else None
            if is_silence(replies) and not was_silent:
                self._probe_at_us[slot] = self._clock.elapsed_us() + self._pause_us
                return "fell_silent"
            return None

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
            self._probe_at_us[slot] = None


def is_silence(replies: Sequence[object]) -> bool:
    """Whether an endpoint answered no part of a request."""
    return all(_kind(reply) == "unreachable" for reply in replies)


def _kind(reply: object) -> NoReplyKind | None:
    return reply.kind if isinstance(reply, NoReply) else None
