"""A join of two samples in memory: how many rows there would be, what would not join, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.join.adapting import RawRecords, adapt_pairs, adapter_of
from photon.join.comparing import MOST_COMPARED, compared
from photon.join.records import raw_records
from photon.logs.files import ByteRange
from photon.logs.parse import read_events
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog, Limits, PrimaryLog
from photon.profile.ids_used_again import IdsUsedAgain, nearest_primaries
from photon.profile.sample import SideSample
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.tokens import Occurrence

_PLACE = ("_file", "_offset")


@dataclass(frozen=True, slots=True)
class SideSeen:
    """The contents of one side's sample."""

    files: int  # all files, also those of which nothing was read
    events: int
    duplicates: int  # events whose id came before
    dead_letters: dict[str, int]  # dead letters by reason
    out_of_order: float  # share of events that are earlier than the one before them in their file
    latest_by_seconds: float  # the most that an event is earlier than one before it in its file
    first_us: int | None  # the earliest event time, if there is any
    last_us: int | None
    is_whole: bool  # the sample is all there is in the log
    longest_bytes: int  # of its longest record


@dataclass(frozen=True, slots=True)
class Trial:
    """A join of the samples."""

    primary: SideSeen
    foreign: SideSeen
    conflicting: int  # foreign events whose id came before, with other content
    joined: int
    without_key: int
    without_primary: int  # in the sample; it may be in what was not read
    example: dict[str, Any] | None  # the columns of a row beside Photon's own, as the table will have them
    unmatched_keys: tuple[str, ...]  # up to three keys whose primary is not in the sample
    ids_used_again: IdsUsedAgain | None  # primary ids that other content has, too

    @property
    def key_share(self) -> float:
        """The share of foreign events with a key whose primary event is in the sample."""
        return self.joined / max(1, self.joined + self.without_primary)


def try_join(primary: SideSample, foreign: SideSample, pipeline: Pipeline) -> Trial:
    """Join the samples as the pipeline would, each foreign id once."""
    primaries, primary_seen = _read(primary, pipeline.primary, pipeline.limits)
    foreigns, foreign_seen = _read(foreign, pipeline.foreign, pipeline.limits)
    nearest = nearest_primaries(foreigns, primaries)
    at = pa.array(nearest.rows, mask=nearest.rows < 0)
    joined = foreigns.append_column("_at", at).filter(pc.is_valid(at))
    joined_ids, keyed = joined["_id"], foreigns.filter(pc.is_valid(foreigns["_key"]))
    left = keyed.filter(pc.invert(pc.is_in(keyed["_id"], joined_ids.combine_chunks())))
    ids = len(pc.unique(foreigns["_id"]))
    with_key, with_primary = len(pc.unique(keyed["_id"])), len(pc.unique(joined_ids))
    example = None
    if len(joined):
        one = joined.slice(_plain_pair(joined, foreigns, primaries), 1)
        partner = primaries.slice(one["_at"][0].as_py(), 1)
        example = _row(_raw_records(foreign, one), _raw_records(primary, partner), pipeline)
    return Trial(
        primary_seen,
        foreign_seen,
        _conflicting(foreign, foreigns, pipeline),
        with_primary,
        ids - with_key,
        with_key - with_primary,
        example,
        tuple(left["_key"][:3].to_pylist()),
        nearest.used_again,
    )


def _plain_pair(joined: pa.Table, foreigns: pa.Table, primaries: pa.Table) -> int:
    """A pair whose events have no other record, so that a join makes just this row; else the first."""
    is_once = pc.and_(
        pc.invert(pc.is_in(joined["_id"], _again(foreigns["_id"]))),
        pc.invert(pc.is_in(joined["_key"], _again(primaries["_id"]))),
    )
    return max(0, int(pc.index(is_once, True).as_py()))


def _again(ids: pa.ChunkedArray) -> pa.Array:
    counts = pc.value_counts(ids.combine_chunks())
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _read(sample: SideSample, log: PrimaryLog | ForeignLog, limits: Limits) -> tuple[pa.Table, SideSeen]:
    tables, reasons = list[pa.Table](), Counter[str]()
    inversions, latest_us = 0, 0
    for file, piece in ((each.file, piece) for each in sample.files for piece in each.pieces):
        where = ByteRange(file.number, piece.start_bytes, piece.start_bytes + len(piece.data), 0, 0)
        parsed = read_events(piece.data, file, where, log, limits)
        tables.append(parsed.events)
        reasons.update(_kind(reason) for reason in parsed.dead_letters["reason"].to_pylist())
        times_us = parsed.events["_time_us"].to_numpy()
        if len(times_us) > 1:
            inversions += int((np.diff(times_us) < 0).sum())
            latest_us = max(latest_us, int((np.maximum.accumulate(times_us) - times_us).max()))
    events = pa.concat_tables(tables)
    bounds = pc.min_max(events["_time_us"]).as_py()
    return events, SideSeen(
        sample.files_found,
        len(events),
        len(events) - len(pc.unique(events["_id"])),
        dict(reasons.most_common()),
        inversions / max(1, len(events)),
        latest_us / 10**6,
        bounds["min"],
        bounds["max"],
        sample.is_whole,
        sample.longest_bytes,
    )


def _conflicting(sample: SideSample, events: pa.Table, pipeline: Pipeline) -> int:
    """How many events have the id of an earlier one, and say something else."""
    first = events.take(_first_of_each(events["_id"]))
    again = np.setdiff1d(np.arange(len(events)), _first_of_each(events["_id"]).to_numpy())[:MOST_COMPARED]
    others = events.take(pa.array(again))
    ours = first.take(pc.index_in(others["_id"], first["_id"]))
    both = pa.concat_tables([others, ours])
    raws = _raw_records(sample, both)
    places = [
        [Occurrence(*each) for each in zip(*(side[name].to_pylist() for name in _PLACE), strict=True)]
        for side in (others, ours)
    ]
    return compared(raws, others["_id"].to_pylist(), places[0], places[1], pipeline).conflicting


def _kind(reason: str) -> str:
    """A reason without what differs from line to line."""
    return "time is not of the unit" if reason.startswith("time ") else reason.partition(" at character")[0]


def _first_of_each(ids: pa.ChunkedArray) -> pa.Array:
    rows = pa.table({"id": ids, "row": np.arange(len(ids))})
    return rows.group_by("id").aggregate([("row", "min")])["row_min"].sort()


def _raw_records(sample: SideSample, events: pa.Table) -> RawRecords:
    """Some events, as their files have them."""
    files = {each.file.number: each.file for each in sample.files}
    return raw_records(events["_raw"].combine_chunks(), events["_file"].to_numpy(), files)


def _row(foreign: RawRecords, primary: RawRecords, pipeline: Pipeline) -> dict[str, Any] | None:
    """The row of a pair, made as a join makes it."""
    adapter, new_table = adapter_of(pipeline), TABLE_COLUMNS["joined_events"]
    rows = adapt_pairs(adapter, foreign, primary, pipeline, new_table).table.to_pylist()
    return rows[0] if rows else None
