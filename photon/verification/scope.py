"""What one verification looks at, fixed before it begins: read offsets, versions of tables, epochs.

Reads states, Delta logs and the registry's register; no log file and no row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from photon.logs.files import Side, TrackedFile
from photon.logs.ranges import Stretch, stretches_of
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import EpochRecord
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.state.view import ReadOffsets, read_offsets
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.tables import LakeUnavailable, OutputTable, app_id
from photon.verification.classes import EpochStatus
from photon.verification.report import Example, Finding
from photon.verification.stored_reports import is_fully_verified, read_verified_offsets

# More are left to Delta's own reader, which does not hold them in one plan.
MOST_FILES_NAMED = 5_000
# Spark takes a path with one of these for a pattern.
GLOB_CHARACTERS = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True)
class TableSnapshot:
    """One Delta table at one version, with the Parquet files that are all of it."""

    folder: Path
    schema: pa.Schema
    version: int | None = None  # None: there is no such table
    files: tuple[str, ...] | None = ()  # None: only a Delta reader knows the rows, or there are too many


@dataclass(frozen=True)
class Scope:
    """The scope of a verification. `selected` are the datacenters whose records are classified."""

    pipeline: Pipeline
    selected: Sequence[str]
    address: RegistryAddress
    read_offsets: Mapping[str, ReadOffsets]  # by datacenter
    tables: Mapping[tuple[str, TableName], TableSnapshot]  # by datacenter and name
    epochs: Mapping[str, EpochStatus]
    verified: Mapping[str, Mapping[int, int]]  # earlier verified offsets, by datacenter and file number

    @property
    def retired(self) -> set[str]:
        """Datacenters whose rows do not count: they were given up as lost (protocol E2)."""
        return {epoch.datacenter for epoch in self.epochs.values() if epoch.state == "retired"}

    @property
    def has_earlier_epochs(self) -> bool:
        """Whether any table may have rows of an epoch that numbered files differently."""
        current = {one.epoch for one in self.read_offsets.values()}
        return any(epoch not in current for epoch in self.epochs)

    @property
    def to_classify(self) -> list[str]:
        """The datacenters whose foreign logs are read.

        All of them where ids carry their time, for a row's time is that of its record.
        """
        return list(self.read_offsets) if self.pipeline.foreign.time_in_id else list(self.selected)

    def stretches(self, datacenter: str, side: Side) -> list[Stretch]:
        """The parts of one log that are read again."""
        piece_bytes = self.pipeline.verification.piece_bytes
        skipped = {tracked.file.number for tracked in self.gone_and_verified(datacenter)}
        return [
            stretch
            for tracked in self.read_offsets[datacenter].of(side)
            if tracked.file.number not in skipped
            for stretch in stretches_of(tracked, piece_bytes)
        ]

    def gone_and_verified(self, datacenter: str) -> list[TrackedFile]:
        """Foreign files that are gone and were fully verified, so that they are not looked for again.

        Where logs are deleted after a while, they become many more than those that are there.
        """
        return [
            tracked
            for tracked in self.read_offsets[datacenter].of("foreign")
            if tracked.state != "open" and is_fully_verified(tracked, self.verified[datacenter])
        ]

    def unread(self, datacenter: str) -> set[int]:
        """The numbers of the foreign files that have more than was read."""
        logs = self.pipeline.datacenters[datacenter].logs
        return {
            tracked.file.number
            for tracked in self.read_offsets[datacenter].of("foreign")
            if tracked.state == "open" and tracked.offset_bytes < _size_bytes(tracked, logs)
        }

    def notes(self, datacenter: str) -> list[str]:
        """Why a datacenter can't be fully verified, in words."""
        problem = self.read_offsets[datacenter].problem
        return [problem] if problem else []

    def findings(self, datacenter: str) -> list[Finding]:
        """What is wrong before any record is read: rows that are gone, all of them."""
        live = any(each.datacenter == datacenter and each.state == "live" for each in self.epochs.values())
        table = self.tables[datacenter, "joined_events"]
        if not live or table.version is not None:
            return []
        return [Finding("table_gone", 1, (Example("all rows", str(table.folder), "there is no table"),))]


def open_scope(pipeline: Pipeline, selected: Sequence[str]) -> Scope:
    """The scope as of now. Reads the states first: what they say is done is then in the tables.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable.
    """
    offsets = {name: read_offsets(place.state) for name, place in pipeline.datacenters.items()}
    address = find_registry(pipeline)
    tables: dict[tuple[str, TableName], TableSnapshot] = {}
    handles: dict[str, DeltaTable] = {}
    for datacenter, place in pipeline.datacenters.items():
        for name, schema in TABLE_COLUMNS.items():
            table = OutputTable(place.lake, name)
            tables[datacenter, name] = TableSnapshot(table.folder, schema)
            if table.exists():
                handle = table.load()
                tables[datacenter, name] = _snapshot(table.folder, handle)
                if name == "joined_events":
                    handles[datacenter] = handle

    def status(epoch: str, record: EpochRecord) -> EpochStatus:
        handle = handles.get(record.datacenter)
        app = app_id(record.datacenter, epoch)
        version = (handle.transaction_version(app) or 0) if handle is not None else 0
        return EpochStatus(record.datacenter, record.state, version)

    register = open_registry(address).register.read()
    epochs = {epoch: status(epoch, record) for epoch, record in register.epochs.items()}
    verified = {name: read_verified_offsets(pipeline, name, one.epoch or "") for name, one in offsets.items()}
    return Scope(pipeline, tuple(selected), address, offsets, tables, epochs, verified)


def _size_bytes(tracked: TrackedFile, logs: Path) -> int:
    """How long a file is, as far as we know: it may grow while its dispatcher is down."""
    if tracked.file.compressed:
        return tracked.size_bytes
    try:
        return max(tracked.size_bytes, (logs / tracked.file.path).stat().st_size)
    except OSError:
        return tracked.size_bytes


def _snapshot(folder: Path, handle: DeltaTable) -> TableSnapshot:
    schema = pa.schema(handle.schema().to_arrow())
    # Reader version 1: neither deletion vectors nor mapped column names.
    if handle.protocol().min_reader_version != 1 or GLOB_CHARACTERS.search(str(folder)):
        return TableSnapshot(folder, schema, handle.version(), files=None)
    # Not `file_uris`: those have a blank or an umlaut as %20 or the like, which Spark takes as it is.
    paths = pa.table(handle.get_add_actions())["path"].to_pylist()
    files = tuple(str(folder / path) for path in paths)
    lost = [file for file in files if not os.path.exists(file)]
    if lost:
        raise LakeUnavailable(
            f"{folder}: {len(lost)} data files that version {handle.version()} of the table names are gone, "
            f"such as {lost[0]}; put them back from a copy of the lake"
        )
    return TableSnapshot(folder, schema, handle.version(), files if len(files) <= MOST_FILES_NAMED else None)
