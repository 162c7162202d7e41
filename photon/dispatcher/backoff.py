"""When a waiting record is looked at again, and when it is given up: pure decisions.

Backoff with jitter, the home half, and what makes an event unjoinable (paper, section 3.1.2).
Where records wait is `state`; who carries decisions out is `settling`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from photon.clock import microseconds
from photon.pipeline.file import Home, Retry
from photon.tokens import Occurrence

_MAX_DOUBLINGS = 40  # 2**40 first delays are beyond any max_delay; keeps the power finite


def backoff_us(attempts: int, retry: Retry, rng: random.Random) -> int:
    """The wait after the `attempts`-th lookup (from 1) that found no primary.

    Doubles from `first_delay` up to `max_delay`; the jitter of +-25 % keeps records that failed
    together from coming back together for ever.
    """
    doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
    delay = min(microseconds(retry.first_delay) * (1 << doublings), microseconds(retry.max_delay))
    return round(delay * rng.uniform(0.75, 1.25))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that waits, as the decision whether to give it up needs it."""

    occurrence: Occurrence
    attempts: int
    first_seen_us: int
    primary_time_us: int  # of its primary: from the id where it carries one, else the record's own


def may_be_given_up(waiting: Waiting, now_us: int, watermark_us: int | None, retry: Retry) -> bool:
    """Whether one last lookup may decide that the event is unjoinable (protocol C5).

    Tried often enough, first *seen* long enough ago (its own time may be last year's), and this
    datacenter has read its primary logs past the primary's time by the allowed lateness.
    """
    return (
        waiting.attempts >= retry.min_attempts
        and now_us - waiting.first_seen_us >= microseconds(retry.unjoinable_after)
        and watermark_us is not None
        and watermark_us >= waiting.primary_time_us + microseconds(retry.allowed_lateness)
    )


def unresponsive_datacenters(
    datacenters: Collection[str],
    last_registered_us: Mapping[str, int],
    started_us: int,
    now_us: int,
    home: Home,
) -> frozenset[str]:
    """The datacenters that have registered nothing for `quiet_after`: their events are taken up at once.

    One that was never seen counts from `started_us`, when this datacenter began to look.
    """
    quiet_after_us = microseconds(home.quiet_after)
    return frozenset(
        name for name in datacenters if now_us - last_registered_us.get(name, started_us) >= quiet_after_us
    )
