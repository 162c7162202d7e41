"""What one verification looks at, fixed before it begins: read offsets, versions of tables, epochs.

Reads states, Delta logs and the registry's register; no log file and no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from photon.clock import SystemClock, microseconds
from photon.join.adapting import fingerprint
from photon.logs.files import Side, TrackedFile
from photon.logs.ranges import Stretch, stretches_of
from photon.logs.utf16 import text_bytes
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.recovery.lacking import refuse_lacking
from photon.registry.address import RegistryAddress
from photon.registry.consensus.register import EpochRecord, retired_datacenters
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.state.view import ReadOffsets, read_offsets
from photon.storage.changes import Commit, changed_since, commit_at
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.damaged_files import refuse_incomplete
from photon.storage.delta import columns_in_files
from photon.storage.mended_letters import MendedLetter, mended_before, mended_letters
from photon.storage.replacing import data_files
from photon.storage.tables import OutputTable, app_id
from photon.tokens import Occurrence
from photon.verification.classes import EpochStatus
from photon.verification.kept import FORMAT, Kept, read_kept
from photon.verification.report import Example, Finding
from photon.verification.since import Look, Since, Table, look_at, mended_since, trusted_files
from photon.verification.stored_reports import is_fully_verified, read_verified_offsets

# More are left to Delta's own reader, which does not hold them in one plan.
MOST_FILES_NAMED = 5_000


@dataclass(frozen=True)
class TableSnapshot:
    """One Delta table at one version, with the Parquet files that are all of it."""

    folder: Location
    schema: pa.Schema
    version: int | None = None  # None: there is no such table
    files: tuple[str, ...] | None = ()  # None: only a Delta reader knows the rows, or there are too many
    size_bytes: int = 0  # of these files


@dataclass(frozen=True)
class Mended:
    """The dead letters of a datacenter that were looked at again (docs/adr/0047)."""

    letters: Mapping[Occurrence, MendedLetter] = field(default_factory=dict)  # of its epoch, as taken up last
    of_earlier_epochs: Sequence[MendedLetter] = ()

    @property
    def all(self) -> list[MendedLetter]:
        return [*self.letters.values(), *self.of_earlier_epochs]


@dataclass(frozen=True)
class Scope:
    """The scope of a verification. `selected` are the datacenters whose records are classified.

    `since`: of datacenters whose kept results count. Of the others all is verified.
    """

    pipeline: Pipeline
    selected: Sequence[str]
    address: RegistryAddress
    read_offsets: Mapping[str, ReadOffsets]  # by datacenter
    tables: Mapping[tuple[str, TableName], TableSnapshot]  # by datacenter and name
    epochs: Mapping[str, EpochStatus]
    verified: Mapping[str, Mapping[int, int]]  # earlier verified offsets, by datacenter and file number
    mended: Mapping[str, Mended] = field(default_factory=dict)  # by datacenter
    since: Mapping[str, Since] = field(default_factory=dict)  # by datacenter
    looks: Mapping[str, Mapping[int, Look | None]] = field(default_factory=dict)  # of files, by datacenter
    kept: Mapping[str, Kept] = field(default_factory=dict)  # the newest, whether it counts or not
    given_up: frozenset[str] = frozenset()  # datacenters that never run again
    left_out: Sequence[str] = ()  # of these, the ones that were asked for: others answer for what was theirs
    at_us: int = 0
    not_written: Mapping[str, Sequence[str]] = field(default_factory=dict)  # why, by datacenter

    @property
    def retired(self) -> set[str]:
        """Datacenters whose rows do not count: they were given up as lost (protocol E2)."""
        return {epoch.datacenter for epoch in self.epochs.values() if epoch.state == "retired"}

    @property
    def never_acting(self) -> set[str]:
        """Datacenters that join nothing again: others act on what they have registered."""
        return {*self.retired, *self.given_up}

    @property
    def mended_lines(self) -> dict[tuple[str, int], dict[int, bytes]]:
        """The lines that people have put in the places of others: by datacenter, file number and offset."""
        found: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        for name, mended in self.mended.items():
            for place, letter in mended.letters.items():
                if letter.raw is not None:
                    found[name, place.file_number][place.offset_bytes] = letter.raw
        return dict(found)

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
        """The parts of one log that are read as a whole: those that no kept result covers."""
        piece_bytes = self.pipeline.verification.piece_bytes
        skipped = {tracked.file.number for tracked in self.gone_and_verified(datacenter)}
        since = self.since.get(datacenter)
        trusted = since.trusted if since is not None else {}
        return [
            stretch
            for tracked in self.read_offsets[datacenter].of(side)
            if (number := tracked.file.number) not in skipped
            for stretch in stretches_of(
                tracked, piece_bytes, trusted[number].end_bytes if number in trusted else None
            )
        ]

    @property
    def size_bytes(self) -> int | None:
        """How much of logs, tables and kept results is read, at least; None where nobody knows."""
        if any(table.files is None for table in self.tables.values()):
            return None
        foreign = (each for name in self.to_classify for each in self.stretches(name, "foreign"))
        primary = (each for name in self.selected for each in self.stretches(name, "primary"))
        kept = (sum(run.files.values()) for each in self.since.values() for run in each.kept.runs)
        tables = (table.size_bytes for table in self.tables.values())
        return sum(each.length_bytes for each in (*foreign, *primary)) + sum(kept) + sum(tables)

    @property
    def can_be_kept(self) -> bool:
        """Whether results can be kept: not where a row's event is told by times of all records."""
        return not self.pipeline.foreign.time_in_id

    def fingerprint(self, datacenter: str) -> str:
        """What the results of a datacenter depend on beside logs and tables."""
        epochs = sorted((name, one.datacenter, one.state == "retired") for name, one in self.epochs.items())
        current = sorted((name, one.epoch) for name, one in self.read_offsets.items())
        letters = self.mended[datacenter].of_earlier_epochs
        earlier = sorted((each.epoch, str(each.occurrence), each.batch) for each in letters)
        settings = self.pipeline.model_dump_json()
        return fingerprint(self.pipeline, FORMAT, settings, epochs, current, earlier)

    def commits(self, datacenter: str) -> dict[str, Commit]:
        """The commits at which the tables are read that the results of a datacenter depend on."""
        tables = tables_of(self.pipeline, datacenter)
        return {
            f"{where}/{name}": commit_at(self.tables[where, name].folder, self.tables[where, name].version)
            for where, name in tables
        }

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
        """Why a datacenter can't be fully verified, or joins nothing, in words."""
        problem = self.read_offsets[datacenter].problem
        return [*([problem] if problem else []), *self.not_written.get(datacenter, ())]

    def findings(self, datacenter: str) -> list[Finding]:
        """Name what is wrong before any record is read: all rows are gone, or ids are none."""
        return self._tables_gone(datacenter) + self._conflicting(datacenter)

    def _conflicting(self, datacenter: str) -> list[Finding]:
        count = self.read_offsets[datacenter].conflicting if datacenter in self.read_offsets else 0
        if not count:
            return []
        table = OutputTable(self.pipeline.datacenters[datacenter].lake, "conflicting")
        some: list[dict[str, Any]] = []
        if table.exists():
            with table.reading():
                rows = table.load().to_pyarrow_table().sort_by([("_batch", "descending")])
            some = rows.slice(0, self.pipeline.verification.examples).to_pylist()
        examples = tuple(
            Example(
                row["event_id"],
                f"byte {row['offset_bytes']} of {row['path']}",
                f"joined: byte {row['joined_offset_bytes']} of {row['joined_path']}; "
                f"differs in {row['differs']}",
            )
            for row in some
        )
        return [Finding("conflicting", count, examples)]

    def _tables_gone(self, datacenter: str) -> list[Finding]:
        live = any(each.datacenter == datacenter and each.state == "live" for each in self.epochs.values())
        table = self.tables[datacenter, "joined_events"]
        if not live or table.version is not None:
            return []
        return [Finding("table_gone", 1, (Example("all rows", str(table.folder), "there is no table"),))]


def tables_of(pipeline: Pipeline, datacenter: str) -> list[Table]:
    """The tables that the results of a datacenter depend on: rows of all, its own side tables."""
    rows: list[Table] = [(name, "joined_events") for name in pipeline.datacenters]
    return rows + [(datacenter, name) for name in TABLE_COLUMNS if name != "joined_events"]


def open_scope(
    pipeline: Pipeline, selected: Sequence[str], anew: bool = False, now_us: int | None = None
) -> Scope:
    """The scope as of now. Reads the states first: what they say is done is then in the tables.

    `anew`: no kept result counts. Nothing is verified of a datacenter that never runs again.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable.
    """
    at_us = SystemClock().now_us() if now_us is None else now_us
    offsets = {name: read_offsets(place.state) for name, place in pipeline.datacenters.items()}
    address = find_registry(pipeline)
    tables: dict[tuple[str, TableName], TableSnapshot] = {}
    handles: dict[str, DeltaTable] = {}
    not_written: dict[str, list[str]] = {name: [] for name in pipeline.datacenters}
    for datacenter, place in pipeline.datacenters.items():
        for name, schema in TABLE_COLUMNS.items():
            table = OutputTable(place.lake, name)
            tables[datacenter, name] = TableSnapshot(table.folder, schema)
            if table.exists():
                handle = table.load()
                if why := table.why_not_written(handle):
                    not_written[datacenter].append(why)
                tables[datacenter, name] = _snapshot(datacenter, table.folder, handle)
                if name == "joined_events":
                    handles[datacenter] = handle

    def status(epoch: str, record: EpochRecord) -> EpochStatus:
        handle = handles.get(record.datacenter)
        app = app_id(record.datacenter, epoch)
        version = (handle.transaction_version(app) or 0) if handle is not None else 0
        return EpochStatus(record.datacenter, record.state, version)

    register = open_registry(address).register.read()
    refuse_lacking(pipeline, register)
    epochs = {epoch: status(epoch, record) for epoch, record in register.epochs.items()}
    verified = {name: read_verified_offsets(pipeline, name, one.epoch or "") for name, one in offsets.items()}
    mended = {name: _mended(pipeline, name, one) for name, one in offsets.items()}
    never_acting = retired_datacenters(register.epochs).union(register.given_up)
    left_out = [name for name in selected if name in never_acting]
    selected = [name for name in selected if name not in never_acting]
    looks = {
        name: look_at(one.files, pipeline.datacenters[name].logs)
        for name, one in offsets.items()
        if name in selected
    }
    scope = Scope(
        pipeline,
        tuple(selected),
        address,
        offsets,
        tables,
        epochs,
        verified,
        mended,
        looks=looks,
        given_up=frozenset(register.given_up),
        left_out=left_out,
        at_us=at_us,
        not_written=not_written,
    )
    if not scope.can_be_kept:
        return scope
    found = {name: read_kept(pipeline, name) for name in selected}
    scope = replace(scope, kept={name: each for name, each in found.items() if each is not None})
    since = {} if anew else {name: _since(scope, name, each) for name, each in scope.kept.items()}
    return replace(scope, since={name: each for name, each in since.items() if each is not None})


def _since(scope: Scope, datacenter: str, kept: Kept) -> Since | None:
    """What is new since results were kept; None if none of them count."""
    if kept.fingerprint != scope.fingerprint(datacenter):
        return None
    if scope.at_us - kept.begun_us >= microseconds(scope.pipeline.verification.anew_after):
        return None
    changed = {}
    for where, name in tables_of(scope.pipeline, datacenter):
        table, commit = scope.tables[where, name], kept.commits.get(f"{where}/{name}", Commit())
        files = changed_since(table.folder, commit, table.version)
        if files is None:
            return None
        changed[where, name] = files
    letters = scope.mended[datacenter].letters
    return Since(
        kept,
        trusted_files(kept.files, scope.read_offsets[datacenter].files, scope.looks[datacenter]),
        changed,
        mended_since(kept.mended, ((place, letter.batch) for place, letter in letters.items())),
    )


def _mended(pipeline: Pipeline, datacenter: str, read: ReadOffsets) -> Mended:
    """Those that were taken up before the last completed batch: a later one still waits, or will."""
    epoch = read.epoch or ""
    return Mended(
        mended_letters(pipeline, datacenter, epoch, read.completed),
        mended_before(pipeline, datacenter, epoch),
    )


def _size_bytes(tracked: TrackedFile, logs: Location) -> int:
    """How long a file is, as far as we know: it may grow while its dispatcher is down."""
    if tracked.file.compressed or not isinstance(logs, Path):
        return tracked.size_bytes
    try:
        size_bytes = (logs / tracked.file.path).stat().st_size
        return max(tracked.size_bytes, text_bytes(size_bytes) if tracked.file.utf16_mark else size_bytes)
    except OSError:
        return tracked.size_bytes


def _snapshot(datacenter: str, folder: Location, handle: DeltaTable) -> TableSnapshot:
    schema = columns_in_files(handle)
    # Not `file_uris`: those have a blank or an umlaut as %20 or the like, which Spark takes as it is.
    sizes = data_files(handle)
    refuse_incomplete(datacenter, folder, handle.version(), sizes)
    files = tuple(str(folder / path) for path in sizes)
    named = files if len(files) <= MOST_FILES_NAMED else None
    return TableSnapshot(folder, schema, handle.version(), named, sum(sizes.values()))
