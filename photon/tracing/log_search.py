"""Search the raw logs of a datacenter for records with some ids, to their ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import Side, TrackedFile
from photon.logs.formats.line_formats import reader_of
from photon.logs.parse import read_events
from photon.logs.ranges import NOT_READ_AGAIN, PIECE_BYTES, Stretch, read_pieces
from photon.logs.tailing.tail import LogTail
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog, Log, PrimaryLog
from photon.process.clock import SystemClock, in_utc
from photon.process.readable import readable
from photon.state.view import read_offsets
from photon.tracing.report import LogRecord, SearchedFile, SearchedLog, Trace

# An id of these characters is in a line as it is, whatever the format.
_PLAIN_ID = re.compile(r"[A-Za-z0-9 _.:@#+=~-]+")
MOST_FILES_NAMED = 3  # files of a searched log: those that were seen to grow last
# Files that the state does not know get numbers of their own, for one search.
_FIRST_NEW_FILE_NUMBER = 2**30
Progress = Callable[[str], None]  # is told how far a search is


def search_log(
    pipeline: Pipeline,
    datacenter: str,
    side: Side,
    ids: Sequence[str],
    found: Trace,
    progress: Progress,
) -> list[LogRecord]:
    """The records with these ids, by file and offset, also those not read yet. Notes problems in `found`."""
    place, log = pipeline.datacenters[datacenter], _log(pipeline, side)
    known = {tracked.file.number: tracked for tracked in read_offsets(place.state).of(side)}
    tail = LogTail(place.logs, side, log, pipeline.limits, pipeline.tailing)
    seen = tail.observe(known, _FIRST_NEW_FILE_NUMBER, SystemClock().now_us(), final=True)
    tracked_files = {**known, **seen.changed}
    problems = [f"{problem.path}: {problem.reason}" for problem in seen.problems]
    problems += [f"{readable(f.file.path)}: {why}" for f in tracked_files.values() if (why := _harm(f, side))]
    present = [tracked for _, tracked in sorted(tracked_files.items()) if tracked.state == "open"]
    all_bytes, done_bytes = sum(tracked.size_bytes for tracked in present), 0
    records: list[LogRecord] = []
    searched: list[SearchedFile] = []
    for tracked in present:
        number = tracked.file.number
        read_up_to = known[number].offset_bytes if number in known else 0
        searched_up_to = tracked.file.header_bytes
        try:
            for some, end_bytes in _search_file(pipeline, datacenter, tracked, ids, read_up_to):
                records += some
                searched_up_to = end_bytes
                mebibytes = f"{(done_bytes + end_bytes) / 2**20:,.0f} of {all_bytes / 2**20:,.0f} MiB"
                progress(f"searching the {side} log of {datacenter}: {mebibytes}")
        except NOT_READ_AGAIN as error:
            problems.append(str(error))
        done_bytes += tracked.size_bytes
        grown_us = tracked.grown_us if number in known else None
        searched.append(SearchedFile(tracked.file.path, searched_up_to, read_up_to, grown_us))
    found.datacenters[datacenter].searched.append(_searched(side, searched))
    found.problems += [f"datacenter {datacenter}: {problem}" for problem in problems]
    return records


def _harm(tracked: TrackedFile, side: Side) -> str:
    """Why a file may not say what was once read of it; empty if it does."""
    if tracked.state == "gone":
        return f"this {side} log file is not there any more"
    if tracked.state == "replaced":
        return f"this {side} log file is not there any more; another one is in its place"
    if tracked.altered_us:
        seen = in_utc(tracked.altered_us, "seconds")
        return (
            f"this {side} log file was written to in its place, without growing (seen at {seen}): its lines "
            "may be others than those that were joined"
        )
    return ""


def _searched(side: Side, files: Sequence[SearchedFile]) -> SearchedLog:
    """The report on a log that was searched, with those of its files that were seen to grow last."""
    latest = sorted(files, key=lambda file: (file.grown_us is not None, -(file.grown_us or 0)))
    return SearchedLog(
        side,
        len(files),
        sum(file.searched_bytes for file in files),
        sum(file.read_bytes for file in files),
        max((file.grown_us for file in files if file.grown_us is not None), default=None),
        tuple(latest[:MOST_FILES_NAMED]),
    )


def _search_file(
    pipeline: Pipeline, datacenter: str, tracked: TrackedFile, ids: Sequence[str], read_up_to: int
) -> Iterator[tuple[list[LogRecord], int]]:
    """Yield for each piece of a file the records with these ids, and where the piece ends."""
    file, log, limits = tracked.file, _log(pipeline, tracked.file.side), pipeline.limits
    whole = replace(tracked, offset_bytes=tracked.size_bytes, tail_hash=b"")
    stretch = Stretch(whole, file.header_bytes, whole.offset_bytes)
    logs = pipeline.datacenters[datacenter].logs
    for byte_range, data in read_pieces(logs, stretch, PIECE_BYTES, limits.line_bytes, log):
        rows: list[dict[str, Any]] = []
        if may_contain(data, ids, log):
            events = read_events(data, file, byte_range, log, limits).events
            rows = events.filter(pc.is_in(events["_id"], pa.array(ids, pa.string()))).to_pylist()
        records = [
            LogRecord(
                file.path,
                file.number,
                row["_offset"],
                row["_time_us"],
                row.get("_key"),
                was_read=row["_offset"] < read_up_to,
            )
            for row in rows
        ]
        yield records, byte_range.end_bytes


def may_contain(data: bytes, ids: Sequence[str], log: Log) -> bool:
    """False only if no record of these bytes can have one of the ids, so that they need not be parsed."""
    if len(log.id) > 1 or not all(_PLAIN_ID.fullmatch(id) for id in ids):
        return True
    reader = reader_of(log)  # none: a header names the values, which are as they are
    return any(id.encode() in data for id in ids) or (reader is not None and reader.may_escape(data))


def _log(pipeline: Pipeline, side: Side) -> PrimaryLog | ForeignLog:
    return pipeline.primary if side == "primary" else pipeline.foreign
