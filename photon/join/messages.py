"""What the dispatcher hands to tasks and what comes back.

Frozen and picklable, because tasks run in other processes. Records are in the files that results name,
never in the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from photon.join.outcomes import OutcomeClass
from photon.logs.files import ByteRange, LogFile
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.quantiles import Sample
from photon.registry.address import RegistryAddress
from photon.registry.interface import Claim
from photon.storage.tables import OutputFile
from photon.tokens import Occurrence, PlanKey


@dataclass(frozen=True, slots=True)
class RetryRef:
    """A record that waits: its occurrence, and the spool file and row that hold its raw bytes."""

    occurrence: Occurrence
    spool_file: str
    spool_row: int
    final: bool = False  # the last lookup, over the whole log: not found means unjoinable


@dataclass(frozen=True)
class TaskContext:
    """What every task of a batch knows."""

    pipeline: Pipeline
    datacenter: str
    plan: PlanKey
    registry: RegistryAddress
    workers: int  # task processes that share the datacenter's cache memory
    final: bool  # the inputs are declared complete
    unresponsive_datacenters: frozenset[str]  # datacenters whose events are not left to them
    follows_an_epoch: bool  # an earlier epoch may have joined some of the events
    row_schema: pa.Schema  # of joined_events as the table stands: what new rows must fit
    already_recorded: Mapping[Occurrence, OutcomeClass] = field(
        default_factory=dict
    )  # in a table, by an earlier run of this very work
    quarantine: str = ""  # why the one record of the unit is a dead letter without being looked at again
    crash_at: str | None = None  # a fault point at which one task's process is to die, for tests


@dataclass(frozen=True)
class IndexUnit:
    """Primary ranges for one task."""

    ranges: tuple[tuple[LogFile, ByteRange], ...]


@dataclass(frozen=True)
class JoinUnit:
    """Foreign ranges and waiting records for one task; `files` are those that the retries came from."""

    ranges: tuple[tuple[LogFile, ByteRange], ...] = ()
    retries: tuple[RetryRef, ...] = ()
    files: tuple[LogFile, ...] = ()


@dataclass(frozen=True)
class BatchTasks:
    """One batch: all index units are done before the first join unit begins.

    With `release_only`, join units only find what this plan has registered (protocol A11).
    """

    context: TaskContext
    index_units: tuple[IndexUnit, ...] = ()
    join_units: tuple[JoinUnit, ...] = ()
    release_only: bool = False


@dataclass(frozen=True)
class Contested:
    """An event that this datacenter registered with an earlier plan: the table knows if it has a row."""

    claim: Claim  # of the holder's token
    occurrence: Occurrence
    spool_row: int


@dataclass(frozen=True)
class JoinedRecord:
    """A record of an event that this datacenter has joined, by this record or by another."""

    key: EventKey
    occurrence: Occurrence


@dataclass(frozen=True)
class WaitingRecords:
    """The records of a unit that come again: raw bytes in `spool_file`, the rest in `rows`.

    `rows`: file, offset, event_id, key_hash (int64), primary_time_us, attempts, first_seen_us,
    reason (primary | home | horizon | contested), spool_row; one row a record.
    """

    spool_file: str
    rows: pa.Table


@dataclass(frozen=True)
class IndexResult:
    """Primary ranges are in the log file map."""

    events: int
    max_time_us: dict[int, int]  # by file number
    new_hashes: np.ndarray  # uint64, of the ids: wakes foreign events that wait for them
    dead_letters: int
    lost_bytes: int
    files: tuple[OutputFile, ...] = ()


@dataclass(frozen=True)
class JoinResult:
    """The outcome of every record of a join unit."""

    foreign: int  # records read for the first time: all of the ranges' records
    classes: dict[OutcomeClass, int]  # without pending
    decided_retries: tuple[Occurrence, ...]  # retries that need not come again
    waiting: WaitingRecords | None
    contested: tuple[Contested, ...]
    to_release: tuple[Claim, ...]  # this plan's own tokens that end without a row (protocol A7)
    registered_elsewhere: frozenset[str]  # datacenters seen to hold ids: they are alive
    lost_bytes: int
    joinable_since_us: Sample = field(default_factory=Sample)  # of the rows: the later of both events' times
    files: tuple[OutputFile, ...] = ()
    already_joined: tuple[JoinedRecord, ...] = ()  # joined, duplicates or missing: in none of `classes` yet


@dataclass(frozen=True)
class Unavailable:
    """The task could not go on for want of something that may come back: the plan stays open."""

    what: str  # registry, lake, state
    reason: str


@dataclass(frozen=True)
class Failed:
    """The task met something that another run of it will meet again."""

    reason: str


TaskOutcome = IndexResult | JoinResult | Unavailable | Failed


class WorkerDied(Exception):
    """A task's process died (or was killed) more often than tasks are retried."""


class BatchRunner(Protocol):
    """Carries out one batch."""

    workers: int

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """The outcome of every unit, index units first. WorkerDied if a process did not survive."""
        ...

    def close(self) -> None:
        """Stop what it started."""
        ...
