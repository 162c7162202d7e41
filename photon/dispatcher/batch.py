"""Carry one plan through: run, commit, complete; or split it (protocol A3 to A12)."""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from photon.clock import MICROSECONDS, Clock, microseconds
from photon.dispatcher import completion
from photon.dispatcher.completion import CannotEnd, Results, Superseded, collect_results
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.plan import Origin, Plan
from photon.dispatcher.planning import split
from photon.dispatcher.state import Completion, DispatcherState
from photon.dispatcher.task_splitter import index_tasks, join_tasks
from photon.dispatcher.waiting import unresponsive_datacenters, waiting_rows
from photon.errors import UserError
from photon.faults import fault_point
from photon.join.candidates import CLAIM_COLUMNS, claims_of
from photon.join.messages import BatchRunner, BatchTasks, RegisteredHere, TaskContext, WorkerDied
from photon.join.outcomes import OutcomeClass
from photon.join.spool import drop_unreferenced
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.quantiles import Sample, merge
from photon.registry.address import RegistryAddress
from photon.registry.interface import Claim, IdRegistry, RegistryUnavailable, Unknown
from photon.storage.candidate_files import (
    candidate_files,
    drop_candidates,
    read_candidates,
)
from photon.storage.columns import TableName
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.tables import (
    CommitConflict,
    LakeUnavailable,
    LastCommit,
    OutputTable,
    SchemaConflict,
    app_id,
)
from photon.tokens import Occurrence, Token

log = logging.getLogger(__name__)

T = TypeVar("T")

SIDE_TABLES: dict[TableName, OutcomeClass] = {
    "dead_letters": "dead_letters",
    "unjoined": "unjoinable",
    "too_old": "too_old",
}
MOST_QUARANTINED_IN_A_ROW = 20  # with more of them the fault is not in the events
ROWS_ARE_GONE = "of events that were joined, and whose rows are gone from the table: photon verify names them"


class TooManyDeaths(UserError):
    """Many events in a row kept their batches from ending: the fault is not in the events."""


@dataclass(frozen=True)
class BatchReport:
    """What one batch did."""

    batch: int
    counts: Counter[str]
    seconds: float
    # Seconds from the later of both events' own times until their row was readable.
    latencies_seconds: Sample = field(default_factory=Sample)


@dataclass(frozen=True)
class Callbacks:
    """How a caller follows and ends a run."""

    should_stop: Callable[[], bool] = lambda: False
    on_batch: Callable[[BatchReport], None] = lambda report: None
    on_wait: Callable[[str], None] = lambda reason: None  # something is unavailable; called once


class BackoffRetry:
    """Waits with backoff for what is unavailable, and says so once."""

    FIRST_SECONDS = 0.25
    MOST_SECONDS = 10.0
    SLICE_SECONDS = 0.25  # how soon a stop is noticed

    def __init__(self, callbacks: Callbacks, clock: Clock, rng: random.Random) -> None:
        self._callbacks = callbacks
        self._clock = clock
        self._rng = rng
        self._wait_seconds = self.FIRST_SECONDS
        self._said = False

    def wait(self, reason: str) -> bool:
        """Wait before the next try; False if a stop is requested."""
        if not self._said:
            self._callbacks.on_wait(reason)
            self._said = True
        left = self._wait_seconds * self._rng.uniform(0.75, 1.25)
        self._wait_seconds = min(self._wait_seconds * 2, self.MOST_SECONDS)
        while left > 0:
            if self._callbacks.should_stop():
                return False
            self._clock.sleep(min(left, self.SLICE_SECONDS))
            left -= self.SLICE_SECONDS
        return not self._callbacks.should_stop()

    def until_available(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, retried while registry or lake is unavailable, or until a stop."""
        while True:
            try:
                return attempt()
            except (RegistryUnavailable, LakeUnavailable) as error:
                if not self.wait(str(error)):
                    raise


@dataclass
class BatchExecution:
    """Runs the plans of one datacenter, one at a time."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    tables: Mapping[TableName, OutputTable]
    address: RegistryAddress
    registry: IdRegistry
    runner: BatchRunner
    clock: Clock
    rng: random.Random
    callbacks: Callbacks
    crash_task_at: str | None = None  # a fault point at which one task's process dies, for tests

    def __post_init__(self) -> None:
        self.epoch = self.state.epoch or ""
        self._app = app_id(self.datacenter, self.epoch)
        self._lake = self.pipeline.datacenters[self.datacenter].lake
        self._registered_us = dict.fromkeys(self.pipeline.datacenters, self.clock.now_us())
        self._quarantined_in_a_row = 0
        # Whether the last batch with fresh events found them free: others may have them after an outage.
        self._nobody_had_fresh = False

    def run(self, plan: Plan, reader: LogReader, ran_before: bool) -> bool:
        """Run a plan until it is completed; False if it is left open because a stop was requested.

        `ran_before`: an earlier run may have written tables, and even committed the batch.
        Superseded, TooManyDeaths and StateUnavailable end it too: the plan stays open then.
        """
        began_us = self.clock.now_us()
        retry = BackoffRetry(self.callbacks, self.clock, self.rng)
        if ran_before:
            log.info("batch %d was left open", plan.key.batch)
        cannot_end: str | None = None  # why it would fail again as it is: it is split then
        while True:
            try:
                if ran_before and self._is_committed(plan):
                    self._complete_by_requeue(plan, reader)
                elif cannot_end is not None:
                    self._split(plan, reader, cannot_end)
                else:
                    self._run_once(plan, reader, ran_before, began_us)
                return True
            except (WorkerDied, SchemaConflict, CannotEnd) as error:
                cannot_end = str(error)
            except (LakeUnavailable, RegistryUnavailable, CommitConflict) as error:
                ran_before = True
                if not retry.wait(str(error)):
                    log.info("stopped while batch %d waits; the next start runs it again", plan.key.batch)
                    return False

    # -- running and committing

    def _run_once(self, plan: Plan, reader: LogReader, ran_before: bool, began_us: int) -> None:
        fault_point("batch.before_run")
        outcomes = self.runner.run(self._tasks(plan, reader, ran_before))
        fault_point("batch.after_run")
        results = collect_results(outcomes)
        self._commit(plan, results)
        readable_us = self.clock.now_us()
        # A task of an earlier run may have outlived it, and stored and registered more.
        stored = self._release_candidates(plan) if ran_before else {}
        counts = self._complete(plan, reader, results)
        committed = {file.path for file in results.files("joined_events")}
        self._drop({*stored, *results.unneeded_files} - committed)
        self._after_completion(plan, results, counts, began_us, readable_us)

    def _tasks(self, plan: Plan, reader: LogReader, ran_before: bool) -> BatchTasks:
        now_us, quiet_after_us = self.clock.now_us(), microseconds(self.pipeline.home.quiet_after)
        context = replace(
            self._context(plan),
            unresponsive_datacenters=unresponsive_datacenters(self._registered_us, now_us, quiet_after_us),
            row_schema=self.tables["joined_events"].schema(),
            candidate_files=tuple(candidate_files(self._lake, plan.key)) if ran_before else (),
            already_recorded=self._already_recorded(plan, ran_before),
            # What ran before, or belongs to a batch that could not end, may be registered already (A7, A11).
            looks_up_all=ran_before
            or plan.requeue_id is not None
            or self.state.follows_an_epoch
            or not self._nobody_had_fresh,
        )
        workers = self.runner.workers
        return BatchTasks(
            context, index_tasks(plan, reader.files, workers), join_tasks(plan, reader.files, workers)
        )

    def _context(self, plan: Plan) -> TaskContext:
        """What a plan's tasks are told, without what the tables and other datacenters say."""
        return TaskContext(
            pipeline=self.pipeline,
            plan=plan.key,
            registry=self.address,
            workers=self.runner.workers,
            final=plan.content.final,
            follows_an_epoch=self.state.follows_an_epoch,
            quarantine=plan.content.quarantine,
            crash_at=self.crash_task_at,
        )

    def _already_recorded(self, plan: Plan, ran_before: bool) -> dict[Occurrence, OutcomeClass]:
        """The records that earlier runs of this plan put into the tables, with their classes (protocol A12).

        Rows too: their ids may be cleared by now, and then the registry can't say which record won (B6).
        """
        own = Origin(plan.key.batch, plan.key.plan_id)
        plans = [*plan.content.origins, *([own] if ran_before else [])]
        already_recorded: dict[Occurrence, OutcomeClass] = {}
        for origin in plan.content.origins:
            rows = self.tables["joined_events"].occurrences_of(self.epoch, origin.batch, origin.plan_id)
            already_recorded.update(dict.fromkeys(rows, "joined"))
        for name, outcome in SIDE_TABLES.items():
            for each in plans:
                occurrences = self.tables[name].occurrences_of(self.epoch, each.batch, each.plan_id)
                already_recorded.update(dict.fromkeys(occurrences, outcome))
        return already_recorded

    def _commit(self, plan: Plan, results: Results) -> None:
        """Make the batch visible: side tables first, the joined rows last and always (protocol A4, A12)."""
        batch = plan.key.batch
        for name in SIDE_TABLES:
            app = app_id(self.datacenter, self.epoch, name)
            files = results.files(name)
            if files and self.tables[name].version_of(app) < batch:
                self.tables[name].commit(files, app, batch, None, plan.key.plan_id)
            fault_point(f"side_tables.after_{name}")
        fault_point("commit.before_main")
        joined = self.tables["joined_events"]
        joined.commit(results.files("joined_events"), self._app, batch, batch - 1, plan.key.plan_id)
        fault_point("commit.after_main")

    def _is_committed(self, plan: Plan) -> bool:
        """Whether the table has the batch, after a commit that did not return.

        Superseded if the table is beyond it, or has it by another plan (A15).
        """
        last, own = self.tables["joined_events"].last_commit(self._app), plan.key
        if last.batch > own.batch:
            raise Superseded(
                f"the table of datacenter {self.datacenter} is at batch {last.batch}, beyond this process's "
                f"{own.batch}: another process runs it, or this epoch was fenced; this one ends"
            )
        is_committed = last.batch == own.batch
        if is_committed and not last.may_be(LastCommit(own.batch, own.plan_id)):
            raise Superseded(
                f"batch {own.batch} of datacenter {self.datacenter} was committed by plan {last.plan_id}, "
                f"not by this process's {own.plan_id}: another copy of its state is in use; "
                "this one ends, and begins a new epoch if it is started again"
            )
        if is_committed:  # by a process that may have been killed right after that (A18)
            self.tables["joined_events"].sync()
        return is_committed

    # -- completing

    def _complete(self, plan: Plan, reader: LogReader, results: Results) -> Counter[str]:
        """After the commit: release what has no row, then change the state in one transaction (A6, A7)."""
        resolved = self._resolve(plan, results)
        fault_point("release.before")
        self._release(results.to_release)
        released = self._release_for_others(results.registered_here, resolved.release)
        fault_point("release.after")
        now_us = self.clock.now_us()
        waiting = [
            row
            for result in results.join
            for row in waiting_rows(result, resolved.ended, released, self.pipeline, now_us, self.rng)
        ]
        max_time_us: dict[int, int] = {}
        for result in results.index:
            max_time_us.update(result.indexed.max_time_us)
        reader.advance(plan.advances, max_time_us)
        counts = completion.sums(results, resolved)
        if results.index:  # before the transaction: a crash between them wakes once more, loses no wake-up
            hashes = [result.indexed.new_hashes for result in results.index]
            self.state.wake(np.unique(np.concatenate(hashes)), now_us)
        idle_after_us = microseconds(self.pipeline.tailing.idle_after)
        primaries = reader.of("primary").values()
        fault_point("complete.before_transaction")
        self.state.complete(
            plan,
            Completion(
                counts=counts,
                gone=[o for result in results.join for o in result.decided_retries] + list(resolved.ended),
                waiting=waiting,
                max_time_us=max_time_us,
                watermark_us=completion.watermark_us(
                    primaries, now_us, idle_after_us, self.state.watermark_us
                ),
                inherited=resolved.inherited,
            ),
        )
        fault_point("complete.after_transaction")
        return counts

    def _resolve(self, plan: Plan, results: Results) -> completion.Resolved:
        records = results.registered_here
        before = self.state.inherited_among(completion.event_name(record.key) for record in records)
        tokens = {Token.parse(record.token) for record in records if record.token is not None}
        row_status = self.tables["joined_events"].row_status_of(tokens)
        epochs_of_rows = self._epochs_of_rows([record for record in records if record.token is None])
        resolved = completion.resolve(records, row_status, epochs_of_rows, self.epoch, before)
        if missing := resolved.counts["missing"]:
            log.warning("batch %d: %d records %s", plan.key.batch, missing, ROWS_ARE_GONE)
        return resolved

    def _epochs_of_rows(self, records: Sequence[RegisteredHere]) -> Mapping[EventKey, Collection[str]]:
        """In which epochs these events have rows; in a first epoch no row need be read."""
        if not self.state.follows_an_epoch:
            return {record.key: {self.epoch} for record in records}
        ids = {record.key.id for record in records}
        return epochs_of_rows(self.tables["joined_events"], ids, self.pipeline.foreign)

    def _release_for_others(self, records: list[RegisteredHere], claims: list[Claim]) -> set[Occurrence]:
        """Release ids that an earlier plan holds without a row; the records whose ids are free now."""
        outcomes = self.registry.release(claims) if claims else []
        free = {
            claim.token
            for claim, outcome in zip(claims, outcomes, strict=True)
            if not isinstance(outcome, Unknown)
        }
        return {record.occurrence for record in records if record.token in free}

    def _release(self, claims: list[Claim]) -> int:
        """Release tokens that have no row and get none; how many those are.

        The plan stays open until their release is known (A7, E1).
        """
        tokens = {claim: Token.parse(claim.token) for claim in claims}
        row_status = self.tables["joined_events"].row_status_of(set(tokens.values()))
        claims = [claim for claim, token in tokens.items() if row_status[token] == "no row"]
        released = len(claims)
        retry = BackoffRetry(self.callbacks, self.clock, self.rng)
        while claims:
            outcomes = self.registry.release(claims)
            unknown = [(c, o) for c, o in zip(claims, outcomes, strict=True) if isinstance(o, Unknown)]
            claims = [claim for claim, _ in unknown]
            if claims and not retry.wait(
                f"registry: {len(claims)} ids not released yet: {unknown[0][1].reason}"
            ):
                raise RegistryUnavailable("stopped before all ids of the batch were released")
        return released

    def _release_candidates(self, plan: Plan) -> dict[str, bool]:
        """After commit N: release each candidate of the plan that has no row in it (protocol A14).

        Its candidate files, and whether all rows of each are in the table, so that it may be committed.
        """
        is_in_table: dict[str, bool] = {}
        for name in candidate_files(self._lake, plan.key):
            rows = read_candidates(self._lake, [name], CLAIM_COLUMNS)
            claims = [] if rows is None else claims_of(rows, plan.key, self.pipeline.foreign)
            is_in_table[name] = rows is not None and self._release(claims) == 0
        return is_in_table

    def _drop(self, names: Collection[str]) -> None:
        """Remove candidate files that nobody needs any more."""
        with contextlib.suppress(OSError):  # what can't be removed now is as invisible as it was
            drop_candidates(self._lake, names)

    def _after_completion(
        self, plan: Plan, results: Results, counts: Counter[str], began_us: int, readable_us: int
    ) -> None:
        now_us = self.clock.now_us()
        for result in results.join:
            self._registered_us.update(dict.fromkeys(result.registered_elsewhere, now_us))
        news = [r.fresh_were_free for r in results.join if r.fresh_were_free is not None]
        if news:
            self._nobody_had_fresh = all(news)
        if plan.content.retries:
            with contextlib.suppress(OSError):  # what can't be removed now goes with a later batch
                drop_unreferenced(self.state.folder, self.state.spool_files())
        if not plan.content.quarantine:
            self._quarantined_in_a_row = 0
        seconds = (now_us - began_us) / MICROSECONDS
        since = merge([result.joinable_since_us for result in results.join])
        latencies = Sample(since.count, ((readable_us - since.values) / MICROSECONDS)[::-1])
        self.callbacks.on_batch(BatchReport(plan.key.batch, counts, seconds, latencies))

    # -- batches that can't be completed as they are

    def _complete_by_requeue(self, plan: Plan, reader: LogReader) -> None:
        """Complete a batch that the table has, and requeue all of its work: its results are lost.

        Its rows are read back when the new plan meets their tokens (protocol A6, A8).
        """
        log.info("batch %d was committed but not completed: reading it back", plan.key.batch)
        stored = self._release_candidates(plan)
        reader.advance(plan.advances, {})
        own = Origin(plan.key.batch, plan.key.plan_id)
        again = replace(plan.content, origins=(*plan.content.origins, own))
        self.state.complete(plan, Completion(requeue=[again]))
        self._drop([name for name, is_in_table in stored.items() if not is_in_table])

    def _split(self, plan: Plan, reader: LogReader, reason: str) -> None:
        """A batch that can't end: commit it empty, release its ids, requeue its work in halves (A11)."""
        log.warning("batch %d could not be carried out (%s): taking it up in halves", plan.key.batch, reason)
        logs = self.pipeline.datacenters[self.datacenter].logs
        parts = split(plan.content, reason, reader.files, logs)
        if any(part.quarantine for part in parts):
            self._quarantined_in_a_row += 1
            if self._quarantined_in_a_row > MOST_QUARANTINED_IN_A_ROW:
                raise TooManyDeaths(
                    f"{MOST_QUARANTINED_IN_A_ROW} events in a row kept their batch from ending, "
                    f"the last time: {reason}; mend the adapter or the machine and start again: "
                    "nothing of this batch is lost"
                )
        batch, plan_id = plan.key.batch, plan.key.plan_id
        self.tables["joined_events"].commit([], self._app, batch, batch - 1, plan_id)
        fault_point("abandon.after_commit")
        stored = self._release_candidates(plan)
        fault_point("abandon.after_release")
        reader.advance(plan.advances, {})
        self.state.complete(plan, Completion(requeue=parts))
        self._drop([name for name, is_in_table in stored.items() if not is_in_table])
