"""Single records, read again at their places in a log file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import pyarrow as pa

from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import candidate_paths
from photon.logs.source import UNREADABLE, Source, has_head, open_source
from photon.pipeline.file import ForeignLog, Limits

FIRST_READ_BYTES = 4096  # most lines are shorter


def read_records(
    logs_folder: Path, file: LogFile, event_ids: Mapping[int, str], log: ForeignLog, limits: Limits
) -> dict[int, pa.Table]:
    """The records of these events by their offsets, as `FOREIGN_EVENTS`; without those that are gone.

    In the order of the file, so that a compressed one is read through once.
    """
    found: dict[int, pa.Table] = {}
    for path in candidate_paths(logs_folder / file.path, file.inode):
        try:
            with open_source(path, compressed=path.suffix == ".gz") as source:
                if not has_head(source, file):
                    continue
                for offset in sorted(event_ids.keys() - found.keys()):
                    line = _line_at(source, offset, limits.line_bytes)
                    part = ByteRange(file.number, offset, offset + len(line), crc32(line), 1)
                    events = read_events(line, file, part, log, limits).events
                    if events["_id"].to_pylist() == [event_ids[offset]]:
                        found[offset] = events
        except UNREADABLE:
            continue
    return found


def _line_at(source: Source, offset_bytes: int, line_limit_bytes: int) -> bytes:
    data = b""
    for length in (FIRST_READ_BYTES, line_limit_bytes + 1):
        data = source.read(offset_bytes, length)
        if b"\n" in data or len(data) < length:
            break
    return data[: data.find(b"\n") + 1] or data
