"""Carry one plan through: do what its state asks for, until it is completed (protocol A3 to A17).

What is done in which state, and what follows, is in `photon.state.lifecycle`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from photon.dispatcher import completion
from photon.dispatcher.ahead import IndexAhead, IndexedAhead
from photon.dispatcher.claiming_rounds import ClaimingRounds, Settled
from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.committing import Committing
from photon.dispatcher.completion import (
    AdapterFails,
    CannotEnd,
    DeadlineExceeded,
    Results,
    Superseded,
    collect_results,
)
from photon.dispatcher.conflicts import Conflicts
from photon.dispatcher.leftovers import Leftovers
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.observing import BatchObserver
from photon.dispatcher.planning import split
from photon.dispatcher.primary_index import PrimaryIndex
from photon.dispatcher.recovery.announcing import Announcer
from photon.dispatcher.recovery.holders import Holders
from photon.dispatcher.retrying import BackoffRetry, Callbacks
from photon.dispatcher.table_answers import TableAnswers
from photon.dispatcher.task_splitter import index_tasks, join_tasks, reindex_tasks
from photon.dispatcher.waiting_repair import WaitingRepair
from photon.dispatcher.waiting_upkeep import WaitingUpkeep
from photon.event_store.segments import SegmentInfo
from photon.join.messages import BatchRunner, BatchTasks, RunnerDied, TaskContext, WorkerDied
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.faults import fault_point
from photon.process.machine import Machine
from photon.process.measures import Meter
from photon.process.readable import readable
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.lookups import claimant_of
from photon.registry.segments import RunDamaged
from photon.registry.view_store import ViewUnavailable
from photon.state import lifecycle
from photon.state.dispatcher_state import Completion, DispatcherState
from photon.state.failing import calls_from_json
from photon.state.lifecycle import FAILURES, FINAL, Event, Life, State
from photon.state.plan import Plan, PlanContent
from photon.state.waiting.segments import WaitingDamaged
from photon.storage.columns import TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import CommitConflict, OutputTable, SchemaConflict
from photon.tokens import PlanKey, new_id

log = logging.getLogger(__name__)


@dataclass
class BatchExecution:
    """Runs the plans of one datacenter, one at a time."""

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
    holders: Holders
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        self.epoch = self.state.epoch or ""
        self.clock = self.machine.clock
        self._joined = self.tables["joined_events"]
        self._table = TableAnswers(self.state, self.datacenter, self._joined, self.registry)
        self._committing = Committing(self.tables, self.datacenter, self.epoch)
        # One, so that a wait is told once.
        self.retry = BackoffRetry(self.callbacks, self.clock, self.machine.rng)
        self._leftovers = Leftovers(self._joined)
        self.closes = BatchCloses(self.registry, self._own_epoch, self._joined, self.clock, self.meter)
        self._rounds = ClaimingRounds(self.registry, self.runner, self.closes, self.clock, self.meter)
        self._conflicts = Conflicts(self.pipeline, self.datacenter, self.state, self.tables)
        self.limits = self.pipeline.limits  # the next batch keeps within them, as the dispatcher plans it
        self.ahead = IndexAhead(self.pipeline, self.index, self.runner)
        self.observer = BatchObserver(
            self.pipeline, self.datacenter, self.state, self.clock, self.meter, self.callbacks.on_batch
        )
        self._quarantined_in_a_row = 0
        # Calls in the last batches in a row in which the adapter failed on more than its share (A21).
        self._adapter_calls = calls_from_json(self.state.meta("adapter_calls"))
        self._last_plan_id = ""  # the plan that this very process ran last
        self.closes.committed(self.state.completed)  # an earlier process may have left it unclosed

    @property
    def _own_epoch(self) -> Epoch:
        return Epoch(self.datacenter, int(self.epoch or 0))

    def may_begin_anew(self) -> bool:
        """Whether this epoch is the newest, and was ended as a silent one (E6), or its lake put back (A13).

        LakeUnavailable, RegistryUnavailable.
        """
        return self._committing.is_at_its_end(self.state.completed) and self.holders.is_alone(self._own_epoch)

    def tend_registry(self) -> None:
        """Close what no claims have closed for a while, and store the view if much of it is not yet."""
        self.closes.tend()
        try:
            self.registry.save()
        except ViewUnavailable as error:
            log.debug("the view of the registry is stored later: %s", error)

    def run(self, plan: Plan, reader: LogReader, found_open: bool = False) -> bool:
        """Run a plan until it is completed; False if it is left open because a stop was requested.

        AdapterFails, Superseded, RegistryMismatch, TooManyDeaths, IndexLost and StateUnavailable leave it
        open too.
        """
        self.announcer.begun()
        is_piece = bool(plan.content.lineage.abandoned)
        life = lifecycle.new_life(is_piece)
        if found_open:
            log.info("batch %d was left open", plan.key.batch)
            died = plan.key.plan_id != self._last_plan_id
            life = lifecycle.found_open(self.state.attempts(), is_piece, died)
        self._last_plan_id = plan.key.plan_id
        began_us, retry, reason = self.clock.now_us(), self.retry, ""
        while life.state not in FINAL:
            if life.state is State.WAITING:
                event = Event.WAITED if retry.wait(reason) else Event.STOPPED
            else:
                event, reason = self._act(life, plan, reader, began_us)
            if event in FAILURES:
                self.meter.count("batch_failures", event.name.lower())
            before, life = life, lifecycle.after(life, event, reason)
            if life.attempts != before.attempts and life.state is not State.COMPLETED:
                self.state.note_attempts(life.attempts)
        if life.state is State.COMPLETED:
            retry.over()
        if life.state is State.SUPERSEDED:
            raise Superseded(reason)
        if life.state is State.HALTED:
            raise AdapterFails(reason)
        if life.state is State.LEFT_OPEN:
            log.info("stopped while batch %d waits; the next start runs it again", plan.key.batch)
        return life.state is State.COMPLETED

    def _act(self, life: Life, plan: Plan, reader: LogReader, began_us: int) -> tuple[Event, str]:
        """Do what the plan's state asks for; return what came of it, and why."""
        try:
            match life.state:
                case State.UNSURE:
                    return self._committing.ask_table(plan)
                case State.READY:
                    self._attempt(plan, reader, life, began_us)
                case State.COMMITTED:
                    self._read_back(plan, reader)
                case State.DOOMED:
                    self._abandon(plan, reader, life.doom or "")
            return Event.ENDED, ""
        except WaitingDamaged as error:
            return Event.UNAVAILABLE, self.mend_waiting(error.segments, reader)
        except RunDamaged as error:
            return Event.UNAVAILABLE, self._read_view_anew(error)
        except AdapterFails as error:
            return Event.ADAPTER_FAILED, str(error)
        except DeadlineExceeded as error:
            return Event.TIMED_OUT, str(error)
        except RunnerDied as error:
            return Event.RUNNER_DIED, str(error)
        except WorkerDied as error:
            self.index.check()  # a segment that was cut short kills who looks into it
            return Event.FAILED, str(error)
        except (SchemaConflict, CannotEnd) as error:
            return Event.FAILED, str(error)
        except (RegistryUnavailable, ViewUnavailable, LakeUnavailable, CommitConflict, OSError) as error:
            return Event.UNAVAILABLE, str(error)  # OSError: logs or the work folder

    def _read_view_anew(self, error: RunDamaged) -> str:
        """Read the ledgers from their beginning, for the next attempt: tasks found no file of the view's."""
        reason = f"the view of the registry is read again, for {error}"
        log.warning("%s", reason)
        try:
            self.registry.read_anew()
        except RegistryUnavailable as away:
            return str(away)
        return reason

    def mend_waiting(self, segments: Sequence[str], reader: LogReader) -> str:
        """Make damaged waiting segments again, for the next attempt (A19); what was done."""
        repair = WaitingRepair(self.pipeline, self.datacenter, self.state, self.tables["unjoined"])
        try:
            reason = "; ".join(repair.mend(name, reader.files) for name in segments)
        except (OSError, LakeUnavailable) as error:
            reason = f"state {self.state.folder}: {error}"
        log.warning("%s", reason)
        return reason

    # -- running and committing

    def _attempt(self, plan: Plan, reader: LogReader, life: Life, began_us: int) -> None:
        fault_point("batch.before_run")
        if plan.content.foreign or plan.content.retries:  # all else is done while the registry is away
            self.registry.read_on()
        if self.holders.is_stopped:
            raise RegistryUnavailable(f"datacenter {self.datacenter} is on hold, or was retired")
        ahead = None if life.ran_before else self.ahead.made_for(plan.key)
        tasks = self._tasks(plan, reader, life, ahead)
        if life.is_first:
            self.ahead.begin(plan, reader, self.limits)
        with self._timed("tasks"):
            outcomes = self.runner.run(tasks)
        fault_point("batch.after_run")
        first = collect_results([*(ahead.results if ahead is not None else ()), *outcomes])
        with self._timed("claim"):
            settled = self._rounds.settle(tasks, first, lambda results: self._check(plan, reader, results))
        results = settled.results
        self.meter.add(results.measures)
        with self._timed("commit"):
            self._committing.commit_batch(plan, results)
        readable_us = self.clock.now_us()
        # A task of an earlier attempt may have outlived it, and stored more.
        stored = self._leftovers.candidates(plan) if life.ran_before else []
        with self._timed("complete"):
            counts = self._complete(plan, reader, settled)
        candidates = {*stored, *results.unneeded_files}
        self._leftovers.drop_uncommitted(candidates, settled.replaced, results.all_files)
        if not life.ran_before:  # claims before an outage say nothing of what others did in it
            self.observer.first_answers(first, some_lost=bool(settled.rounds))
        if not plan.content.lineage.quarantine:
            self._quarantined_in_a_row = 0
        self.observer.completed(plan.key.batch, results, counts, began_us, readable_us)

    def _check(self, plan: Plan, reader: LogReader, results: Results) -> None:
        """Refuse to claim for results that must not be committed. OSError, AdapterFails."""
        self._follow_moved(plan, reader, results)
        completion.check_adapter(results, self._adapter_calls, self.pipeline, plan.key)

    def _follow_moved(self, plan: Plan, reader: LogReader, results: Results) -> None:
        """Have the batch run again if bytes seem gone because their files moved since it was planned.

        OSError: then it is run again.
        """
        if not results.lost_bytes:
            return
        if moved := reader.find_moved((*plan.content.primary, *plan.content.foreign)):
            made = [each.indexed.segment for each in results.index]
            self.index.make_anew(moved, [each.name for each in made if each is not None])
            names = ", ".join(readable(one.file.path) for one in moved)
            raise OSError(f"log files moved while the batch was under way, and are read there: {names}")

    @contextmanager
    def _timed(self, stage: Literal["tasks", "claim", "commit", "complete"]) -> Iterator[None]:
        began_us = self.clock.elapsed_us()
        yield
        self.meter.time(
            "batch_stage_seconds", stage, seconds=(self.clock.elapsed_us() - began_us) / MICROSECONDS
        )

    def _tasks(self, plan: Plan, reader: LogReader, life: Life, ahead: IndexedAhead | None) -> BatchTasks:
        ran_before = life.ran_before
        lineage = plan.content.lineage
        workers, segment_of = self.runner.workers, partial(self.index.new_segment, plan.key)
        to_index = () if ahead is not None else index_tasks(plan, reader.files, workers, segment_of)
        segments = [] if lineage.quarantine else [task.segment for task in to_index]
        segments += ahead.segments if ahead is not None else ()
        context = TaskContext(
            pipeline=self.pipeline,
            plan=plan.key,
            work=self.state.work,
            index=self.index.snapshot(segments),
            final=plan.content.final,
            follows_an_epoch=self.state.follows_an_epoch,
            view=self.registry.snapshot(claimant_of(plan.key)),
            row_schema=self._joined.schema(),
            unresponsive_datacenters=self.holders.absent | self.observer.unresponsive_datacenters(),
            given_up=self.holders.given_up,
            already_recorded=self._committing.already_recorded(plan, ran_before),
            careful=life.is_suspect,
            quarantine=lineage.quarantine,
            candidate_files=tuple(self._leftovers.candidates(plan)) if ran_before else (),
        )
        return BatchTasks(context, to_index, join_tasks(plan, reader.files, workers))

    def reindex(self, files: Iterable[TrackedFile]) -> list[SegmentInfo]:
        """Make the index of primary files again, as far as they are read; its segments are not listed yet.

        WorkerDied, CannotEnd, DeadlineExceeded, LakeUnavailable.
        """
        key = PlanKey(self.datacenter, self.epoch, self.state.completed, new_id())
        tasks = reindex_tasks(files, partial(self.index.new_segment, key))
        snapshot = self.index.snapshot()
        context = TaskContext(self.pipeline, key, self.state.work, snapshot, False, False)
        results = collect_results(self.runner.run(BatchTasks(context, tasks)))
        return [each.indexed.segment for each in results.index if each.indexed.segment is not None]

    # -- completing

    def _complete(self, plan: Plan, reader: LogReader, settled: Settled) -> Counter[str]:
        """After the commit: change the state in one transaction (A6). The next claims close the batch."""
        results = settled.results
        resolved = self._table.resolve(plan.key.batch, results.registered_here)
        self.holders.note_held({epoch for result in results.join for epoch in result.held})
        orphans = self._table.settle_given_up(plan.key.batch, results.to_free, self.holders)
        resolved.counts += orphans.counts
        resolved.counts += self._conflicts.count(plan, results, resolved, reader.files)
        now_us = self.clock.now_us()
        max_time_us = completion.latest_times_us(results)
        reader.advance(plan.advances, max_time_us)
        counts = completion.sums(results, resolved)
        indexed = [result.indexed for result in results.index]
        segments = [each.segment for each in indexed if each.segment is not None]
        adapter_calls = results.adapter_calls.in_a_row(self._adapter_calls)
        fault_point("complete.before_transaction")
        self._finish(
            plan,
            Completion(
                counts=counts,
                lost=[lost for result in results.join for lost in result.lost],
                waiting=results.waiting,
                ended=resolved.ended | orphans.ended,
                released=resolved.released | orphans.released,
                new_hashes=[each.new_hashes for each in indexed],
                max_time_us=max_time_us,
                watermark_us=completion.watermark_of(reader, self.pipeline, now_us, self.state.watermark_us),
                inherited=resolved.inherited,
                segments=segments,
                adapter_calls=adapter_calls,
                window=self.state.window_at(now_us),
                ended_us=now_us,
            ),
        )
        self.closes.committed(plan.key.batch, claimant_of(plan.key), settled.rows)
        self._adapter_calls = adapter_calls
        self.index.added(segments)
        fault_point("complete.after_transaction")
        return counts

    def _finish(self, plan: Plan, completion: Completion) -> None:
        self.state.complete(plan, completion)
        self.announcer.completed()

    # -- batches that can't be completed as they are

    def _read_back(self, plan: Plan, reader: LogReader) -> None:
        """Complete a batch that the table has, and queue all of its work again: its results are lost.

        The new plan finds its rows in the table, and what it claimed in vain is free by then (A6, A8).
        """
        log.info("batch %d was committed but not completed: reading it back", plan.key.batch)
        self._close_now(plan)
        lineage = plan.content.lineage.after(plan.as_origin)
        self._queue_again(plan, reader, [replace(plan.content, lineage=lineage)])

    def _queue_again(self, plan: Plan, reader: LogReader, requeue: list[PlanContent]) -> None:
        """Complete a batch without results, with its work queued as new plans'."""
        unneeded = self._leftovers.not_committed(plan)
        reader.advance(plan.advances, {})
        self._finish(plan, Completion(requeue=requeue))
        self._leftovers.drop(unneeded)

    def _close_now(self, plan: Plan) -> None:
        """Close a batch before its work is planned again, or its records would meet their own claims (A7).

        Its claims may be there though nobody was told so: read them first.
        """
        self.registry.catch_up()
        self.closes.committed(plan.key.batch)
        self.closes.now()

    def _abandon(self, plan: Plan, reader: LogReader, reason: str) -> None:
        """Commit a batch that can't end empty, free its ids, queue its work in halves (A11)."""
        log.warning("batch %d could not be carried out (%s): taking it up in halves", plan.key.batch, reason)
        logs = self.pipeline.datacenters[self.datacenter].logs
        parts = split(plan, reason, reader.files, logs, reader.rules_of)
        if any(part.lineage.quarantine for part in parts):
            self._quarantined_in_a_row += 1
            completion.check_deaths(self._quarantined_in_a_row, reason)
        self._committing.commit_empty(plan)
        fault_point("abandon.after_commit")
        self._close_now(plan)
        fault_point("abandon.after_close")
        self._queue_again(plan, reader, parts)
