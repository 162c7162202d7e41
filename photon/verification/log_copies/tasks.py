"""Functions of the tasks that compare copies of logs: digests of byte ranges, and the ids of some hours.

Arrow out, without Spark, so that it is tested without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import hash_ids
from photon.logs.files import Side
from photon.logs.parse import read_events
from photon.logs.ranges import NOT_READ_AGAIN, PIECE_BYTES, Stretch, read_pieces
from photon.pipeline.file import Pipeline
from photon.verification.log_copies.lacks import HOUR_US, FileDigest

_STRING, _INT32, _INT64, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_FILE = {"datacenter": _STRING, "side": _STRING, "file": _INT32}
DIGESTS = pa.schema(
    {
        **_FILE,
        "hour_us": _INT64,
        "events": _INT64,
        "low": _INT64,
        "high": _INT64,
        "first_offset": _INT64,
        "last_offset": _INT64,
        "lost": _BOOL,  # no events: bytes that can't be read
    }
)
IDS = pa.schema(
    {**_FILE, "hour_us": _INT64, "event": _STRING, "offset": _INT64, "time_us": _INT64, "lost": _BOOL}
)


@dataclass(frozen=True)
class FilePart:
    """A part of one file of a datacenter; `hours_us` where only those hours are wanted."""

    datacenter: str
    stretch: Stretch
    hours_us: tuple[int, ...] = ()

    @property
    def side(self) -> Side:
        return self.stretch.tracked.file.side


def digest_parts(parts: Iterable[FilePart], pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
    """For each piece of the parts, the events of each hour (`DIGESTS`)."""
    for part in parts:
        for events in _events(part, pipeline):
            if events is None:
                yield _batch(part, DIGESTS, {"lost": [True]})
                continue
            hashes = hash_ids(events["event"])
            hours = events["time_us"].to_numpy() // HOUR_US * HOUR_US
            starts, hour_of = np.unique(hours, return_inverse=True)
            offsets = events["offset"].to_numpy()
            columns: dict[str, list[int]] = {name: [] for name in DIGESTS.names[3:-1]}
            for number, hour_us in enumerate(starts.tolist()):
                of_hour = hour_of == number
                mine = hashes[of_hour]
                low, high = mine & np.uint64(0xFFFFFFFF), mine >> np.uint64(32)
                values = (
                    hour_us,
                    len(mine),
                    low.sum(),
                    high.sum(),
                    offsets[of_hour].min(),
                    offsets[of_hour].max(),
                )
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(int(value))
            if len(starts):
                yield _batch(part, DIGESTS, {**columns, "lost": [False] * len(starts)})


def ids_of_parts(parts: Iterable[FilePart], pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
    """The events of the parts that are of the wanted hours (`IDS`)."""
    for part in parts:
        for events in _events(part, pipeline):
            if events is None:
                yield _batch(part, IDS, {"lost": [True]})
                continue
            hours = pa.array(events["time_us"].to_numpy() // HOUR_US * HOUR_US)
            wanted = events.append_column("hour_us", hours).filter(
                pc.is_in(hours, pa.array(part.hours_us, _INT64))
            )
            if wanted.num_rows:
                columns = {name: wanted[name] for name in ("hour_us", "event", "offset", "time_us")}
                yield _batch(part, IDS, {**columns, "lost": [False] * wanted.num_rows})


def _events(part: FilePart, pipeline: Pipeline) -> Iterator[pa.Table | None]:
    """The events of each piece: their identity, offset and time; None where bytes can't be read."""
    log = pipeline.primary if part.side == "primary" else pipeline.foreign
    logs = pipeline.datacenters[part.datacenter].logs
    try:
        for byte_range, data in read_pieces(logs, part.stretch, PIECE_BYTES, pipeline.limits.line_bytes, log):
            events = read_events(data, part.stretch.tracked.file, byte_range, log, pipeline.limits).events
            columns = {"event": events["_id"], "offset": events["_offset"], "time_us": events["_time_us"]}
            yield pa.table(columns)
    except NOT_READ_AGAIN:
        yield None


def _batch(part: FilePart, schema: pa.Schema, columns: dict[str, object]) -> pa.RecordBatch:
    """One batch; columns that are not given are null."""
    rows = len(columns["lost"])  # type: ignore[arg-type]
    own = {
        "datacenter": [part.datacenter] * rows,
        "side": [part.side] * rows,
        "file": [part.stretch.tracked.file.number] * rows,
    }
    given = {**own, **columns}
    arrays = {f.name: given.get(f.name, pa.nulls(rows, f.type)) for f in schema}
    (batch,) = pa.table(arrays).cast(schema).combine_chunks().to_batches()
    return batch


def digests_of(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[tuple[str, FileDigest]], set[tuple[str, int]]]:
    """Digests by datacenter, and the files with bytes that can't be read, of rows of `DIGESTS`."""
    columns = [name for name in DIGESTS.names if name not in ("datacenter", "lost")]
    found, lost = [], set()
    for row in rows:
        if row["lost"]:
            lost.add((row["datacenter"], row["file"]))
        else:
            found.append((row["datacenter"], FileDigest(**{name: row[name] for name in columns})))
    return found, lost
