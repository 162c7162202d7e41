"""What one verification looks at, fixed before it begins: windows, versions of tables, epochs.

Reads states, tables' logs and the registry's register; no log file and no row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from photon.dispatcher.state_view import ReadOffsets, read_offsets
from photon.logs.files import Side, TrackedFile
from photon.logs.ranges import Stretch, stretches_of
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import EpochRecord
from photon.registry.open import open_register
from photon.registry.operations.init import find_registry
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.tables import LakeUnavailable, OutputTable, app_id
from photon.verification.classes import EpochStatus
from photon.verification.verified_files import is_fully_verified, read_verified_offsets

# More are left to Delta's own reader, which does not hold them in one plan.
MOST_FILES_NAMED = 5_000
# Spark takes a path with one of these for a pattern.
GLOB_CHARACTERS = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True)
class TableAt:
    """One Delta table at one version, with the Parquet files that are all of it.

    `files` is None where only a Delta reader knows the rows, or the files are too many to be named.
    """

    folder: Path
    version: int
    schema: pa.Schema
    files: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Scope:
    """The scope of a verification. `selected` are the datacenters whose records are classified."""

    pipeline: Pipeline
    selected: Sequence[str]
    address: RegistryAddress
    windows: Mapping[str, ReadOffsets]
    tables: Mapping[tuple[str, TableName], TableAt]  # without those that do not exist
    epochs: Mapping[str, EpochStatus]
    verified: Mapping[str, Mapping[int, int]]  # up to which byte foreign files were before, by number

    @property
    def retired(self) -> list[str]:
        """Epochs whose rows do not count (protocol E2)."""
        return [epoch for epoch, standing in self.epochs.items() if standing.state == "retired"]

    @property
    def has_earlier_epochs(self) -> bool:
        """Whether any table may have rows of an epoch whose file numbers mean nothing any more."""
        current = {window.epoch for window in self.windows.values()}
        return any(epoch not in current for epoch in self.epochs)

    @property
    def to_classify(self) -> list[str]:
        """The datacenters whose foreign logs are read.

        Where ids carry their time, a row's time is that of its record, so all of them are.
        """
        return list(self.windows) if self.pipeline.foreign.time_in_id else list(self.selected)

    def stretches(self, datacenter: str, side: Side) -> list[Stretch]:
        """What is read again of one log."""
        piece_bytes = self.pipeline.verification.piece_bytes
        files = self.windows[datacenter].of(side)
        passed = {tracked.file.number for tracked in self.gone_for_good(datacenter)}
        wanted = [tracked for tracked in files if tracked.file.number not in passed]
        return [stretch for tracked in wanted for stretch in stretches_of(tracked, piece_bytes)]

    def gone_for_good(self, datacenter: str) -> list[TrackedFile]:
        """Foreign files that the dispatcher misses and that were verified: nobody looks for them again.

        Where logs are deleted after a while, they become many more than there are.
        """
        return [
            tracked
            for tracked in self.windows[datacenter].of("foreign")
            if tracked.state != "open" and is_fully_verified(tracked, self.verified[datacenter])
        ]

    def unread(self, datacenter: str) -> set[int]:
        """The foreign files, by number, that go on behind the window."""
        logs = self.pipeline.datacenters[datacenter].logs
        return {
            tracked.file.number
            for tracked in self.windows[datacenter].of("foreign")
            if tracked.state == "open" and tracked.offset_bytes < _size_bytes(tracked, logs)
        }

    def notes(self, datacenter: str) -> list[str]:
        """What stands in the way of verifying a datacenter, in words."""
        notes = [self.windows[datacenter].problem] if self.windows[datacenter].problem else []
        known = any(epoch.datacenter == datacenter for epoch in self.epochs.values())
        if known and (datacenter, "joined_events") not in self.tables:
            lake = self.pipeline.datacenters[datacenter].lake
            notes.append(
                f"{lake}: no table of joined events, although this datacenter has joined: restore it"
            )
        return notes


def open_scope(pipeline: Pipeline, selected: Sequence[str]) -> Scope:
    """The scope as things stand. Windows first: what they say is done is then in the tables.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable.
    """
    windows = {name: read_offsets(place.state) for name, place in pipeline.datacenters.items()}
    address = find_registry(pipeline)
    tables: dict[tuple[str, TableName], TableAt] = {}
    handles = {}
    for datacenter, place in pipeline.datacenters.items():
        for name in TABLE_COLUMNS:
            table = OutputTable(place.lake, name)
            if table.exists():
                handle = handles[datacenter, name] = table.load()
                tables[datacenter, name] = _at_its_version(table.folder, handle)
    epochs = open_register(address).read().epochs

    def standing(epoch: str, record: EpochRecord) -> EpochStatus:
        handle = handles.get((record.datacenter, "joined_events"))
        app = app_id(record.datacenter, epoch)
        version = (handle.transaction_version(app) or 0) if handle is not None else 0
        return EpochStatus(record.datacenter, record.state, version)

    standings = {epoch: standing(epoch, record) for epoch, record in epochs.items()}
    verified = {
        name: read_verified_offsets(pipeline, name, window.epoch or "") for name, window in windows.items()
    }
    return Scope(pipeline, tuple(selected), address, windows, tables, standings, verified)


def _size_bytes(tracked: TrackedFile, logs: Path) -> int:
    """How long a file is, as far as known: its dispatcher may be down while it grows."""
    if tracked.file.compressed:
        return tracked.size_bytes
    try:
        return max(tracked.size_bytes, (logs / tracked.file.path).stat().st_size)
    except OSError:
        return tracked.size_bytes


def _at_its_version(folder: Path, handle: DeltaTable) -> TableAt:
    schema = pa.schema(handle.schema().to_arrow())
    # Reader version 1: neither deletion vectors nor mapped column names.
    plain = handle.protocol().min_reader_version == 1 and not GLOB_CHARACTERS.search(str(folder))
    # Not `file_uris`: those have a blank or an umlaut as %20 or the like, which Spark takes as it is.
    paths = pa.table(handle.get_add_actions())["path"].to_pylist() if plain else None
    files = None if paths is None else tuple(str(folder / path) for path in paths)
    lost = [file for file in files or () if not os.path.exists(file)]
    if lost:
        raise LakeUnavailable(
            f"{folder}: {len(lost)} data files that version {handle.version()} of the table names are gone, "
            f"such as {lost[0]}; put them back from a copy of the lake"
        )
    if files is not None and len(files) > MOST_FILES_NAMED:
        files = None
    return TableAt(folder, handle.version(), schema, files)
