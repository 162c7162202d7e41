"""Messages to the tasks of a rebuild, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa

from photon.adapters import Adapter
from photon.event_store.logs import Index
from photon.join.adapting import adapter_of
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Log
from photon.storage.append_table import ReportTable
from photon.storage.columns import TableName
from photon.storage.output_files import OutputFile
from photon.storage.tokens import Occurrence
from photon.upkeep.backfill.records_at import LogCopy
from photon.verification.days import Window

TABLE: TableName = "joined_events"
REMOVED: ReportTable = "removed_rows"
# Why a row goes, and why one stays though it can't be made again.
Gone = Literal["filtered", "skipped", "second row", "altered id"]
Kept = Literal[
    "foreign record gone",
    "primary record gone",
    "adapter fails",
    "earlier epoch",
    "too many log files: rebuild fewer hours at once",
]
MOST_EXAMPLES = 10  # rows of one piece that can't be made again
IDENTITY = ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence", "_primary_occurrence", "_event_id")
REMOVED_COLUMNS = pa.schema(
    [
        ("run", pa.string()),  # number of the rebuild
        ("at", pa.timestamp("us", "UTC")),
        ("why", pa.string()),
        ("version", pa.int64()),  # version of the table that had the row
        ("file", pa.string()),  # data file in that version
        ("row", pa.int64()),  # in the file
        *((name, pa.int64() if name == "_batch" else pa.string()) for name in IDENTITY),
        ("_event_time", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class RemakeContext:
    """The knowledge that every task of a rebuild has. Picklable."""

    pipeline: Pipeline
    datacenter: str
    run: str
    window: Window
    epoch: str  # the one in which `files` are numbered
    files: Mapping[int, TrackedFile]
    index: Index  # index of primary events
    row_schema: pa.Schema
    version: int  # version of the table
    at_us: int
    writes: bool  # not in a dry run
    piece_rows: int  # a task holds no more of them in memory at once
    mended: Mapping[Occurrence, bytes] = field(
        default_factory=dict
    )  # in the places of the log's lines (0047)

    @cached_property
    def adapter(self) -> Adapter:
        """The user's adapter, loaded in the task."""
        return adapter_of(self.pipeline)

    @property
    def foreign(self) -> LogCopy:
        return self._copy(self.pipeline.foreign, self.mended)

    @property
    def primary(self) -> LogCopy:
        return self._copy(self.pipeline.primary, {})

    def _copy(self, log: Log, mended: Mapping[Occurrence, bytes]) -> LogCopy:
        logs, line_bytes = self.pipeline.datacenters[self.datacenter].logs, self.pipeline.limits.line_bytes
        return LogCopy(logs, log, self.files, line_bytes, mended)

    @property
    def folder(self) -> Location:
        return self.pipeline.datacenters[self.datacenter].lake / TABLE


@dataclass
class RowTally:
    """Numbers of rows in the window."""

    rows: int = 0
    same: int = 0
    replaced: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # rows by why they were dropped
    kept: dict[str, int] = field(default_factory=dict)  # rows that can't be made again, by why

    def __add__(self, other: RowTally) -> RowTally:
        return RowTally(
            self.rows + other.rows,
            self.same + other.same,
            self.replaced + other.replaced,
            _sum(self.dropped, other.dropped),
            _sum(self.kept, other.kept),
        )


def _sum(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {name: some.get(name, 0) + others.get(name, 0) for name in {**some, **others}}


@dataclass(frozen=True)
class UnmadeRow:
    """A row that can't be made again."""

    event_id: str
    occurrence: str
    why: str


@dataclass(frozen=True)
class Remade:
    """The result of one task for a piece."""

    touched: tuple[str, ...]  # files of the table that have a row that differs or goes
    outputs: tuple[OutputFile, ...]  # these take the place of the touched files
    removed: tuple[OutputFile, ...]  # records of rows that go
    tally: RowTally
    examples: tuple[UnmadeRow, ...] = ()

    def __add__(self, other: Remade) -> Remade:
        return Remade(
            tuple(dict.fromkeys((*self.touched, *other.touched))),
            self.outputs + other.outputs,
            self.removed + other.removed,
            self.tally + other.tally,
            (self.examples + other.examples)[:MOST_EXAMPLES],
        )
