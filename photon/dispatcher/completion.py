"""From what tasks report to what the state remembers: pure decisions at the end of a batch.

Contested events (protocol A8), when waiting records come again, and the sums of the equation. The
transaction itself is `state`, the order of steps is `dispatcher`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from photon.clock import microseconds
from photon.dispatcher.backoff import backoff_us
from photon.dispatcher.state_rows import WaitingRow
from photon.join.messages import Contested, IndexResult, JoinedRecord, JoinResult
from photon.logs.files import TrackedFile
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.registry.interface import Claim
from photon.storage.tables import RowStatus
from photon.tokens import Occurrence, Token


@dataclass
class Resolved:
    """What the table says of contested events."""

    counts: Counter[str] = field(default_factory=Counter)
    over: set[Occurrence] = field(default_factory=set)  # in a final class: they wait no more
    release: list[Claim] = field(default_factory=list)  # held by a plan of ours that has no row for it
    inherited: set[str] = field(default_factory=set)  # events joined by earlier epochs, now counted as joined

    def count_inherited(self, key: EventKey, before: Collection[str]) -> None:
        """Count a record of an event that an earlier epoch has joined: the first as joined, for files are
        numbered anew, so that nobody knows which it was."""
        name = event_name(key)
        first = name not in before and name not in self.inherited
        self.inherited.add(name)
        self.counts["joined" if first else "duplicates"] += 1


def resolve_contested(
    contested: Sequence[Contested],
    standing: Mapping[Token, RowStatus],
    epoch: str,
    inherited_before: Collection[str],
) -> Resolved:
    """What becomes of events that an earlier plan of this datacenter holds.

    With a row they are joined: by this very record (re-read after a crash), or by another one, then
    this is a duplicate. Without a row, and none to come, the token is released.
    """
    resolved = Resolved()
    for item in contested:
        token = Token.parse(item.claim.token)
        if standing[token] == "undecided":
            continue
        if standing[token] == "no row":
            resolved.release.append(item.claim)
            continue
        if token.plan.epoch == epoch:
            same = token.occurrence == item.occurrence
            resolved.counts["joined" if same else "duplicates"] += 1
        else:
            resolved.count_inherited(item.claim.key, inherited_before)
        resolved.over.add(item.occurrence)
    return resolved


def count_already_joined(
    resolved: Resolved,
    records: Iterable[JoinedRecord],
    epochs_of_rows: Mapping[EventKey, Collection[str]] | None,
    epoch: str,
    inherited_before: Collection[str],
) -> None:
    """Add records of events that this datacenter has joined, of which the registry does not say by which.

    `epochs_of_rows`: the epochs in which those of them that still have rows have them; None: all in this one,
    for there was no epoch before it. One without a row was joined by a record that nobody can name, and went
    with its table; its id was cleared and can't be released any more, so that nothing but to say so is left.
    """
    for record in sorted(records, key=lambda record: record.occurrence):
        epochs = (epoch,) if epochs_of_rows is None else epochs_of_rows.get(record.key, ())
        if epoch in epochs:
            resolved.counts["duplicates"] += 1
        elif epochs:
            resolved.count_inherited(record.key, inherited_before)
        else:
            resolved.counts["missing"] += 1


def event_name(key: EventKey) -> str:
    """An event's identity as a text."""
    return f"{'' if key.time_us is None else key.time_us}:{key.id}"


def waiting_rows(
    result: JoinResult,
    over: Collection[Occurrence],
    released: Collection[Occurrence],
    pipeline: Pipeline,
    now_us: int,
    rng: random.Random,
) -> list[WaitingRow]:
    """The records of a result that come again, with the time when they are due.

    `over`: contested ones that are settled; `released`: contested ones whose id is free again.
    """
    if result.waiting is None:
        return []
    rows: list[WaitingRow] = []
    for row in result.waiting.rows.to_pylist():
        occurrence = Occurrence(row["file"], row["offset"])
        if occurrence in over:
            continue
        reason = row["reason"]
        wait_us = 0 if occurrence in released else _wait_us(reason, row["attempts"], pipeline, rng)
        rows.append(
            WaitingRow(
                occurrence=occurrence,
                event_id=row["event_id"],
                key_hash=row["key_hash"],
                primary_time_us=row["primary_time_us"],
                attempts=row["attempts"],
                first_seen_us=row["first_seen_us"],
                due_us=now_us + wait_us,
                reason=reason,
                spool_file=result.waiting.spool_file,
                spool_row=row["spool_row"],
                status="unjoinable" if reason == "unjoinable" else "open",
            )
        )
    return rows


def _wait_us(reason: str, attempts: int, pipeline: Pipeline, rng: random.Random) -> int:
    match reason:
        case "home":
            return microseconds(pipeline.home.takeover_delay)
        case "horizon":
            return microseconds(pipeline.retry.max_delay)
        case "contested":
            return microseconds(pipeline.retry.first_delay)
        case _:
            return backoff_us(attempts, pipeline.retry, rng)


def sums(index: Sequence[IndexResult], join: Sequence[JoinResult], resolved: Resolved) -> Counter[str]:
    """The increments of all counts of a batch, by name."""
    total: Counter[str] = Counter(resolved.counts)
    for indexed in index:
        total.update(
            primary=indexed.events, primary_dead_letters=indexed.dead_letters, lost_bytes=indexed.lost_bytes
        )
    for joined in join:
        total.update(joined.classes)
        total.update(foreign=joined.foreign, lost_bytes=joined.lost_bytes)
    return total


def watermark_us(
    files: Collection[TrackedFile],
    backlog_bytes: Mapping[int, int],
    now_us: int,
    idle_after_us: int,
    previous_us: int | None,
) -> int | None:
    """The event time up to which primary logs are read: the least over files that still grow.

    A file that is idle for longer than `idle_after_us` counts only while bytes of it wait. With no such
    file the log is silent, and the watermark stays; it never goes back.
    """
    growing = [
        file
        for file in files
        if file.state == "open"
        and (backlog_bytes.get(file.file.number, 0) > 0 or now_us - file.grown_us < idle_after_us)
    ]
    times = [file.max_time_us for file in growing]
    if not times or any(time is None for time in times):
        return previous_us
    least = min(time for time in times if time is not None)
    return least if previous_us is None else max(previous_us, least)
