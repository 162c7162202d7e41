"""The data files of a table at one version: chosen by the bounds that its log has, read page by page.

What a look costs grows with the files that may have wanted rows, not with all files of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from photon.adapters import DATE_COLUMN
from photon.pipeline.location import LEADS_OUT, OutsideFolder
from photon.storage.store import ObjectStore

_COLUMNS = {
    "path": pa.string(),
    "size_bytes": pa.int64(),
    "num_records": pa.int64(),
    "min._epoch": pa.string(),
    "max._epoch": pa.string(),
    "min._batch": pa.int64(),
    "max._batch": pa.int64(),
    f"partition.{DATE_COLUMN}": pa.date32(),
    "null_count._epoch": pa.int64(),
    "null_count._batch": pa.int64(),
}

READ_AT_ONCE_BYTES = 2**20  # smaller files are one request to a store, and not three
_FILTERED = pa.schema([("_epoch", pa.string()), ("_batch", pa.int64())])  # rows are chosen by these columns


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file as the table's log describes it. None: the log does not say."""

    path: str  # relative to the table's folder
    size_bytes: int
    rows: int | None
    first_epoch: str | None
    last_epoch: str | None
    first_batch: int | None
    last_batch: int | None
    date: date | None = None  # UTC day of all its events, where the table is partitioned
    epoch_nulls: int | None = None  # rows that bounds tell nothing of
    batch_nulls: int | None = None

    @property
    def epoch(self) -> str | None:
        """The epoch of all its rows; None if there are several, or nobody knows."""
        return self.first_epoch if self.first_epoch == self.last_epoch else None


class DataFiles:
    """All data files of one version of a table."""

    def __init__(self, handle: DeltaTable) -> None:
        """DeltaError, OutsideFolder."""
        found = pa.table(handle.get_add_actions(flatten=True))
        for path in found["path"].filter(pc.match_substring_regex(found["path"], LEADS_OUT)).to_pylist():
            raise OutsideFolder(handle.table_uri, path)
        columns = [
            found[name].cast(kind) if name in found.column_names else pa.nulls(found.num_rows, kind)
            for name, kind in _COLUMNS.items()
        ]
        self._files = pa.table(columns, names=list(_COLUMNS))

    def __len__(self) -> int:
        return int(self._files.num_rows)

    def all(self) -> list[DataFile]:
        """Every file, in no order."""
        return _parsed(self._files)

    def epochs(self) -> list[str]:
        """The epochs whose rows they have, sorted."""
        names = (self._files.column(f"{bound}._epoch").unique().drop_null() for bound in ("min", "max"))
        return sorted({name for column in names for name in column.to_pylist()})

    def of_epoch(self, epoch: str, batches: Collection[int] | range | None = None) -> list[DataFile]:
        """The files that may have rows of an epoch, and of one of these batches, in the batches' order."""
        column = self._files.column
        wanted = pc.and_(
            _or_unknown(pc.less_equal(column("min._epoch"), epoch)),
            _or_unknown(pc.greater_equal(column("max._epoch"), epoch)),
        )
        if batches is not None:
            if not batches:
                return []
            wanted = pc.and_(wanted, _or_unknown(pc.less_equal(column("min._batch"), max(batches))))
            wanted = pc.and_(wanted, _or_unknown(pc.greater_equal(column("max._batch"), min(batches))))
        found = _parsed(self._files.filter(wanted))
        if batches is not None and not isinstance(batches, range):
            found = [file for file in found if _has_one_of(file, batches)]
        return sorted(found, key=lambda file: (file.last_batch or 0, file.path))


def _has_one_of(file: DataFile, batches: Collection[int]) -> bool:
    first, last = file.first_batch, file.last_batch
    return first is None or last is None or any(first <= batch <= last for batch in batches)


def _or_unknown(condition: pa.Array) -> pa.Array:
    return pc.fill_null(condition, True)


def _parsed(files: pa.Table) -> list[DataFile]:
    return [
        DataFile(*values) for values in zip(*(column.to_pylist() for column in files.columns), strict=True)
    ]


def paths_before(handle: DeltaTable, column: str, time_us: int) -> set[str]:
    """The files of which the log says that all times in a column lie before one. DeltaError.

    Others' commits may cut times to milliseconds.
    """
    found, name = pa.table(handle.get_add_actions(flatten=True)), f"max.{column}"
    if name not in found.column_names:
        return set()
    latest_us = found[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return set(found["path"].filter(pc.less(latest_us, time_us - 1_000)).to_pylist())


def pages_of_rows(
    store: ObjectStore,
    files: Iterable[DataFile],
    columns: pa.Schema,
    wanted: ds.Expression | None,
    page_rows: int,
) -> Iterator[pa.Table]:
    """The wanted rows of these files, at most `page_rows` at a time: small files share a page. OSError.

    `wanted`: None for all. A column that a file is older than is null. Memory is bounded by a page and
    a row group.
    """
    held: list[pa.Table] = []
    count = 0
    for file in files:
        found = (
            _all_rows_of(store, file, columns, page_rows)
            if wanted is None
            else _rows_of(store, file.path, columns, wanted, page_rows)
        )
        for rows in found:
            held.append(rows)
            count += rows.num_rows
            while count >= page_rows:
                together = pa.concat_tables(held)
                yield together.slice(0, page_rows)
                held, count = [together.slice(page_rows)], count - page_rows
    if count:
        yield pa.concat_tables(held)


def rows_of(
    store: ObjectStore, files: Sequence[DataFile], columns: pa.Schema, wanted: ds.Expression
) -> pa.Table:
    """All wanted rows of these files. OSError."""
    found = (rows for file in files for rows in _rows_of(store, file.path, columns, wanted, 2**17))
    return pa.concat_tables([columns.empty_table(), *found])


def _all_rows_of(store: ObjectStore, file: DataFile, columns: pa.Schema, at_once: int) -> Iterator[pa.Table]:
    """A scanner hands each file to other threads: 0.9 ms of CPU, and on a busy machine 10 ms of waiting."""
    small = file.size_bytes <= READ_AT_ONCE_BYTES
    with pa.BufferReader(store.read(file.path)) if small else store.open(file.path) as source:
        for batch in pq.ParquetFile(source).iter_batches(at_once, use_threads=False):
            there = {name: batch.column(name) for name in batch.schema.names}
            yield pa.table(
                [
                    there[field.name].cast(field.type)
                    if field.name in there
                    else pa.nulls(batch.num_rows, field.type)
                    for field in columns
                ],
                schema=columns,
            )


def _rows_of(
    store: ObjectStore, path: str, columns: pa.Schema, wanted: ds.Expression, at_once: int
) -> Iterator[pa.Table]:
    """Row groups whose bounds do not admit a wanted row are not read."""
    with store.open(path) as source:
        fragment = ds.ParquetFileFormat().make_fragment(source)
        schema = pa.schema([*columns, *(field for field in _FILTERED if field.name not in columns.names)])
        scanner = fragment.scanner(
            schema=schema,
            columns=columns.names,
            filter=wanted,
            batch_size=at_once,
            batch_readahead=1,
            fragment_readahead=1,
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(columns)
