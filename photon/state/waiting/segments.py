"""Waiting segments: immutable pairs of files, a row in both for each record, by due time.

`NAME.records` (Parquet) has all of a record. `NAME.index` (Arrow, mapped into memory) has what the dispatcher
asks: when records are due, and which wait for a key. Each file can be made again from the other one, as far
as it goes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.state.waiting.reasons import NEVER_US, Codes
from photon.state.waiting.retries import Retries
from photon.state.waiting.states import Rows, Tally, tally_of
from photon.storage import local_copies
from photon.storage.full_disks import why_not
from photon.storage.store import store_of
from photon.storage.store_errors import tells_of_damage

FOLDER = "waiting"  # below what a datacenter's tasks work on
RECORDS, INDEX = ".records", ".index"
FORMAT_VERSION = 1
GROUP_ROWS = 2048  # a records file is read by such groups even for one record, in 1 ms
_NAME, _FORMAT, _CHECKSUMS = b"photon.segment", b"photon.format", b"photon.checksums"

RECORD_COLUMNS = pa.schema(
    [
        ("_file", pa.int32()),
        ("_offset", pa.int64()),
        ("_raw", pa.binary()),  # null: its bytes are gone (protocol A19)
        ("_id", pa.string()),
        ("_key", pa.string()),
        ("_time_us", pa.int64()),
        ("attempts", pa.int32()),
        ("first_seen_us", pa.int64()),
        ("recorded", pa.bool_()),  # the table of unjoined events has it already
        ("key_hash", pa.uint64()),
        ("primary_time_us", pa.int64()),  # when its primary is expected: from the key, else the record's own
        ("reason", pa.int8()),  # a code of `photon.state.waiting.reasons`
        ("due_us", pa.int64()),
    ]
)
# A task reads these columns again; the others are the index's, for repairs.
TASK_COLUMNS = [*RECORD_COLUMNS.names[:9], "reason"]
# Columns of the index: these of the records, then their hashes in order and the row of each.
_COPIED = ("due_us", "reason", "attempts", "first_seen_us", "primary_time_us", "_file", "_offset", "_id")
_INDEX_COLUMNS = (*_COPIED, "hashes", "rows_by_hash")


class WaitingDamaged(Exception):
    """Files of waiting segments that are gone, or not what was written."""

    def __init__(self, segments: Sequence[str]) -> None:
        super().__init__(", ".join(segments))
        self.segments = tuple(segments)


@dataclass(frozen=True)
class WaitingSegment:
    """A segment as it was written: what the dispatcher's database says of it."""

    name: str
    records: int
    raw_bytes: int
    tally: Tally  # all of its records are open
    next_due_us: int
    least_primary_us: int
    is_given_up: bool  # all of its records are unjoinable


def write_segment(folder: Location, name: str, records: pa.Table) -> WaitingSegment:
    """Write records (`RECORD_COLUMNS`, in any order) durably. OSError."""
    records = records.select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)
    ordered = records.take(pc.sort_indices(records, [("due_us", "ascending")])).combine_chunks()
    try:
        store_of(folder).make()
        write_records(folder, name, ordered)
        write_index(folder, name, ordered)
        store_of(folder).sync()
    except OSError as error:
        raise OSError(f"cannot write waiting records to {folder}: {why_not(error, folder)}") from error
    return info_of(name, ordered)


def info_of(name: str, ordered: pa.Table) -> WaitingSegment:
    """The description that the dispatcher's database keeps of records in their order."""
    tally = tally_of(ordered["reason"].to_numpy(), 0)
    return WaitingSegment(
        name,
        ordered.num_rows,
        pc.sum(pc.binary_length(ordered["_raw"])).as_py() or 0,
        tally,
        ordered["due_us"][0].as_py(),
        pc.min(ordered["primary_time_us"]).as_py(),
        is_given_up=ordered["due_us"][0].as_py() == NEVER_US,
    )


def write_records(folder: Location, name: str, ordered: pa.Table) -> None:
    """Write the records file of a segment, or put it into the place of one that is damaged. OSError.

    The caller syncs the folder.
    """
    table = ordered.replace_schema_metadata({_NAME: name, _FORMAT: str(FORMAT_VERSION)})

    def write(sink: BinaryIO) -> None:
        pq.write_table(
            table,
            sink,
            compression="zstd",
            row_group_size=GROUP_ROWS,
            write_page_checksum=True,
            use_dictionary=False,
        )

    store_of(folder).put(name + RECORDS, write)


def write_index(folder: Location, name: str, ordered: pa.Table) -> None:
    """Write the index of a segment, or put it into the place of one that is damaged. OSError.

    The caller syncs the folder.
    """
    hashes = ordered["key_hash"].to_numpy()
    by_hash = np.argsort(hashes, kind="stable")
    columns = {name: _flat(ordered[name]) for name in _COPIED}
    columns["hashes"] = pa.array(hashes[by_hash])
    columns["rows_by_hash"] = pa.array(by_hash.astype(np.uint32))
    checksums = {column: _checksum(values) for column, values in columns.items()}
    metadata = {_NAME: name, _FORMAT: str(FORMAT_VERSION), _CHECKSUMS: json.dumps(checksums)}
    table = pa.table(columns).replace_schema_metadata(metadata)

    def write(sink: BinaryIO) -> None:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    store_of(folder).put(name + INDEX, write)
    local_copies.forget(folder, name + INDEX)


def remove_file(folder: Location, file: str) -> None:
    """Remove a file of a segment, and this machine's copy. OSError."""
    local_copies.forget(folder, file)
    store_of(folder).remove(file)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _checksum(values: pa.Array) -> int:
    """The checksum of a column without nulls."""
    if not pa.types.is_string(values.type):
        return zlib.crc32(np.ascontiguousarray(values.to_numpy()).data.cast("B"))
    lengths = np.ascontiguousarray(pc.binary_length(values).to_numpy()).data.cast("B")
    starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    text = values.buffers()[2]
    data = memoryview(text)[starts[0] : starts[-1]] if text is not None else b""
    return zlib.crc32(data, zlib.crc32(lengths))


class WaitingIndex:
    """The index of a segment. Its columns are views of the file."""

    def __init__(self, folder: Location, name: str) -> None:
        """WaitingDamaged, FormatTooNew, OSError."""
        self.name = name
        was_here = local_copies.has_copy(folder, name + INDEX)
        try:
            self._open(folder)
        except WaitingDamaged:
            local_copies.forget(folder, name + INDEX)
            if not was_here:
                raise
            self._open(folder)  # only its copy was damaged

    def _open(self, folder: Location) -> None:
        name, path = self.name, folder / (self.name + INDEX)
        try:
            path = local_copies.path_of(folder, name + INDEX)
            with pa.ipc.open_file(pa.memory_map(str(path))) as file:
                self._table = file.read_all()
            metadata = self._table.schema.metadata or {}
            version = int(metadata.get(_FORMAT, b"0"))
            self._checksums = json.loads(metadata.get(_CHECKSUMS, b"{}"))
        except OSError as error:
            raise _damage(name, error, path) from error
        except (pa.ArrowException, ValueError):
            raise WaitingDamaged([name]) from None
        if version > FORMAT_VERSION:
            raise FormatTooNew(path, version, FORMAT_VERSION)
        is_same = metadata.get(_NAME) == name.encode()
        if not is_same or self._table.column_names != list(_INDEX_COLUMNS) or not self._table.num_rows:
            raise WaitingDamaged([name])

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        numbers: npt.NDArray[Any] = _flat(self._table[name]).to_numpy(zero_copy_only=True)
        return numbers

    @cached_property
    def due_us(self) -> Rows:
        """In ascending order: the rows are in it."""
        return self._numbers("due_us")

    @cached_property
    def reasons(self) -> Codes:
        return self._numbers("reason")

    @cached_property
    def files(self) -> npt.NDArray[np.int32]:
        return self._numbers("_file")

    @cached_property
    def offsets_bytes(self) -> Rows:
        return self._numbers("_offset")

    @property
    def records(self) -> pa.Table:
        """All that is known of the records here but their bytes, in the order of their rows."""
        return self._table.select(_COPIED)

    @property
    def hashes_by_row(self) -> npt.NDArray[np.uint64]:
        """The hash of each record's key."""
        hashes = np.empty(len(self), np.uint64)
        hashes[self._numbers("rows_by_hash")] = self._numbers("hashes")
        return hashes

    def check(self) -> None:
        """Compare the checksums, which reads all of the file. WaitingDamaged."""
        found = {name: _checksum(_flat(self._table[name])) for name in _INDEX_COLUMNS}
        if found != self._checksums:
            raise WaitingDamaged([self.name])

    def rows_of_event(self, event_id: str) -> Rows:
        """The records of an event."""
        return np.flatnonzero(pc.equal(_flat(self._table["_id"]), event_id).to_numpy(False))

    def rows_of_keys(self, keys: npt.NDArray[np.uint64]) -> Rows:
        """The records whose key has one of these hashes, which are sorted."""
        hashes: npt.NDArray[np.uint64] = self._numbers("hashes")
        if not len(keys):
            return np.empty(0, np.int64)
        if len(keys) < len(hashes):  # the fewer are looked up among the more
            first = np.searchsorted(hashes, keys)
            hits = first[hashes[np.minimum(first, len(hashes) - 1)] == keys]
            found = _all_copies(hashes, hits)
        else:
            places = np.searchsorted(keys, hashes)
            found = np.flatnonzero(keys[np.minimum(places, len(keys) - 1)] == hashes)
        rows: Rows = self._numbers("rows_by_hash")[found].astype(np.int64)
        return np.sort(rows)


def _all_copies(hashes: npt.NDArray[np.uint64], first: Rows) -> Rows:
    """All places of the hashes that are at `first`: copies follow each other."""
    ends = np.searchsorted(hashes, hashes[first], side="right")
    counts = ends - first
    copies = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(np.repeat(first, counts) + copies)


def _damage(name: str, error: OSError, path: Location) -> Exception:
    if tells_of_damage(error):
        return WaitingDamaged([name])
    return OSError(f"cannot read waiting records from {path}: {error}")


# -- the records


def read_all_records(folder: Location, name: str) -> pa.Table:
    """All records of a segment, in the order of their rows. WaitingDamaged, FormatTooNew, OSError."""
    with _OpenedRecords(folder, name) as records:
        return records.read(np.arange(records.rows))


def read_event_times(folder: Location, name: str) -> Rows:
    """The event times of a segment's records, in the order of their rows. As `read_all_records`."""
    with _OpenedRecords(folder, name) as records:
        times: Rows = records.read(np.arange(records.rows), ["_time_us"])["_time_us"].to_numpy()
    return times


def read_retries(folder: Location, retries: Sequence[Retries]) -> pa.Table:
    """The records that are referred to: their `TASK_COLUMNS`, and `final`.

    WaitingDamaged; OSError where nobody knows whether a file is.
    """
    nothing = RECORD_COLUMNS.empty_table().select(TASK_COLUMNS)
    parts = [nothing.append_column("final", pa.array([], pa.bool_()))]
    damaged: list[str] = []
    for wanted in retries:
        try:
            with _OpenedRecords(folder, wanted.segment) as records:
                part = records.read(wanted.rows.to_numpy(), TASK_COLUMNS)
        except WaitingDamaged:
            damaged.append(wanted.segment)
            continue
        is_same = part["_file"].combine_chunks() == wanted.files
        if is_same and part["_offset"].combine_chunks() == wanted.offsets_bytes:
            parts.append(part.append_column("final", wanted.finals))
        else:
            damaged.append(wanted.segment)
    if damaged:
        raise WaitingDamaged(damaged)
    return pa.concat_tables(parts)


class _OpenedRecords:
    """An open records file."""

    def __init__(self, folder: Location, name: str) -> None:
        self._folder, self._name, self._path = folder, name, folder / (name + RECORDS)

    def __enter__(self) -> _OpenedRecords:
        try:
            source = store_of(self._folder).open(self._name + RECORDS)
            # A request for each column of each group would cost more on S3 than what lies between them.
            pre_buffer = not isinstance(self._folder, Path)
            self._file = pq.ParquetFile(source, pre_buffer=pre_buffer, page_checksum_verification=True)
        except OSError as error:
            raise _damage(self._name, error, self._path) from error
        except pa.ArrowException:
            raise WaitingDamaged([self._name]) from None
        schema = self._file.schema_arrow
        metadata = schema.metadata or {}
        version = int(metadata.get(_FORMAT, b"0"))
        if version > FORMAT_VERSION:
            self._file.close(force=True)
            raise FormatTooNew(self._path, version, FORMAT_VERSION)
        if schema.remove_metadata() != RECORD_COLUMNS or metadata.get(_NAME) != self._name.encode():
            self._file.close(force=True)
            raise WaitingDamaged([self._name])
        self.rows = self._file.metadata.num_rows
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)

    def read(self, rows: Rows, columns: list[str] | None = None) -> pa.Table:
        """The records at these rows, in their order. Reads the groups that they are in, and no others."""
        if len(rows) and rows.max() >= self.rows:
            raise WaitingDamaged([self._name])
        groups, group_of = np.unique(rows // GROUP_ROWS, return_inverse=True)
        places = group_of * GROUP_ROWS + rows % GROUP_ROWS
        try:
            found = self._file.read_row_groups(groups.tolist(), columns)
        except OSError as error:
            raise _damage(self._name, error, self._path) from error
        except pa.ArrowException:
            raise WaitingDamaged([self._name]) from None
        return found.replace_schema_metadata(None).take(pa.array(places, pa.int64())).combine_chunks()
