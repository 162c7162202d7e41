"""Waiting records: when each is looked up again, and when it is given up (paper, section 3.1.2)."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from photon.clock import microseconds
from photon.join.messages import JoinResult, RetryRef
from photon.pipeline.file import Pipeline, Retry
from photon.tokens import Occurrence

_MAX_DOUBLINGS = 40  # 2**40 first delays are beyond any max_delay; keeps the power finite


class WaitingRow(NamedTuple):
    """A waiting record: a row of the table `waiting`. The record itself is in the spool."""

    file_number: int
    offset_bytes: int
    event_id: str
    key_hash: int
    primary_time_us: int  # from the id where it carries one, else the record's own
    attempts: int
    first_seen_us: int
    due_us: int
    reason: str
    spool_file: str
    spool_row: int
    status: str = "open"  # open | requeued (in 0.1.0: held) | unjoinable

    @property
    def occurrence(self) -> Occurrence:
        return Occurrence(self.file_number, self.offset_bytes)

    def ref(self, final: bool) -> RetryRef:
        return RetryRef(self.occurrence, self.spool_file, self.spool_row, final)


def waiting_rows(
    result: JoinResult,
    ended: Collection[Occurrence],
    released: Collection[Occurrence],
    pipeline: Pipeline,
    now_us: int,
    rng: random.Random,
) -> list[WaitingRow]:
    """The records of a result that come again, with the time when they are due.

    `ended`: contested ones that are decided; `released`: contested ones whose id is free again.
    """
    if result.waiting is None:
        return []
    rows: list[WaitingRow] = []
    for row in result.waiting.rows.to_pylist():
        number, offset, reason = row.pop("file"), row.pop("offset"), row["reason"]
        occurrence = Occurrence(number, offset)
        if occurrence in ended:
            continue
        wait_us = 0 if occurrence in released else _wait_us(reason, row["attempts"], pipeline, rng)
        rows.append(
            WaitingRow(
                number,
                offset,
                **row,
                due_us=now_us + wait_us,
                spool_file=result.waiting.spool_file,
                status="unjoinable" if reason == "unjoinable" else "open",
            )
        )
    return rows


def _wait_us(reason: str, attempts: int, pipeline: Pipeline, rng: random.Random) -> int:
    home, retry = pipeline.home, pipeline.retry
    waits = {"home": home.takeover_delay, "horizon": retry.max_delay, "contested": retry.first_delay}
    return microseconds(waits[reason]) if reason in waits else backoff_us(attempts, retry, rng)


def backoff_us(attempts: int, retry: Retry, rng: random.Random) -> int:
    """The wait after the `attempts`-th lookup (from 1) that found no primary.

    Doubles from `first_delay` up to `max_delay`; the jitter of +-25 % keeps records that failed
    together from coming back together for ever.
    """
    doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
    delay = min(microseconds(retry.first_delay) * (1 << doublings), microseconds(retry.max_delay))
    return round(delay * rng.uniform(0.75, 1.25))


def may_be_given_up(row: WaitingRow, now_us: int, watermark_us: int | None, retry: Retry) -> bool:
    """Whether one last lookup may decide that the event is unjoinable (protocol C5).

    Tried often enough, first *seen* long enough ago (its own time may be last year's), and this
    datacenter has read its primary logs past the primary's time by the allowed lateness.
    """
    return (
        row.attempts >= retry.min_attempts
        and now_us - row.first_seen_us >= microseconds(retry.unjoinable_after)
        and watermark_us is not None
        and watermark_us >= row.primary_time_us + microseconds(retry.allowed_lateness)
    )


def unresponsive_datacenters(
    last_registered_us: Mapping[str, int], now_us: int, quiet_after_us: int
) -> frozenset[str]:
    """The datacenters that have registered nothing for a while: their events are taken up at once."""
    return frozenset(name for name, at_us in last_registered_us.items() if now_us - at_us >= quiet_after_us)
