"""Wire together the parts that carry out batches, and tend them between batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from photon.dispatcher.ahead import IndexAhead
from photon.dispatcher.claiming_rounds import ClaimingRounds
from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.committing import Committing
from photon.dispatcher.completion import collect_results
from photon.dispatcher.conflicts import Conflicts
from photon.dispatcher.leftovers import Leftovers
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.observing import BatchObserver
from photon.dispatcher.primary_index import PrimaryIndex
from photon.dispatcher.recovery.announcing import Announcer
from photon.dispatcher.recovery.holders import OtherEpochs
from photon.dispatcher.retrying import BackoffRetry, Callbacks
from photon.dispatcher.table_answers import TableAnswers
from photon.dispatcher.task_splitter import reindex_tasks
from photon.dispatcher.waiting_repair import WaitingRepair
from photon.dispatcher.waiting_upkeep import WaitingUpkeep
from photon.event_store.segments import SegmentInfo
from photon.join.messages import BatchRunner, BatchTasks, TaskContext
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.machine import Machine
from photon.process.measures import Meter
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.segments import RunDamaged
from photon.registry.view_store import ViewUnavailable
from photon.releases.foreign_commits import others_took_rows
from photon.state.dispatcher_state import DispatcherState
from photon.state.failing import calls_from_json
from photon.storage.columns import TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable
from photon.storage.tokens import PlanKey, new_id

log = logging.getLogger(__name__)


@dataclass
class BatchTools:
    """All that the batches of one datacenter's process work with, and what it remembers between them."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    tables: Mapping[TableName, OutputTable]
    registry: IdRegistry
    runner: BatchRunner
    machine: Machine
    callbacks: Callbacks
    index: PrimaryIndex
    waiting: WaitingUpkeep
    announcer: Announcer
    holders: OtherEpochs
    meter: Meter

    def __post_init__(self) -> None:
        self.epoch = self.state.epoch or ""
        self.clock = self.machine.clock
        self.joined = self.tables["joined_events"]
        others_took = partial(others_took_rows, self.pipeline, self.datacenter, self.joined)
        self.table_answers = TableAnswers(
            self.state, self.pipeline, self.datacenter, self.joined, self.registry, others_took
        )
        self.committing = Committing(
            self.tables,
            self.datacenter,
            self.epoch,
            self.state,
            lambda: self.registry.view.closed_through(self._own_epoch),
        )
        # All parts share it, so that callbacks hear of a wait once.
        self.retry = BackoffRetry(self.callbacks, self.clock, self.machine.rng)
        self.leftovers = Leftovers(self.joined)
        self.closes = BatchCloses(
            self.registry, self._own_epoch, self.joined, others_took, self.clock, self.meter
        )
        self.rounds = ClaimingRounds(self.registry, self.runner, self.closes, self.clock, self.meter)
        self.conflicts = Conflicts(self.pipeline, self.datacenter, self.state, self.tables)
        self.limits = self.pipeline.limits  # of the next batch: the dispatcher sets them when it plans
        self.ahead = IndexAhead(self.pipeline, self.index, self.runner)
        self.observer = BatchObserver(
            self.pipeline, self.datacenter, self.state, self.clock, self.meter, self.callbacks.on_batch
        )
        self.quarantined_in_a_row = 0
        # The adapter's calls in the latest batches, as far back as it failed on too many of each (A21).
        self.adapter_calls = calls_from_json(self.state.meta("adapter_calls"))
        self.last_plan_id = ""  # the plan that this very process ran last
        self.closes.committed(self.state.completed)  # an earlier process may have left it unclosed

    @property
    def _own_epoch(self) -> Epoch:
        return Epoch(self.datacenter, int(self.epoch or 0))

    def may_begin_anew(self) -> bool:
        """Whether this epoch is the newest, and was ended as a silent one (E6), or its lake put back (A13).

        LakeUnavailable, RegistryUnavailable.
        """
        return self.committing.is_at_its_end() and self.holders.is_alone(self._own_epoch)

    def tend_registry(self) -> None:
        """Close batches that no claims have closed for a while, and store the view if much of it is new."""
        self.closes.tend()
        try:
            self.registry.save()
        except ViewUnavailable as error:
            log.debug("the view of the registry is stored later: %s", error)

    def read_view_anew(self, error: RunDamaged) -> str:
        """Read the ledgers from their beginning, for tasks could not read a file of the view; say so."""
        reason = f"the view of the registry is read again, for {error}"
        log.warning("%s", reason)
        try:
            self.registry.read_anew()
        except RegistryUnavailable as away:
            return str(away)
        return reason

    def mend_waiting(self, segments: Sequence[str], reader: LogReader) -> str:
        """Make damaged waiting segments again, for the next attempt (A19), and say what was done."""
        repair = WaitingRepair(self.pipeline, self.datacenter, self.state, self.tables["unjoined"])
        try:
            reason = "; ".join(repair.mend(name, reader.files) for name in segments)
        except (OSError, LakeUnavailable) as error:
            reason = f"state {self.state.folder}: {error}"
        log.warning("%s", reason)
        return reason

    def reindex(self, files: Iterable[TrackedFile]) -> list[SegmentInfo]:
        """Make the index of primary files again, as far as they are read; the caller lists its segments.

        WorkerDied, CannotEnd, DeadlineExceeded, LakeUnavailable.
        """
        key = PlanKey(self.datacenter, self.epoch, self.state.completed, new_id())
        tasks = reindex_tasks(files, partial(self.index.new_segment, key))
        work, snapshot = self.state.work, self.index.snapshot()
        context = TaskContext(self.pipeline, key, work, snapshot, final=False, follows_an_epoch=False)
        results = collect_results(self.runner.run(BatchTasks(context, tasks)))
        return [each.indexed.segment for each in results.index if each.indexed.segment is not None]

    @contextmanager
    def timed(self, stage: Literal["tasks", "claim", "commit", "complete"]) -> Iterator[None]:
        """Measure how long a stage of a batch takes."""
        began_us = self.clock.elapsed_us()
        yield
        self.meter.time(
            "batch_stage_seconds", stage, seconds=(self.clock.elapsed_us() - began_us) / MICROSECONDS
        )
