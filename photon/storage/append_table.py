"""A small Delta table of one datacenter to which Photon adds rows that it wants to find again.

Made when it is first written to, with a format of its own; a newer format is refused. What the rows mean is
for those who have one (`verification_table`, `verified_files`); rows that were joined belong to `output`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from photon.errors import FormatTooNew
from photon.pipeline.file import Pipeline
from photon.storage.tables import LakeUnavailable

FORMAT_PROPERTY = "photon.format"


@dataclass(frozen=True)
class AppendTable:
    """The table `name` in each datacenter's lake. Several processes may append at once."""

    name: str
    columns: pa.Schema
    format: int = 1

    def folder(self, pipeline: Pipeline, datacenter: str) -> Path:
        """Where that of one datacenter lies."""
        return pipeline.datacenters[datacenter].lake / self.name

    def append(self, pipeline: Pipeline, datacenter: str, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, all or none of them. LakeUnavailable, FormatTooNew."""
        folder = self.folder(pipeline, datacenter)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(folder),
                schema=self.columns,
                mode="ignore",
                name=self.name,
                description=f"{self.name} of pipeline {pipeline.name}, datacenter {datacenter}",
                configuration={FORMAT_PROPERTY: str(self.format)},
                raise_if_key_not_exists=False,
            )
            write_deltalake(self._open(folder), pa.Table.from_pylist(rows, self.columns), mode="append")
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot add rows to {folder}: {error}; make it writable") from error

    @contextmanager
    def reading(self, pipeline: Pipeline, datacenter: str) -> Iterator[ds.Dataset | None]:
        """The rows as they stand; None: nothing was ever added. LakeUnavailable, FormatTooNew."""
        folder = self.folder(pipeline, datacenter)
        try:
            made = DeltaTable.is_deltatable(str(folder))
            yield self._open(folder).to_pyarrow_dataset() if made else None
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot read {folder}: {error}") from error

    def _open(self, folder: Path) -> DeltaTable:
        table = DeltaTable(str(folder))
        written = int(table.metadata().configuration.get(FORMAT_PROPERTY, self.format))
        if written > self.format:
            raise FormatTooNew(folder, written, self.format)
        return table
