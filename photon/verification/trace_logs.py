"""Searching raw logs for records by id, in this process: for one event's trace, not for many.

Reads files from their start to where they end now, also beyond what was read. Verification's reading of
all records is `photon.verification.tasks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import SystemClock
from photon.dispatcher.read_offsets import read_offsets
from photon.logs.files import Side, TrackedFile
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone
from photon.logs.rereading import Stretch, read_pieces
from photon.logs.tail import LogTail
from photon.pipeline.file import Log, Pipeline

# Ids of these characters stand in a line as they are, whatever its format.
_PLAIN = re.compile(r"[A-Za-z0-9 _.:@#+=~-]+")


class SearchProgress(Protocol):
    """Told how far a search is."""

    def __call__(self, what: str, done_bytes: int, all_bytes: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record in a raw log. `was_read`: it lies before the offset that the dispatcher has committed."""

    path: str
    file_number: int
    offset_bytes: int
    time_us: int
    key: str | None
    was_read: bool


@dataclass(frozen=True, slots=True)
class Needle:
    """The ids that are looked for."""

    ids: tuple[str, ...]

    def may_be_in(self, data: bytes, log: Log) -> bool:
        """False only if no record of these bytes can have one of the ids: then they need not be parsed."""
        if len(log.id) > 1 or not all(_PLAIN.fullmatch(id) for id in self.ids):
            return True
        # JSON may spell any character as an escape.
        return any(id.encode() in data for id in self.ids) or (log.format == "jsonl" and b"\\u" in data)


def search_log(
    pipeline: Pipeline, datacenter: str, side: Side, needle: Needle, progress: SearchProgress
) -> tuple[list[LogRecord], list[str]]:
    """The records with these ids, in the order of files and offsets; and what could not be searched."""
    files, offsets, problems = _files(pipeline, datacenter, side)
    all_bytes = sum(tracked.offset_bytes for tracked in files)
    done_bytes = 0
    records: list[LogRecord] = []
    for tracked in files:
        try:
            for found, end_bytes in _records(pipeline, datacenter, side, tracked, offsets, needle):
                records += found
                progress(f"{side} log of {datacenter}", done_bytes + end_bytes, all_bytes)
        except RangeGone as error:
            problems.append(str(error))
        done_bytes += tracked.offset_bytes
    return records, problems


def _files(
    pipeline: Pipeline, datacenter: str, side: Side
) -> tuple[list[TrackedFile], Mapping[int, int], list[str]]:
    """The files of a log as they are now, each to its end; how far each was read; what can't be read."""
    place = pipeline.datacenters[datacenter]
    known = {tracked.file.number: tracked for tracked in read_offsets(place.state).of(side)}
    log: Log = pipeline.primary if side == "primary" else pipeline.foreign
    tail = LogTail(place.logs, side, log, pipeline.limits, pipeline.tailing)
    numbers_from = 2**30  # beyond those of the state: new files get a number for this search only
    seen = tail.observe(known, numbers_from, SystemClock().now_us(), final=True)
    files = {**known, **seen.changed}
    problems = [f"{problem.path}: {problem.reason}" for problem in seen.problems]
    problems += [
        f"{tracked.file.path}: this {side} log file is not there any more"
        for tracked in files.values()
        if tracked.state != "open"
    ]
    present = [
        replace(tracked, offset_bytes=tracked.size_bytes, tail_hash=b"")
        for _, tracked in sorted(files.items())
        if tracked.state == "open"
    ]
    return present, {number: tracked.offset_bytes for number, tracked in known.items()}, problems


def _records(
    pipeline: Pipeline,
    datacenter: str,
    side: Side,
    tracked: TrackedFile,
    offsets: Mapping[int, int],
    needle: Needle,
) -> Iterator[tuple[list[LogRecord], int]]:
    """Of each piece of a file the records that are looked for, and where the piece ends."""
    log = pipeline.primary if side == "primary" else pipeline.foreign
    file, limits = tracked.file, pipeline.limits
    stretch = Stretch(tracked, file.header_bytes, tracked.offset_bytes)
    logs = pipeline.datacenters[datacenter].logs
    for byte_range, data in read_pieces(logs, stretch, pipeline.verification.piece, limits.line):
        found: list[LogRecord] = []
        if needle.may_be_in(data, log):
            events = read_events(data, file, byte_range, log, limits).events
            wanted = pc.is_in(events["_id"], pa.array(needle.ids, pa.string()))
            for row in events.filter(wanted).to_pylist():
                was_read = row["_offset"] < offsets.get(file.number, 0)
                found.append(
                    LogRecord(
                        file.path, file.number, row["_offset"], row["_time_us"], row.get("_key"), was_read
                    )
                )
        yield found, byte_range.end_bytes
