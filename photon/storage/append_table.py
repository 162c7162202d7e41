"""A small Delta table of one datacenter for rows that Photon finds again, such as its reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from photon.errors import FormatTooNew
from photon.pipeline.file import Pipeline
from photon.storage.tables import create_table, lake_errors

FORMAT_PROPERTY, FORMAT = "photon.format", 1


@dataclass(frozen=True)
class AppendTable:
    """The table `name` in each datacenter's lake, made at the first append. Several processes may append."""

    name: str
    columns: pa.Schema

    def folder(self, pipeline: Pipeline, datacenter: str) -> Path:
        return pipeline.datacenters[datacenter].lake / self.name

    def append(self, pipeline: Pipeline, datacenter: str, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, all or none of them. LakeUnavailable, FormatTooNew."""
        folder = self.folder(pipeline, datacenter)
        with lake_errors(f"add rows to {folder}, which must be writable"):
            description = f"{self.name} of pipeline {pipeline.name}, datacenter {datacenter}"
            create_table(folder, self.columns, description, {FORMAT_PROPERTY: str(FORMAT)})
            write_deltalake(self._open(folder), pa.Table.from_pylist(rows, self.columns), mode="append")

    @contextmanager
    def reading(self, pipeline: Pipeline, datacenter: str) -> Iterator[ds.Dataset | None]:
        """The rows now; None if nothing was ever added. LakeUnavailable, FormatTooNew."""
        folder = self.folder(pipeline, datacenter)
        with lake_errors(f"read {folder}"):
            made = DeltaTable.is_deltatable(str(folder))
            yield self._open(folder).to_pyarrow_dataset() if made else None

    def _open(self, folder: Path) -> DeltaTable:
        table = DeltaTable(str(folder))
        written = int(table.metadata().configuration.get(FORMAT_PROPERTY, FORMAT))
        if written > FORMAT:
            raise FormatTooNew(folder, written, FORMAT)
        return table
