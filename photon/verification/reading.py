"""Verification's tasks read raw logs again with these: whole stretches, or records at their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import digests_of
from photon.join.adapting import RawRecords, skip_records
from photon.logs.files import LogFile, TrackedFile
from photon.logs.folders import log_folder
from photon.logs.one_record import with_lines
from photon.logs.parse import ParsedRange, read_events
from photon.logs.ranges import NOT_READ_AGAIN, PIECE_BYTES, RangeGone, Stretch, read_pieces
from photon.pipeline.event_time import event_times_us, primary_time_us
from photon.pipeline.sections import ForeignLog, PrimaryLog
from photon.process.clock import NO_TIME_US
from photon.verification.classes import Evidence
from photon.verification.tasks import (
    FOREIGN_RECORDS,
    PRIMARY_KEYS,
    PRIMARY_RECORDS,
    TO_READ,
    TaskScope,
    filled,
)

# Records so near each other are read in one go: what lies between costs less than another reading.
NEIGHBOUR_BYTES = 2**16
_STRING, _INT32, _INT64 = pa.string(), pa.int32(), pa.int64()


def read_foreign(stretches: Iterable[tuple[str, Stretch]], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """All foreign records that begin in the stretches, as the logs have them or as they were mended.

    `FOREIGN_RECORDS`.
    """

    def records(parsed: ParsedRange, datacenter: str, file: LogFile) -> Iterator[dict[str, Any]]:
        yield _foreign_columns(parsed.events, datacenter, file, scope)
        letters = parsed.dead_letters
        bad_line = pa.array([int(Evidence.BAD_LINE)] * letters.num_rows, _INT32)
        yield {**_place(letters, datacenter), "evidence": bad_line}

    return _read(stretches, scope, scope.pipeline.foreign, records, FOREIGN_RECORDS)


_SIGN = np.uint64(2**63)  # turned round, digests are in the same order as signed numbers


def read_primary(stretches: Iterable[tuple[str, Stretch]], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """All primary records that begin in the stretches (`PRIMARY_RECORDS`)."""

    def records(parsed: ParsedRange, datacenter: str, file: LogFile) -> Iterator[dict[str, Any]]:
        events = parsed.events
        yield {
            **_place(events, datacenter),
            "key": events["_id"],
            "time_us": events["_time_us"],
            "digest": pa.array((digests_of(events["_raw"]) ^ _SIGN).view(np.int64)),
            "path": pa.array([file.path] * events.num_rows, _STRING),
            "raw": events["_raw"],
        }

    return _read(stretches, scope, scope.pipeline.primary, records, PRIMARY_RECORDS)


def read_primary_keys(stretches: Iterable[tuple[str, Stretch]], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """Where the lines of primary logs are that begin in the stretches (`PRIMARY_KEYS`)."""

    def records(parsed: ParsedRange, datacenter: str, file: LogFile) -> Iterator[dict[str, Any]]:
        events = parsed.events
        yield {**_place(events, datacenter), "key": events["_id"], "time_us": events["_time_us"]}
        yield _place(parsed.dead_letters, datacenter)

    return _read(stretches, scope, scope.pipeline.primary, records, PRIMARY_KEYS)


ReadStretches = Callable[[Iterable[tuple[str, Stretch]], TaskScope], Iterator[pa.RecordBatch]]


def read_places(
    batches: Iterable[pa.RecordBatch], scope: TaskScope, read: ReadStretches
) -> Iterator[pa.RecordBatch]:
    """The records that begin at these places, and bytes that can't be read, as `read` has them.

    Places (`TO_READ`) come in their order, those of a compressed file all in one task.
    """
    for (datacenter, number), offsets in _by_file(batches, scope):
        stretches = neighbours(scope.files[datacenter, number], offsets)
        for found in read(((datacenter, stretch) for stretch in stretches), scope):
            at = found.column("offset").to_numpy()
            nearest = np.minimum(np.searchsorted(offsets, at), len(offsets) - 1)
            is_wanted = pa.array(offsets[nearest] == at)
            yield found.filter(pc.or_(is_wanted, pc.is_valid(found.column("lost_path"))))


def _by_file(
    batches: Iterable[pa.RecordBatch], scope: TaskScope
) -> Iterator[tuple[tuple[str, int], np.ndarray]]:
    """Offsets by datacenter and file number: at most a batch of them, but all of a compressed file.

    That one is read from its start for each.
    """
    last, held = ("", 0), list[np.ndarray]()
    for batch in batches:
        names, numbers, offsets = (batch.column(name) for name in TO_READ.names)
        files = list(zip(names.to_pylist(), numbers.to_pylist(), strict=True))
        for where, rows in groupby(range(batch.num_rows), files.__getitem__):
            of_file = list(rows)
            if held and (where != last or not scope.files[last].file.compressed):
                yield last, np.concatenate(held)
                held = []
            last = where
            held.append(offsets.to_numpy()[of_file[0] : of_file[-1] + 1])
    if held:
        yield last, np.concatenate(held)


def neighbours(tracked: TrackedFile, offsets: np.ndarray) -> Iterator[Stretch]:
    """Stretches in which records begin at all of these offsets, which are in their order."""
    (ends,) = np.nonzero(np.diff(offsets) > NEIGHBOUR_BYTES)
    for group in np.split(offsets, ends + 1):
        yield Stretch(tracked, int(group[0]), int(group[-1]) + 1, begins_record=True)


def _read(
    stretches: Iterable[tuple[str, Stretch]],
    scope: TaskScope,
    log: PrimaryLog | ForeignLog,
    records: Callable[[ParsedRange, str, LogFile], Iterator[dict[str, Any]]],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    pipeline = scope.pipeline
    folders = {
        (name, is_gone): log_folder(place.logs, is_listed_once=is_gone)
        for name, place in pipeline.datacenters.items()
        for is_gone in (False, True)
    }
    for datacenter, stretch in stretches:
        file, logs = stretch.tracked.file, pipeline.datacenters[datacenter].logs
        folder = folders[datacenter, stretch.tracked.state != "open"]
        read_up_to = stretch.start_bytes
        pieces = read_pieces(logs, stretch, PIECE_BYTES, pipeline.limits.line_bytes, log, folder)
        try:
            for byte_range, data in pieces:
                parsed = read_events(data, file, byte_range, log, pipeline.limits)
                if isinstance(log, ForeignLog):
                    lines = scope.mended_in(datacenter, byte_range)
                    parsed = with_lines(parsed, lines, file, log, pipeline.limits)
                for columns in records(parsed, datacenter, file):
                    yield from filled(columns, schema)
                read_up_to = byte_range.end_bytes
        except NOT_READ_AGAIN as error:
            lost = {
                "datacenter": [datacenter],
                "file": [file.number],
                "offset": [read_up_to],
                "lost_path": [file.path],
                "lost_bytes": [max(0, stretch.end_bytes - read_up_to)],
                "lost_reason": [error.reason if isinstance(error, RangeGone) else str(error)],
            }
            yield from filled(lost, schema)


def _foreign_columns(events: pa.Table, datacenter: str, file: LogFile, scope: TaskScope) -> dict[str, Any]:
    log, primary = scope.pipeline.foreign, scope.pipeline.primary
    ids, times = events["_id"], events["_time_us"]
    evidence = np.where(pc.is_null(events["_key"]).to_numpy(), int(Evidence.SKIPPED), 0).astype(np.int32)
    raws = RawRecords(events["_raw"].combine_chunks(), [file.header], np.zeros(events.num_rows, np.int64))
    evidence[skip_records(scope.adapter, raws, scope.pipeline).rows] |= Evidence.SKIPPED
    event_us = event_times_us(ids, times, log)
    offsets = events["_offset"].to_numpy()
    for requeued in scope.requeued.get(datacenter, ()):
        if requeued.file_number == file.number:
            inside = (offsets >= requeued.start_bytes) & (offsets < requeued.end_bytes)
            evidence[inside] |= Evidence.PENDING
    return {
        **_place(events, datacenter),
        "event_id": ids,
        "key": events["_key"],
        "time_us": times,
        "event_us": pa.array(event_us, mask=event_us == NO_TIME_US),
        "around_us": _around_us(events["_key"], times, primary),
        "evidence": pa.array(evidence),
        "raw": events["_raw"],
    }


def _around_us(keys: Any, times: Any, log: PrimaryLog) -> Any:
    """About when each primary was: the times that keys carry, else `times`, those of the foreign records."""
    if log.id_codec is None:
        return times
    pairs = zip(keys.to_pylist(), times.to_pylist(), strict=True)
    return pa.array([primary_time_us(key or "", time_us, log) for key, time_us in pairs], _INT64)


def _place(events: pa.Table, datacenter: str) -> dict[str, Any]:
    names = pa.array([datacenter] * events.num_rows, _STRING)
    return {"datacenter": names, "file": events["_file"], "offset": events["_offset"]}
