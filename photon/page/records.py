"""Tells of records by class: dead letters over time, conflicting ones, and those that wait, with samples."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.page.asking import Shared
from photon.page.now import Offered
from photon.page.refusals import BadRequest
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, in_us
from photon.process.errors import UserError
from photon.process.readable import readable
from photon.state.database import StateReader
from photon.state.timeline import EpochTimeline, read_timeline
from photon.state.view import open_view
from photon.state.waiting.reasons import NEVER_US, WHY
from photon.storage.columns import text
from photon.storage.data_files import DataFiles, pages_of_rows
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence

# Hours that can be asked for, each with the seconds of a step; batches are known by time for three days.
STEP_SECONDS = {1: 60, 6: 300, 24: 900, 72: 3_600}
DAY_HOURS = 24
READ_EVERY_SECONDS = 10.0
ANSWER_SECONDS = 5.0
MOST_REASONS = 20
MOST_COUNTED = 10_000  # different reasons of a datacenter; more of them are told as one
OTHER_REASONS = "other reasons"
MOST_SAMPLES = 3  # of each reason
MOST_CONFLICTING = 20
LINE_BYTES, LINE_CHARACTERS = 1_200, 300
ROWS_AT_ONCE = 16_384  # rows with their lines are read by fewer
LINES_AT_ONCE = 64
_JOINED = pa.schema([ROW_COLUMNS.field(name) for name in ("_event_id", "_joined_at")])


@dataclass
class RecordsOf:
    """One datacenter's records. `letters`: how many dead letters there are, by step and reason."""

    classes: Mapping[str, int] = field(default_factory=dict)
    letters: Counter[tuple[int, str]] = field(default_factory=Counter)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by reason
    conflicting: list[dict[str, Any]] = field(default_factory=list)
    joined: list[dict[str, Any]] = field(default_factory=list)  # the newest
    waiting: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class RecordsPage:
    """Reads the records of each datacenter for all viewers."""

    def __init__(self, pipeline: Pipeline, clock: Clock, offered: Offered) -> None:
        self._clock = clock
        mending = (
            f"photon dead-letters {pipeline.typed} names lines of foreign logs that nobody has mended, and "
            "mends them; corrected lines of primary logs go into a new file of that log"
        )
        self._remedy = {"what_to_do": mending, "commands": offered(mending)}
        self._readings = {
            (name, hours): Shared(
                f"datacenter {name}",
                partial(records_of, pipeline, name, hours, clock),
                READ_EVERY_SECONDS,
                clock,
            )
            for name in pipeline.datacenters
            for hours in STEP_SECONDS
        }

    async def answer(self, hours: int | None) -> dict[str, Any]:
        """The answer of `/api/records`: of a day, where nothing is said. BadRequest."""
        hours = DAY_HOURS if hours is None else hours
        if hours not in STEP_SECONDS:
            raise BadRequest(f"hours={hours}: expected one of {', '.join(map(str, STEP_SECONDS))}")
        names = [name for name, of_hours in self._readings if of_hours == hours]
        found = await asyncio.gather(*(self._in_time(name, hours) for name in names))
        told = together(dict(zip(names, found, strict=True)), hours, self._clock.now_us())
        told["dead_letters"] |= self._remedy
        return told

    async def _in_time(self, name: str, hours: int) -> RecordsOf:
        try:
            return await self._readings[name, hours].answer(ANSWER_SECONDS)
        except (UserError, OSError) as error:
            return RecordsOf(problems=[str(error)])


def together(found: Mapping[str, RecordsOf], hours: int, now_us: int) -> dict[str, Any]:
    """The records of all datacenters as JSON; dead letters on one grid of steps."""
    step_us = STEP_SECONDS[hours] * MICROSECONDS
    until_us = now_us // step_us * step_us
    grid_us = range(until_us - hours * 3_600 * MICROSECONDS, until_us + step_us, step_us)
    counts: dict[str, list[int]] = {}
    for one in found.values():
        for (at_us, reason), count in one.letters.items():
            if at_us in grid_us:
                counts.setdefault(reason, [0] * len(grid_us))[grid_us.index(at_us)] += count
    counts = with_others(counts)
    conflicting = [each for one in found.values() for each in one.conflicting]
    joined = [each for one in found.values() for each in one.joined]
    return {
        "classes": {name: one.classes for name, one in found.items()},
        "dead_letters": {
            "step_seconds": STEP_SECONDS[hours],
            "at_us": list(grid_us),
            "reasons": [
                {
                    "reason": reason,
                    "count": sum(by_step),
                    "counts": by_step,
                    "samples": [each for one in found.values() for each in one.samples.get(reason, [])],
                }
                for reason, by_step in counts.items()
            ],
        },
        "joined": sorted(joined, key=lambda one: -one["at_us"]),
        "conflicting": sorted(conflicting, key=lambda one: -(one["at_us"] or 0))[:MOST_CONFLICTING],
        "waiting": [each for one in found.values() for each in one.waiting],
        "problems": [f"{name}: {problem}" for name, one in found.items() for problem in one.problems],
    }


def with_others(counts: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """The counts of each step by reason, most common first; those of rare reasons as one."""
    ranked = sorted(counts, key=lambda reason: (reason == OTHER_REASONS, -sum(counts[reason])))
    kept = ranked if len(ranked) <= MOST_REASONS else ranked[: MOST_REASONS - 1]
    left = [counts[reason] for reason in ranked if reason not in kept]
    others = {OTHER_REASONS: [sum(column) for column in zip(*left, strict=True)]} if left else {}
    return {reason: counts[reason] for reason in kept} | others


def records_of(pipeline: Pipeline, datacenter: str, hours: int, clock: Clock) -> RecordsOf:
    """One datacenter's records. What can't be read is a problem, and the rest is told."""
    place, found = pipeline.datacenters[datacenter], RecordsOf()
    since_us = clock.now_us() - hours * 3_600 * MICROSECONDS
    try:
        with open_view(place.state) as state:
            if state is None:
                found.problems.append("it has not joined yet")
                return found
            found.classes = state.counts().as_dict()
            found.waiting = _waiting(state, datacenter)
            epoch = state.epoch
        timelines = read_timeline(place.state, since_us)
    except (UserError, OSError) as error:
        found.problems.append(str(error))
        return found
    try:
        _find_letters(OutputTable(place.lake, "dead_letters"), datacenter, timelines, hours, since_us, found)
        found.conflicting = _conflicting(OutputTable(place.lake, "conflicting"), datacenter, timelines)
        if epoch is not None:
            found.joined = _newest(OutputTable(place.lake, "joined_events"), datacenter, epoch)
    except (UserError, OSError) as error:
        found.problems.append(str(error))
    return found


def _waiting(state: StateReader, datacenter: str) -> list[dict[str, Any]]:
    oldest_us, soon = state.waiting.oldest_seen_us(), state.waiting.next_of_each(MOST_SAMPLES)
    return [
        {
            "datacenter": datacenter,
            "reason": reason,
            "why": WHY[reason],
            "count": count,
            "oldest_first_seen_us": oldest_us.get(reason),
            "next_due_us": min(
                (one.due_us for one in soon.get(reason, []) if one.due_us < NEVER_US), default=None
            ),
            "samples": [one.event_id for one in soon.get(reason, [])],
        }
        for reason, count in state.waiting.by_reason().items()
    ]


def _find_letters(
    table: OutputTable,
    datacenter: str,
    timelines: Mapping[str, EpochTimeline],
    hours: int,
    since_us: int,
    found: RecordsOf,
) -> None:
    """Count the dead letters of each step by reason, with the newest of each as samples. LakeUnavailable."""
    if not table.exists():
        return
    step_us = STEP_SECONDS[hours] * MICROSECONDS
    newest: dict[str, tuple[str, int]] = {}  # the last batch with each reason
    reasons: Counter[str] = Counter()
    with table.reading():
        dataset = table.load().to_pyarrow_dataset()
        for epoch, timeline in timelines.items():
            if not len(timeline.batches):
                continue
            # Batches before the first one that the timeline was read for are older than all of it.
            first = max(timeline.first_batch_since(since_us), int(timeline.batches[0]))
            wanted = (text("_epoch") == epoch) & (ds.field("_batch") >= first)
            for batch, reason, count in _counts(dataset, wanted):
                if reason not in reasons and len(reasons) >= MOST_COUNTED:
                    reason = OTHER_REASONS
                reasons[reason] += count
                at_us = _readable_us(timeline, batch)
                found.letters[(at_us or timeline.last_us) // step_us * step_us, reason] += count
                newest[reason] = max(newest.get(reason, ("", 0)), (epoch, batch))
        for reason, _ in reasons.most_common(MOST_REASONS):
            epoch, batch = newest[reason]
            wanted = (text("_epoch") == epoch) & (ds.field("_batch") == batch) & (text("reason") == reason)
            at_us = _readable_us(timelines[epoch], batch)
            found.samples[reason] = _samples(dataset, wanted, {"datacenter": datacenter, "at_us": at_us})


def _counts(dataset: ds.Dataset, wanted: ds.Expression) -> Iterable[tuple[int, str, int]]:
    """How many rows each batch has of each reason, read part by part."""
    for part in dataset.to_batches(columns=["_batch", "reason"], filter=wanted, batch_size=ROWS_AT_ONCE):
        groups = pa.table(part).group_by(["_batch", "reason"]).aggregate([([], "count_all")])
        yield from zip(*(groups[name].to_pylist() for name in ("_batch", "reason", "count_all")), strict=True)


def _samples(dataset: ds.Dataset, wanted: ds.Expression, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = ["_occurrence", "path", "side", "event_id", "raw"]
    rows = dataset.head(MOST_SAMPLES, columns, wanted, LINES_AT_ONCE, batch_readahead=1)
    return [
        {
            **told,
            "side": row["side"],
            "event_id": row["event_id"],
            "file": row["path"],
            "offset_bytes": Occurrence.parse(row["_occurrence"]).offset_bytes,
            "line": readable((row["raw"] or b"")[:LINE_BYTES])[:LINE_CHARACTERS],
        }
        for row in rows.to_pylist()
    ]


def _newest(table: OutputTable, datacenter: str, epoch: str) -> list[dict[str, Any]]:
    """One event of the file of its newest batch; none before there is one. LakeUnavailable."""
    if not table.exists():
        return []
    with table.reading():
        files = DataFiles(table.load()).of_epoch(epoch)
        newest = max(files, key=lambda one: (one.last_batch or 0, -one.size_bytes), default=None)
        pages = [] if newest is None else pages_of_rows(table.store, [newest], _JOINED, None, ROWS_AT_ONCE)
        page = next(iter(pages), _JOINED.empty_table())
    return [
        {"datacenter": datacenter, "event_id": row["_event_id"], "at_us": in_us(row["_joined_at"])}
        for row in page.slice(max(0, page.num_rows - 1)).to_pylist()
    ]


def _conflicting(
    table: OutputTable, datacenter: str, timelines: Mapping[str, EpochTimeline]
) -> list[dict[str, Any]]:
    """The newest examples of one datacenter. LakeUnavailable."""
    if not table.exists():
        return []
    with table.reading():
        rows = table.load().to_pyarrow_table().sort_by([("_batch", "descending")]).slice(0, MOST_CONFLICTING)
    return [
        {
            "datacenter": datacenter,
            "event_id": row["event_id"],
            "at_us": _readable_us(timelines.get(row["_epoch"], EpochTimeline()), row["_batch"]),
            "says": f"byte {row['offset_bytes']:,} of {row['path']}; joined: byte "
            f"{row['joined_offset_bytes']:,} of {row['joined_path']}; differs in {row['differs']}",
        }
        for row in rows.to_pylist()
    ]


def _readable_us(timeline: EpochTimeline, batch: int) -> int | None:
    """When a batch could be read; None: nobody knows any more."""
    return int(timeline.readable(np.array([batch]))[0]) or None
