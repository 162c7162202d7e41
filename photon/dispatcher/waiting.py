"""Waiting records: which are looked up again, and when one is given up (paper, section 3.1.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from photon.pipeline.sections import Retry
from photon.process.clock import microseconds
from photon.state.waiting.retries import Retries
from photon.state.waiting_view import WaitingView

# Lookups before a record may be given up, without the last one. Where joins run, waits of an eighth of
# `retry.unjoinable_after` see to more; after a long stop it is looked for again before the last lookup. More
# would add half a minute then, for waits double from a quarter of a second.
MIN_ATTEMPTS = 2


def due_retries(
    waiting: WaitingView, now_us: int, most: int, watermark_us: int | None, retry: Retry
) -> tuple[Retries, ...]:
    """At most so many of the records that are due, and for which of them it is the last lookup."""
    chosen = []
    for index, rows in waiting.due(now_us, most):
        records = index.records.take(rows)
        names = ("attempts", "first_seen_us", "primary_time_us", "_file", "_offset")
        attempts, first_seen_us, primary_us, files, offsets_bytes = (
            records[name].to_numpy() for name in names
        )
        finals = may_be_given_up(attempts, first_seen_us, primary_us, now_us, watermark_us, retry)
        chosen.append(Retries.of(index.name, rows, files, offsets_bytes, finals))
    return tuple(chosen)


def may_be_given_up(
    attempts: npt.NDArray[np.integer],
    first_seen_us: npt.NDArray[np.int64],
    primary_time_us: npt.NDArray[np.int64],
    now_us: int,
    watermark_us: int | None,
    retry: Retry,
) -> npt.NDArray[np.bool_]:
    """Whether one last lookup may decide that each event is unjoinable (protocol C5).

    Tried often enough, first *seen* long enough ago (its own time may be last year's), and this
    datacenter has read its primary logs past the primary's time by the allowed lateness.
    """
    if watermark_us is None:
        return np.zeros(len(attempts), bool)
    tried: npt.NDArray[np.bool_] = attempts >= MIN_ATTEMPTS
    waited = now_us - first_seen_us >= microseconds(retry.unjoinable_after)
    passed = watermark_us >= primary_time_us + microseconds(retry.allowed_lateness)
    return tried & waited & passed
