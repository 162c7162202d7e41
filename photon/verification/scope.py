"""The scope of one verification, fixed before it begins: read offsets, who holds what, versions of tables.

Reads states, the ledgers and Delta logs; no log file and no row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from photon.dispatcher.refusals import refuse_missing_datacenters
from photon.join.adapting import fingerprint
from photon.logs.files import Side, TrackedFile
from photon.logs.ranges import PIECE_BYTES, Stretch, stretches_of
from photon.logs.source import open_bytes, written_bytes
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, SystemClock
from photon.registry.holds import HashSet
from photon.registry.lookups import ViewSnapshot
from photon.registry.opening import open_reader
from photon.registry.register import Register
from photon.registry.taken_rows import listed
from photon.state.database import StateUnavailable
from photon.state.unread_logs import acknowledged_files, unread_now
from photon.state.view import ReadOffsets, read_offsets, view_state
from photon.storage.changes import Commit, changed_since, commit_at
from photon.storage.columns import BATCH_TABLES, TABLE_COLUMNS, TableName
from photon.storage.damaged_files import refuse_incomplete
from photon.storage.delta import columns_in_files
from photon.storage.mended_letters import MendedLetter, mended_before, mended_letters
from photon.storage.replacing import data_files
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence
from photon.storage.verified_files import read_verified_offsets
from photon.verification.kept import FORMAT, KeptManifest, read_kept
from photon.verification.report import MOST_EXAMPLES, Example, Finding, Unverified
from photon.verification.since import FileLook, Since, Table, look_at, mended_since, trusted_files
from photon.verification.stored_reports import is_fully_verified
from photon.verification.tasks import NO_PLAN
from photon.verification.unmatched_scope import UnmatchedScope, unmatched_scope

# More are left to Delta's own reader, which does not hold them in one plan.
MOST_FILES_NAMED = 5_000
# Kept results count for a week; then all logs are read again, and what was changed in them is found.
ANEW_AFTER_US = 7 * 86_400 * MICROSECONDS


@dataclass(frozen=True)
class TableSnapshot:
    """One Delta table at one version, with the Parquet files that are all of it."""

    folder: Location
    schema: pa.Schema
    version: int | None = None  # None: there is no such table
    files: tuple[str, ...] | None = ()  # None: only a Delta reader knows the rows, or there are too many
    size_bytes: int = 0  # size of these files


@dataclass(frozen=True)
class Mended:
    """The dead letters of a datacenter that were looked at again (docs/adr/0047)."""

    letters: Mapping[Occurrence, MendedLetter] = field(default_factory=dict)  # as taken up last
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
    register: Register
    view: ViewSnapshot  # later than the read offsets, and before the tables
    read_offsets: Mapping[str, ReadOffsets]  # keyed by datacenter
    tables: Mapping[tuple[str, TableName], TableSnapshot]  # keyed by datacenter and name
    verified: Mapping[str, Mapping[int, int]]  # earlier verified offsets, by datacenter and file number
    mended: Mapping[str, Mended] = field(default_factory=dict)  # keyed by datacenter
    since: Mapping[str, Since] = field(default_factory=dict)  # keyed by datacenter
    looks: Mapping[str, Mapping[int, FileLook | None]] = field(default_factory=dict)  # datacenter, file
    kept: Mapping[str, KeptManifest] = field(default_factory=dict)  # the newest, whether it counts or not
    left_out: Sequence[str] = ()  # were asked for and never run again: others answer for what was theirs
    at_us: int = 0
    not_written: Mapping[str, Sequence[str]] = field(default_factory=dict)  # why, by datacenter
    unmatched: UnmatchedScope | None = None  # None: nobody looks for unmatched primaries
    taken: HashSet | None = None  # events whose rows others took, and a person has acknowledged (E13)

    @property
    def retired(self) -> set[str]:
        """Datacenters whose rows do not count: they were given up as lost (protocol E2)."""
        return set(self.register.lakes_gone)

    @property
    def never_acting(self) -> set[str]:
        """Datacenters that join nothing again: others act on what they have joined."""
        return set(self.register.given_up)

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
        current = {name: one.epoch for name, one in self.read_offsets.items()}
        epochs = self.register.epochs.items()
        return any(newest > 1 or current.get(name) != str(newest) for name, newest in epochs)

    def stretches(self, datacenter: str, side: Side) -> list[Stretch]:
        """The parts of one log that are read as a whole: those that no kept result covers."""
        piece_bytes = PIECE_BYTES
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
        sides: tuple[Side, ...] = ("foreign", "primary")
        logs = (
            each
            for name in self.selected
            for side in sides
            for each in self.stretches(name, side)
            if each.tracked.state == "open" or self.looks[name][each.tracked.file.number] is not None
        )
        kept = (sum(run.files.values()) for each in self.since.values() for run in each.kept.runs)
        tables = (table.size_bytes for table in self.tables.values())
        return sum(each.length_bytes for each in logs) + sum(kept) + sum(tables)

    def fingerprint(self, datacenter: str) -> str:
        """Everything that a datacenter's results depend on beside logs and tables."""
        taken = sorted(self.register.taken.items())
        epochs = sorted(self.register.epochs.items()), sorted(self.retired), taken
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

    def never_read(self, datacenter: str) -> list[Unverified]:
        """Files that are there, or went, and no record of which was ever read (protocol D11).

        Those of the state and of an own look, but for those that somebody has acknowledged.
        """
        folder = self.pipeline.datacenters[datacenter].state
        if self.read_offsets[datacenter].epoch is None:
            return []
        now_us = SystemClock().now_us()
        with suppress(StateUnavailable):
            view = view_state(folder, now_us)
            known = acknowledged_files(folder)
            gone = [one for one in view.unread if one.state == "gone" and one.identity not in known]
            found = [*gone, *unread_now(self.pipeline, datacenter, view, now_us)]
            return [Unverified(one.shown, one.side, one.size_bytes, one.reason) for one in found]
        return []

    def notes(self, datacenter: str) -> list[str]:
        """Why a datacenter can't be fully verified, or joins nothing, in words."""
        problem = self.read_offsets[datacenter].problem
        folder = self.pipeline.datacenters[datacenter].state
        known = acknowledged_files(folder)
        given_up = [one for one in self.read_offsets[datacenter].unread if one.identity in known]
        notes = [f"{one.shown} is not read, as somebody acknowledged: {one.reason}" for one in given_up]
        return [*([problem] if problem else []), *notes, *self.not_written.get(datacenter, ())]

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
            some = rows.slice(0, MOST_EXAMPLES).to_pylist()
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
        table = self.tables[datacenter, "joined_events"]
        if datacenter not in self.register.epochs or table.version is not None:
            return []
        return [Finding("table_gone", 1, (Example("all rows", str(table.folder), "there is no table"),))]


def tables_of(pipeline: Pipeline, datacenter: str) -> list[Table]:
    """The tables that the results of a datacenter depend on: rows of all, its own side tables."""
    rows: list[Table] = [(name, "joined_events") for name in pipeline.datacenters]
    return rows + [(datacenter, name) for name in BATCH_TABLES if name != "joined_events"]


def open_scope(
    pipeline: Pipeline, selected: Sequence[str], anew: bool = False, now_us: int | None = None
) -> Scope:
    """The scope as of now.

    Reads the states first, then the ledgers: what states call done is in the view then, and the row of what
    the view calls joined is in the tables. `anew`: no kept result counts. Nothing is verified of a datacenter
    that never runs again.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable.
    """
    at_us = SystemClock().now_us() if now_us is None else now_us
    offsets = {name: read_offsets(place.state) for name, place in pipeline.datacenters.items()}
    reader = open_reader(pipeline)
    register, view = reader.register, reader.snapshot(NO_PLAN)
    refuse_missing_datacenters(pipeline, register)
    unmatched = unmatched_scope(pipeline, register, offsets)
    names = TABLE_COLUMNS if unmatched is not None else BATCH_TABLES
    tables: dict[tuple[str, TableName], TableSnapshot] = {}
    not_written: dict[str, list[str]] = {name: [] for name in pipeline.datacenters}
    for datacenter, place in pipeline.datacenters.items():
        for name in names:
            table = OutputTable(place.lake, name)
            tables[datacenter, name] = TableSnapshot(table.folder, TABLE_COLUMNS[name])
            if table.exists():
                handle = table.load()
                if why := table.why_not_written(handle):
                    not_written[datacenter].append(why)
                tables[datacenter, name] = _snapshot(datacenter, table.folder, handle)

    verified = {name: read_verified_offsets(pipeline, name, one.epoch or "") for name, one in offsets.items()}
    mended = {name: _mended(pipeline, name, one) for name, one in offsets.items()}
    left_out = [name for name in selected if name in register.given_up]
    selected = [name for name in selected if name not in register.given_up]
    looks = {
        name: look_at(one.files, pipeline.datacenters[name].logs)
        for name, one in offsets.items()
        if name in selected
    }
    scope = Scope(
        pipeline,
        tuple(selected),
        register,
        view,
        offsets,
        tables,
        verified,
        mended,
        looks=looks,
        left_out=left_out,
        at_us=at_us,
        not_written=not_written,
        unmatched=unmatched,
        taken=listed(pipeline, register) if register.taken else None,
    )
    found = {name: read_kept(pipeline, name) for name in selected}
    scope = replace(scope, kept={name: each for name, each in found.items() if each is not None})
    since = {} if anew else {name: _since(scope, name, each) for name, each in scope.kept.items()}
    return replace(scope, since={name: each for name, each in since.items() if each is not None})


def _since(scope: Scope, datacenter: str, kept: KeptManifest) -> Since | None:
    """Changes since results were kept; None if none of them count."""
    if kept.fingerprint != scope.fingerprint(datacenter):
        return None
    if scope.at_us - kept.begun_us >= ANEW_AFTER_US:
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
        with open_bytes(logs / tracked.file.path) as source:
            written = written_bytes(source, source.version()[0], tracked.offset_bytes)
            return max(tracked.size_bytes, written)
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
