"""Rows of a release as datasets of pyarrow's, which reads a column that a filter names from every file.

So there is no filter where it can be helped: of a file across the cut the row groups before it are read
plainly, and the few rows of the group in which it lies are held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce
from operator import or_
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.releases.files import ReleaseFiles, Share, guarantee, share_of
from photon.storage.columns import text
from photon.storage.data_files import DataFile
from photon.storage.delta import StoredFiles
from photon.storage.store import store_of

# Rows of all groups across the cut: Photon's have some 20,000 each. Others write larger ones, in any order.
MOST_IN_MEMORY_ROWS = 500_000
_KIND = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True))


def datasets_of(
    tables: Sequence[ReleaseFiles], schema: pa.Schema
) -> tuple[list[ds.Dataset], ds.Expression | None]:
    """Datasets whose union has the rows of a release, and the filter that it needs, if any. OSError.

    `schema`: the columns of all these tables.
    """
    opened = [_OpenedTable(each, schema) for each in tables]
    if sum(each.rows_across for each in opened) <= MOST_IN_MEMORY_ROWS:
        return [part for each in opened for part in each.split()], None
    counted = ((text("_datacenter") == each.datacenter) & each.condition for each in tables)
    return [dataset_of(each, schema) for each in tables], reduce(or_, counted)


def dataset_of(files: ReleaseFiles, schema: pa.Schema) -> ds.Dataset:
    """All rows of one table's files, also those beyond the release."""
    opened = _OpenedTable(files, schema)
    return opened.dataset([opened.fragment(file) for file in (*files.whole, *files.partial)])


class _OpenedTable:
    """One table's files, and the row groups of those across the cut."""

    def __init__(self, files: ReleaseFiles, schema: pa.Schema) -> None:
        self.files, self._schema = files, schema
        sizes_bytes = {file.path: file.size_bytes for file in (*files.whole, *files.partial)}
        self._filesystem = _filesystem(files.folder, sizes_bytes)

    @cached_property
    def _groups(self) -> list[tuple[DataFile, list[DataFile]]]:
        store = store_of(self.files.folder)
        return [(file, _groups_of(store.open(file.path), file)) for file in self.files.partial]

    @property
    def rows_across(self) -> int:
        """The rows of groups that have rows of the release and others, as far as bounds tell."""
        across = (group for _, groups in self._groups for group in groups if self._is(group, "partial"))
        return sum(group.rows or 0 for group in across)

    def split(self) -> list[ds.Dataset]:
        """The rows of the release: plain files and groups, and in memory those of groups across the cut."""
        fragments = [self.fragment(file) for file in self.files.whole]
        across = [self._schema.empty_table()]
        for file, groups in self._groups:
            if plain := [number for number, group in enumerate(groups) if self._is(group, "whole")]:
                fragments.append(self.fragment(file, plain))
            if mixed := [number for number, group in enumerate(groups) if self._is(group, "partial")]:
                found = self.fragment(file, mixed).to_table(self._schema, filter=self.files.condition)
                across.append(found.cast(self._schema))
        return [self.dataset(fragments), ds.dataset(pa.concat_tables(across))]

    def _is(self, group: DataFile, share: Share) -> bool:
        return share_of(group, self.files.place) == share

    def dataset(self, fragments: Sequence[ds.Fragment]) -> ds.Dataset:
        return ds.FileSystemDataset(fragments, self._schema, _KIND, self._filesystem)

    def fragment(self, file: DataFile, groups: Sequence[int] | None = None) -> ds.Fragment:
        known = guarantee(self.files.datacenter, file, self._schema)
        return _KIND.make_fragment(file.path, self._filesystem, known, row_groups=groups)


def _groups_of(source: pa.NativeFile, file: DataFile) -> list[DataFile]:
    """The row groups of a file, each as if it were one."""
    with source:
        metadata = pq.read_metadata(source)
    columns = [metadata.schema.names.index(name) for name in ("_epoch", "_batch")]
    return [_group_of(metadata.row_group(n), columns, file) for n in range(metadata.num_row_groups)]


def _group_of(group: pq.RowGroupMetaData, columns: Sequence[int], file: DataFile) -> DataFile:
    low, high, nulls = [], [], []
    for known in (group.column(column).statistics for column in columns):
        has_bounds = known is not None and known.has_min_max
        low.append(known.min if has_bounds else None)
        high.append(known.max if has_bounds else None)
        nulls.append(known.null_count if known is not None and known.has_null_count else None)
    return replace(
        file,
        rows=group.num_rows,
        first_epoch=low[0],
        last_epoch=high[0],
        first_batch=low[1],
        last_batch=high[1],
        epoch_nulls=nulls[0],
        batch_nulls=nulls[1],
    )


def _filesystem(folder: Location, sizes_bytes: dict[str, int]) -> pafs.FileSystem:
    if isinstance(folder, Path):
        return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
    return pafs.PyFileSystem(StoredFiles(store_of(folder), sizes_bytes))
