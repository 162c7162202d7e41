"""Why records wait and for how long. Segments store codes: a new reason goes to the end of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Recovery, Retry
from photon.process.clock import MICROSECONDS, microseconds

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]

# After the first lookup that found no primary: most primaries that are late at all are late by less than a
# second, and a batch takes 0.2 s.
FIRST_DELAY = timedelta(milliseconds=250)
# A primary that comes wakes its events at once, so that later looks only find what nobody told of.
MAX_DELAY = timedelta(hours=1)
NEVER_US = 2**62  # when records are due that only a new primary, or a complete run, takes up again
_MOST_DOUBLINGS = 40  # 2**40 first delays are beyond MAX_DELAY; keeps the power finite
_JITTER = 0.25
LONGEST_FOR_CLOCK = timedelta(minutes=1)  # nobody wakes these, and time goes on by itself
# Records of about the same age are due together, in steps of an eighth of their wait: a batch for each alone
# would keep a dispatcher busy that has nothing else to do.
_STEPS_OF_A_WAIT = 8
_LEAST_STEP_US = MICROSECONDS  # shorter steps are left out: such records are due each at its own time


@dataclass(frozen=True)
class Reason:
    """Why a record waits. Its code is its place in `REASONS`."""

    name: str
    words: str  # for people: "they wait ..."
    delay: Callable[[Pipeline], timedelta] | None = None  # None: `due_us` or `held_us` says how long


REASONS = (
    Reason("primary", "for a primary event that is in no log yet"),
    Reason(
        "home",
        "a moment, for their home datacenter to join them",
        lambda pipeline: pipeline.home.takeover_delay,
    ),
    Reason(
        "clock",
        "for a time that is ahead of the clock",
        lambda pipeline: LONGEST_FOR_CLOCK,
    ),
    Reason(
        "contested",
        "for the table to say whether an earlier batch has joined them",
        lambda pipeline: FIRST_DELAY,
    ),
    # Given up, and kept where a later run may take it up again.
    Reason("unjoinable", "for another look: they had been given up, and their primary may have come"),
    Reason("held", "until the datacenter that holds them has closed its batch"),
    # Recovery has asked for it (protocol E4): it is in a plan of such records alone, or waits until a table
    # can say whether it has a row (E8).
    Reason("ordered", "to be looked at again, as a recovery or a mended dead letter has asked"),
)
# Words for each reason, and for work in a plan that is taken up again, whatever it waited for.
WHY = {reason.name: reason.words for reason in REASONS} | {"requeued": "in work that is taken up again"}
CODE_OF = {reason.name: code for code, reason in enumerate(REASONS)}
PRIMARY, UNJOINABLE, HELD = CODE_OF["primary"], CODE_OF["unjoinable"], CODE_OF["held"]
ORDERED = CODE_OF["ordered"]
HELD_DELAY_US = MICROSECONDS  # a holder at work has closed its batch before that


def due_us(codes: Codes, attempts: Ints, pipeline: Pipeline, now_us: int, rng: np.random.Generator) -> Ints:
    """When records are due, by the code of their reason and the number of their attempts.

    For those that are held or ordered the caller takes `held_us` instead.
    """
    due = together_us(now_us, backoff_us(attempts, pipeline.retry, rng))
    for code, reason in enumerate(REASONS):
        if reason.delay is not None:
            due[codes == code] = now_us + microseconds(reason.delay(pipeline))
    due[codes == UNJOINABLE] = NEVER_US
    return due


def held_us(ages_us: Ints, recovery: Recovery) -> Ints:
    """The waits of records whose events another datacenter holds: by their ages, so that they double."""
    longest_us = max(HELD_DELAY_US, microseconds(recovery.silent_after))
    return np.clip(ages_us, HELD_DELAY_US, longest_us)


def backoff_us(attempts: Ints, retry: Retry, rng: np.random.Generator) -> Ints:
    """The waits after that many lookups (from 1) that found no primary.

    Each doubles from `FIRST_DELAY` up to `MAX_DELAY`, or an eighth of `unjoinable_after`, so that a record is
    given up in time. The jitter of +-25 % keeps records that failed together from coming back together.
    """
    longest_us = min(microseconds(MAX_DELAY), microseconds(retry.unjoinable_after) // _STEPS_OF_A_WAIT)
    doublings = np.clip(attempts.astype(np.float64) - 1, 0, _MOST_DOUBLINGS)
    first_us = microseconds(FIRST_DELAY)
    delays = np.minimum(first_us * 2**doublings, max(first_us, longest_us))
    return np.rint(delays * rng.uniform(1 - _JITTER, 1 + _JITTER, len(attempts))).astype(np.int64)


def together_us(now_us: int, waits_us: Ints) -> Ints:
    """When records are due after these waits: up to an eighth later, at times that they share with others."""
    steps_us = np.exp2(np.floor(np.log2(np.maximum(waits_us, 1) / _STEPS_OF_A_WAIT))).astype(np.int64)
    steps_us = np.where(steps_us < _LEAST_STEP_US, 1, steps_us)
    return -(-(now_us + waits_us) // steps_us) * steps_us
