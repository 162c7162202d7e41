"""A join of two samples in memory: how many rows there would be, what would not join, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.join.adapting import RawRecords, adapt_pairs, adapter_of
from photon.join.records import raw_records
from photon.logs.files import ByteRange
from photon.logs.parse import read_events
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog, Limits, PrimaryLog
from photon.profile.sample import Sample
from photon.storage.columns import TABLE_COLUMNS


@dataclass(frozen=True, slots=True)
class SideSeen:
    """What the sample of one side has."""

    files: int  # in all, also those of which nothing was read
    events: int
    duplicates: int  # events whose id came before
    conflicting: int  # those of them whose record is another one
    dead_letters: dict[str, int]  # by reason
    out_of_order: float  # share of events that are earlier than the one before them in their file
    latest_by_seconds: float  # the most that an event is earlier than one before it in its file
    first_us: int | None
    last_us: int | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """A join of the samples."""

    primary: SideSeen
    foreign: SideSeen
    joined: int
    without_key: int
    without_primary: int  # in the sample; it may be in what was not read
    example: dict[str, Any] | None  # the columns of a row beside Photon's own, as the table will have them
    unmatched_keys: tuple[str, ...]  # some of them

    @property
    def key_share(self) -> float:
        """The share of foreign events with a key whose primary event is in the sample."""
        return self.joined / max(1, self.joined + self.without_primary)


def try_join(primary: Sample, foreign: Sample, pipeline: Pipeline) -> Trial:
    """Join the samples as the pipeline would, each foreign id once."""
    primaries, primary_seen = _read(primary, pipeline.primary)
    foreigns, foreign_seen = _read(foreign, pipeline.foreign)
    first = foreigns.take(_first_of_each(foreigns["_id"]))
    keyed = first.filter(pc.is_valid(first["_key"]))
    at = pc.index_in(keyed["_key"], primaries["_id"])
    joined = keyed.filter(pc.is_valid(at))
    left = keyed.filter(pc.is_null(at))
    example = None
    if len(joined):
        partner = primaries.slice(at.drop_null()[0].as_py(), 1)
        example = _row(_raw_record(foreign, joined), _raw_record(primary, partner), pipeline)
    return Trial(
        primary_seen,
        foreign_seen,
        len(joined),
        len(first) - len(keyed),
        len(left),
        example,
        tuple(left["_key"][:3].to_pylist()),
    )


def _read(sample: Sample, log: PrimaryLog | ForeignLog) -> tuple[pa.Table, SideSeen]:
    tables, reasons = list[pa.Table](), Counter[str]()
    inversions, latest_us = 0, 0
    for file, piece in ((each.file, piece) for each in sample.files for piece in each.pieces):
        where = ByteRange(file.number, piece.start_bytes, piece.start_bytes + len(piece.data), 0, 0)
        parsed = read_events(piece.data, file, where, log, Limits())
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
        _conflicting(events),
        dict(reasons.most_common()),
        inversions / max(1, len(events)),
        latest_us / 10**6,
        bounds["min"],
        bounds["max"],
        sample.is_whole,
    )


def _conflicting(events: pa.Table) -> int:
    """How many events have the id of an earlier one, and another record."""
    first = events.take(_first_of_each(events["_id"]))
    of_each = first["_raw"].take(pc.index_in(events["_id"], first["_id"]))
    return int(pc.sum(pc.not_equal(events["_raw"], of_each)).as_py() or 0)


def _kind(reason: str) -> str:
    """A reason without what differs from line to line."""
    return "time is not of the unit" if reason.startswith("time ") else reason.partition(" at character")[0]


def _first_of_each(ids: pa.ChunkedArray) -> pa.Array:
    rows = pa.table({"id": ids, "row": np.arange(len(ids))})
    return rows.group_by("id").aggregate([("row", "min")])["row_min"].sort()


def _raw_record(sample: Sample, events: pa.Table) -> RawRecords:
    """The first of some events, as its file has it."""
    first = events.slice(0, 1)
    files = {each.file.number: each.file for each in sample.files}
    return raw_records(first["_raw"].combine_chunks(), first["_file"].to_numpy(), files)


def _row(foreign: RawRecords, primary: RawRecords, pipeline: Pipeline) -> dict[str, Any] | None:
    """The row of a pair, made as a join makes it."""
    adapter, new_table = adapter_of(pipeline), TABLE_COLUMNS["joined_events"]
    rows = adapt_pairs(adapter, foreign, primary, pipeline, new_table).table.to_pylist()
    return rows[0] if rows else None
