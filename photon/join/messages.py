"""The messages between the dispatcher and tasks: work goes out, results come back.

Frozen and picklable, because tasks run in other processes. Records are in the files that results name,
never in the results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from photon.event_store.indexing import Indexed
from photon.event_store.interface import IndexSnapshot
from photon.join.comparing import Compared
from photon.logs.files import ByteRange, LogFile
from photon.logs.ranges import Stretch
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Datacenter
from photon.process.measures import Measures
from photon.process.quantiles import Sample
from photon.registry.entry import Claims, Epoch
from photon.registry.lookups import ViewSnapshot
from photon.state.failing import AdapterCalls
from photon.state.outcomes import HeldRecord, OutcomeClass
from photon.state.waiting import retries as retrying
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import WaitingSegment
from photon.storage.output_files import OutputFile
from photon.storage.tokens import Occurrence, PlanKey


@dataclass(frozen=True)
class TaskContext:
    """All that every task of a batch knows."""

    pipeline: Pipeline
    plan: PlanKey
    work: Location  # the waiting segments are below it
    index: IndexSnapshot  # finds primary events, those of this batch too
    final: bool  # the inputs are declared complete
    follows_an_epoch: bool  # an earlier epoch may have joined some of the events
    view: ViewSnapshot | None = None  # who holds what; None: there are no join tasks
    # The columns of joined_events: new rows must fit.
    row_schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    unresponsive_datacenters: frozenset[str] = frozenset()  # their events are joined here at once
    given_up: frozenset[str] = frozenset()  # datacenters that never run again
    # Records that an earlier run of this plan, or of one it requeues, has put into a table (protocol A12).
    already_recorded: Mapping[Occurrence, OutcomeClass] = field(default_factory=dict)
    careful: bool = False  # an earlier run took too long, or died: each call of the adapter has a deadline
    quarantine: str = ""  # why the one record of the task is a dead letter without another look
    candidate_files: tuple[str, ...] = ()  # earlier runs of this plan stored them (protocol A14)

    @property
    def folders(self) -> Datacenter:
        return self.pipeline.datacenters[self.plan.datacenter]


@dataclass(frozen=True)
class IndexTask:
    """Primary ranges for one task, and the name of the segment that it makes of their events."""

    ranges: tuple[tuple[LogFile, ByteRange], ...]
    segment: str


@dataclass(frozen=True)
class ReindexTask:
    """Stretches of primary logs that were read before, for a new segment in place of those that are lost."""

    stretches: tuple[Stretch, ...]
    segment: str


@dataclass(frozen=True)
class JoinTask:
    """Foreign ranges and waiting records for one task; `files` are those that the retries came from."""

    ranges: tuple[tuple[LogFile, ByteRange], ...] = ()
    retries: tuple[Retries, ...] = ()
    files: tuple[LogFile, ...] = ()
    number: int = 0  # among the join tasks of the batch

    def own_among(self, occurrences: Iterable[Occurrence]) -> set[Occurrence]:
        """Those of the task's own records."""
        retries = retrying.occurrences(self.retries)
        ranges: dict[int, list[ByteRange]] = defaultdict(list)
        for _, part in self.ranges:
            ranges[part.file_number].append(part)
        return {
            place
            for place in occurrences
            if place in retries
            or any(r.start_bytes <= place.offset_bytes < r.end_bytes for r in ranges[place.file_number])
        }

    @property
    def files_by_number(self) -> dict[int, LogFile]:
        return {file.number: file for file in (*self.files, *(file for file, _ in self.ranges))}


Task = IndexTask | ReindexTask | JoinTask


@dataclass(frozen=True)
class BatchTasks:
    """One batch: all index tasks are done before the first join task begins."""

    context: TaskContext
    index_tasks: tuple[IndexTask | ReindexTask, ...] = ()
    join_tasks: tuple[JoinTask, ...] = ()

    @property
    def tasks(self) -> list[Task]:
        return [*self.index_tasks, *self.join_tasks]

    def elsewhere(self) -> BatchTasks:
        """The same tasks for machines that see nothing of the dispatcher's disk."""
        pipeline = _without_own_folders(self.context.pipeline)
        return replace(self, context=replace(self.context, pipeline=pipeline))


def _without_own_folders(pipeline: Pipeline) -> Pipeline:
    """A pipeline without its file's folder and its states'."""
    no_state = {"state": Path()}
    places = {name: each.model_copy(update=no_state) for name, each in pipeline.datacenters.items()}
    logs = {"primary": pipeline.primary.without_folder(), "foreign": pipeline.foreign.without_folder()}
    return pipeline.model_copy(update={"file": Path(pipeline.file.name), "datacenters": places, **logs})


@dataclass(frozen=True)
class IndexResult:
    """Primary ranges are in an index segment."""

    indexed: Indexed
    dead_letters: int
    lost_bytes: int
    files: tuple[OutputFile, ...] = ()
    measures: Measures = field(default_factory=Measures)


@dataclass(frozen=True)
class JoinResult:
    """The outcome of every record of a join task, if all of its claims are won."""

    foreign: int = 0  # records read for the first time: all of the ranges' records
    classes: Mapping[OutcomeClass, int] = field(default_factory=dict)  # without pending
    lost: tuple[tuple[Occurrence, str], ...] = ()  # retries whose bytes are gone (A19), and their events
    waiting: tuple[WaitingSegment, ...] = ()  # the records that come again
    compared: Compared = field(default_factory=Compared)  # duplicates of what joined in this task
    ambiguous: int = 0  # among the joined ones
    unread_files: frozenset[int] = frozenset()  # primary files in which a lookup could not read a line
    # One for each row in its files of `joined_events`; None: it has none.
    claims: Claims | None = None
    registered_here: tuple[HeldRecord, ...] = ()  # in none of `classes` yet: the tables decide
    held: Mapping[Epoch, int] = field(default_factory=dict)  # records that wait for each holder elsewhere
    joined_by_another_task: tuple[HeldRecord, ...] = ()  # these are duplicates
    to_free: tuple[HeldRecord, ...] = ()  # these wait until the joins of a given-up datacenter are freed (E8)
    registered_elsewhere: frozenset[str] = frozenset()  # datacenters seen to hold ids: they are alive
    # Events of each home that were left to it, and are joined here.
    taken_over: Mapping[str, int] = field(default_factory=dict)
    fresh_were_free: bool | None = None  # nobody had fresh events of the own home half; None: no news of any
    lost_bytes: int = 0
    # Among records read for the first time, by file number.
    max_time_us: Mapping[int, int] = field(default_factory=dict)
    came: Mapping[int, int] = field(default_factory=dict)  # records read first, by the minute of their time
    adapter_calls: AdapterCalls = field(default_factory=AdapterCalls)
    joinable_since_us: Sample = field(default_factory=Sample)  # for each row the later of both events' times
    files: tuple[OutputFile, ...] = ()
    unneeded_files: tuple[str, ...] = ()  # candidate rows of earlier runs
    measures: Measures = field(default_factory=Measures)


@dataclass(frozen=True)
class Unavailable:
    """The task needs something that may come back: the plan stays open."""

    what: str  # lake, logs, state
    reason: str


@dataclass(frozen=True)
class IndexDamaged:
    """A segment of the index is missing or damaged: the index has to be made again from the logs."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The task failed on something that another run will meet again."""

    reason: str


@dataclass(frozen=True)
class AdapterFailing:
    """The adapter fails on too much of the task, which proposes nothing (protocol A21)."""

    calls: AdapterCalls


@dataclass(frozen=True)
class TimedOut:
    """The task was ended at its deadline (protocol A17)."""

    reason: str


@dataclass(frozen=True)
class ViewDamaged:
    """A file of the view's holds is missing or damaged: the ledgers have to be read again."""

    reason: str


@dataclass(frozen=True)
class DamagedWaiting:
    """Waiting segments are damaged or gone: they are made again before the task is (protocol A19)."""

    segments: tuple[str, ...]


TaskOutcome = (
    IndexResult
    | JoinResult
    | Unavailable
    | IndexDamaged
    | Failed
    | AdapterFailing
    | TimedOut
    | DamagedWaiting
    | ViewDamaged
)


class WorkerDied(Exception):
    """A task's process died (or was killed) more often than tasks are retried."""


class RunnerDied(Exception):
    """The runner died under its tasks (a Spark session whose JVM was killed). There is a new one."""


class NoWorkerStarts(Exception):
    """No task can be run at all, whatever it holds: the fault is in the workers' Python or machine."""


class NoExecutor(NoWorkerStarts):
    """A Spark cluster runs no task now: its master is away, or has no worker for this driver."""


class BatchRunner(Protocol):
    """Carries out one batch."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def look(self) -> None:
        """Raise NoWorkerStarts where nothing could run now, as far as that is known without a task."""

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """The outcome of every task, index tasks first.

        WorkerDied if a task's process did not survive, NoWorkerStarts if none can begin, RunnerDied if that
        of all of them did not.
        """
        ...

    def begin(self, batch: BatchTasks) -> Future[list[TaskOutcome]]:
        """Begin tasks beside those of `run`; at most one batch at a time. It ends as `run` does."""
        ...

    def close(self) -> None: ...
