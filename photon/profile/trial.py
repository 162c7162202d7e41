"""A join of two samples in memory: how many rows there would be, what would not join, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.columns import parse_columns
from photon.logs.files import ByteRange
from photon.logs.parse import read_events
from photon.pipeline.sections import ForeignLog, Limits, PrimaryLog
from photon.profile.sample import Sample


@dataclass(frozen=True, slots=True)
class SideSeen:
    """What the sample of one side has."""

    files: int  # in all, also those of which nothing was read
    events: int
    duplicates: int  # events whose id came before
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
    example: dict[str, str | None] | None
    unmatched_keys: tuple[str, ...]  # some of them

    @property
    def key_share(self) -> float:
        """The share of foreign events with a key whose primary event is in the sample."""
        return self.joined / max(1, self.joined + self.without_primary)


def try_join(primary: Sample, foreign: Sample, primary_log: PrimaryLog, foreign_log: ForeignLog) -> Trial:
    """Join the samples as the pipeline would, each foreign id once."""
    primaries, primary_seen = _read(primary, primary_log)
    foreigns, foreign_seen = _read(foreign, foreign_log)
    first = foreigns.take(_first_of_each(foreigns["_id"]))
    keyed = first.filter(pc.is_valid(first["_key"]))
    at = pc.index_in(keyed["_key"], primaries["_id"])
    joined = keyed.filter(pc.is_valid(at))
    left = keyed.filter(pc.is_null(at))
    example = None
    if len(joined):
        partner = primaries.slice(at.drop_null()[0].as_py(), 1)
        row = _values(foreign, foreign_log, joined.slice(0, 1))
        row |= {primary_log.prefix + k: v for k, v in _values(primary, primary_log, partner).items()}
        example = row
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
    for each in sample.files:
        start = each.file.header_bytes
        where = ByteRange(each.file.number, start, start + len(each.data), 0, 0)
        parsed = read_events(each.data, each.file, where, log, Limits())
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
    )


def _kind(reason: str) -> str:
    """A reason without what differs from line to line."""
    return "time is not of the unit" if reason.startswith("time ") else reason.partition(" at character")[0]


def _first_of_each(ids: pa.ChunkedArray) -> pa.Array:
    rows = pa.table({"id": ids, "row": np.arange(len(ids))})
    return rows.group_by("id").aggregate([("row", "min")])["row_min"].sort()


def _values(sample: Sample, log: PrimaryLog | ForeignLog, event: pa.Table) -> dict[str, str | None]:
    (file,) = (each.file for each in sample.files if each.file.number == event["_file"][0].as_py())
    table = parse_columns(event["_raw"].combine_chunks(), file.header, log, Limits()).table
    return {name: values[0] for name, values in table.to_pydict().items()}
