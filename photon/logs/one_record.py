"""A single record, read again at its place in a log file."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pyarrow as pa

from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import candidate_paths
from photon.logs.source import UNREADABLE, has_head, open_source
from photon.pipeline.file import ForeignLog, Limits


def read_record(
    logs_folder: Path, file: LogFile, offset_bytes: int, event_id: str, log: ForeignLog, limits: Limits
) -> pa.Table | None:
    """The record of this event that begins there, as `FOREIGN_EVENTS`; None if it is not there any more."""
    for path in candidate_paths(logs_folder / file.path, file.inode):
        try:
            with open_source(path, compressed=path.suffix == ".gz") as source:
                data = source.read(offset_bytes, limits.line_bytes + 1) if has_head(source, file) else b""
        except UNREADABLE:
            continue
        line = data[: data.find(b"\n") + 1] or data
        byte_range = ByteRange(file.number, offset_bytes, offset_bytes + len(line), crc32(line), 1)
        events = read_events(line, file, byte_range, log, limits).events
        if events["_id"].to_pylist() == [event_id]:
            return events
    return None
