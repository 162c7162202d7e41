"""Carrying one plan through: run, commit, complete; or abandon it (protocol A3 to A12).

The order of the steps of one batch, and what happens when one of them fails. Which plans there are
is for `dispatcher`; every decision is in `settling` or `abandoning`, every durable change in `state` or
`output`.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from photon.clock import MICROSECONDS, Clock, microseconds
from photon.dispatcher import completion
from photon.dispatcher.abandoning import halves_of_plan
from photon.dispatcher.backoff import unresponsive_datacenters
from photon.dispatcher.log_reader import Follower
from photon.dispatcher.plan import Plan
from photon.dispatcher.results import CannotEnd, Results, collect_results
from photon.dispatcher.state import DispatcherState
from photon.dispatcher.state_rows import Completion
from photon.dispatcher.task_splitter import TaskSplitter
from photon.errors import UserError
from photon.faults import fault_point
from photon.join.messages import BatchRunner, BatchTasks, Contested, JoinedRecord, WorkerDied
from photon.join.outcomes import OutcomeClass
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.quantiles import Sample, merge
from photon.registry.interface import Claim, IdRegistry, RegistryUnavailable, Unknown
from photon.storage.columns import TableName
from photon.storage.joined_rows import epochs_of_rows
from photon.storage.tables import (
    CommitConflict,
    LakeUnavailable,
    OutputFile,
    OutputTable,
    RowStatus,
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
MOST_QUARANTINED_IN_A_ROW = 20  # more of them: it is not the events
ROWS_ARE_GONE = "of events that were joined, and whose rows are gone from the table: photon verify names them"


class Superseded(UserError):
    """Another process commits for this datacenter: this one must not go on (protocol A3)."""


class TooManyDeaths(UserError):
    """One event after the other kept its batch from ending: it is not the events."""


@dataclass(frozen=True)
class BatchReport:
    """What one batch did, for those who watch."""

    batch: int
    counts: Counter[str]
    seconds: float
    # Of the rows it made readable: seconds since the later of both events' own times.
    latencies_seconds: Sample = field(default_factory=Sample)


@dataclass
class Watching:
    """How others follow and end a run."""

    should_stop: Callable[[], bool] = lambda: False
    on_batch: Callable[[BatchReport], None] = lambda report: None
    on_wait: Callable[[str], None] = lambda reason: None  # something is unavailable; said once


class BackoffRetry:
    """Waits with backoff for what is unavailable, and says so once."""

    FIRST_SECONDS = 0.25
    MOST_SECONDS = 10.0
    SLICE_SECONDS = 0.25  # how soon a stop is noticed

    def __init__(self, watching: Watching, clock: Clock, rng: random.Random) -> None:
        self._watching = watching
        self._clock = clock
        self._rng = rng
        self._wait_seconds = self.FIRST_SECONDS
        self._said = False

    def wait(self, reason: str) -> bool:
        """Wait before the next try; False if a stop is asked for."""
        if not self._said:
            self._watching.on_wait(reason)
            self._said = True
        left = self._wait_seconds * self._rng.uniform(0.75, 1.25)
        self._wait_seconds = min(self._wait_seconds * 2, self.MOST_SECONDS)
        while left > 0:
            if self._watching.should_stop():
                return False
            self._clock.sleep(min(left, self.SLICE_SECONDS))
            left -= self.SLICE_SECONDS
        return not self._watching.should_stop()

    def until_there(self, attempt: Callable[[], T]) -> T:
        """The result of `attempt`, tried again while registry or lake can't be had, or until a stop."""
        while True:
            try:
                return attempt()
            except (RegistryUnavailable, LakeUnavailable) as error:
                if not self.wait(str(error)):
                    raise


class BatchExecution:
    """Carries the plans of one datacenter through, one at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        datacenter: str,
        state: DispatcherState,
        tables: dict[TableName, OutputTable],
        registry: IdRegistry,
        runner: BatchRunner,
        orders: TaskSplitter,
        clock: Clock,
        rng: random.Random,
        watching: Watching,
    ) -> None:
        self.pipeline = pipeline
        self.datacenter = datacenter
        self.state = state
        self.tables = tables
        self.registry = registry
        self.runner = runner
        self.orders = orders
        self.clock = clock
        self.rng = rng
        self.watching = watching
        self.epoch = state.epoch or ""
        self._app = app_id(datacenter, self.epoch)
        self._started_us = clock.now_us()
        self._registered_us: dict[str, int] = {}
        self._quarantined_in_a_row = 0

    def carry_out(self, plan: Plan, follower: Follower, ran_before: bool) -> bool:
        """See a plan through to its completion; False where it is left open, for a stop was asked for.

        Superseded, TooManyDeaths and StateUnavailable end it too: the plan stays open then.
        """
        began_us = self.clock.now_us()
        patience = BackoffRetry(self.watching, self.clock, self.rng)
        cannot_end: str | None = None
        commit_unknown = False
        while True:
            try:
                if commit_unknown and self.committed(plan):
                    self.complete_by_redo(plan, follower)
                elif cannot_end is not None:
                    self._abandon(plan, follower, cannot_end)
                else:
                    self._try(plan, follower, ran_before, began_us)
                return True
            except (WorkerDied, SchemaConflict, CannotEnd) as error:
                cannot_end = str(error)
                continue
            except (LakeUnavailable, RegistryUnavailable, CommitConflict) as error:
                reason = str(error)
            ran_before = commit_unknown = True
            if not patience.wait(reason):
                log.info("stopped while batch %d waits; the next start runs it again", plan.key.batch)
                return False

    def _try(self, plan: Plan, follower: Follower, ran_before: bool, began_us: int) -> None:
        fault_point("batch.before_run")
        outcomes = self.runner.run(self._order(plan, follower, ran_before))
        fault_point("batch.after_run")
        results = collect_results(outcomes)
        self._commit(plan, results)
        self._complete(plan, follower, results, began_us, self.clock.now_us())

    def _order(self, plan: Plan, follower: Follower, ran_before: bool) -> BatchTasks:
        already_recorded = self._already_recorded(plan, ran_before)
        now_us = self.clock.now_us()
        quiet = unresponsive_datacenters(
            [name for name in self.pipeline.datacenters if name != self.datacenter],
            self._registered_us,
            self._started_us,
            now_us,
            self.pipeline.home,
        )
        return self.orders.join(plan, follower.files, quiet, already_recorded)

    def _already_recorded(self, plan: Plan, ran_before: bool) -> dict[Occurrence, OutcomeClass]:
        """What earlier runs of this work put into the tables: it stays so (protocol A12).

        Rows too: their ids may have been cleared since, and then the registry knows no record of them (B6).
        """
        batches = [*plan.content.origins, *([plan.key.batch] if ran_before else [])]
        already_recorded: dict[Occurrence, OutcomeClass] = {}
        for batch in plan.content.origins:
            rows = self.tables["joined_events"].occurrences_of(self.epoch, batch)
            already_recorded.update(dict.fromkeys(rows, "joined"))
        for name, outcome in SIDE_TABLES.items():
            for batch in batches:
                occurrences = self.tables[name].occurrences_of(self.epoch, batch)
                already_recorded.update(dict.fromkeys(occurrences, outcome))
        return already_recorded

    def _commit(self, plan: Plan, results: Results) -> None:
        """Make the batch visible: side tables first, the joined rows last and always (protocol A4, A12)."""
        batch = plan.key.batch
        for name in SIDE_TABLES:
            app = app_id(self.datacenter, self.epoch, name)
            files = results.files(name)
            if files and self.tables[name].version_of(app) < batch:
                self.tables[name].commit(files, app, batch, None)
            fault_point(f"side_tables.after_{name}")
        fault_point("commit.before_main")
        self._commit_main(results.files("joined_events"), batch)
        fault_point("commit.after_main")

    def _commit_main(self, files: list[OutputFile], batch: int) -> None:
        self.tables["joined_events"].commit(files, self._app, batch, batch - 1)

    def committed(self, plan: Plan) -> bool:
        """Whether the table has the batch, after a commit that did not return; Superseded if it is beyond."""
        version = self.tables["joined_events"].version_of(self._app)
        if version > plan.key.batch:
            raise Superseded(
                f"the table of datacenter {self.datacenter} stands at batch {version}, beyond this process's "
                f"{plan.key.batch}: another process runs it, or this epoch was fenced; this one ends"
            )
        return version == plan.key.batch

    # -- completing

    def _complete(
        self, plan: Plan, follower: Follower, results: Results, began_us: int, readable_us: int
    ) -> None:
        """After the commit: release what has no row, then change the state in one transaction (A6, A7)."""
        standing = self._row_status(results.contested)
        keys = [item.claim.key for item in results.contested] + [item.key for item in results.already_joined]
        before = self.state.inherited_among(map(completion.event_name, keys))
        resolved = completion.resolve_contested(results.contested, standing, self.epoch, before)
        rows = self._epochs_of_rows(results.already_joined)
        completion.count_already_joined(resolved, results.already_joined, rows, self.epoch, before)
        if missing := resolved.counts["missing"]:
            log.warning("batch %d: %d records %s", plan.key.batch, missing, ROWS_ARE_GONE)
        fault_point("release.before")
        self._release([claim for result in results.join for claim in result.to_release])
        released = self._release_contested(results.contested, resolved.release)
        fault_point("release.after")
        now_us = self.clock.now_us()
        waiting = [
            row
            for result in results.join
            for row in completion.waiting_rows(
                result, resolved.over, released, self.pipeline, now_us, self.rng
            )
        ]
        max_time_us: dict[int, int] = {}
        for result in results.index:
            max_time_us.update(result.max_time_us)
        follower.advance(plan.advances, max_time_us)
        counts = completion.sums(results.index, results.join, resolved)
        hashes = [result.new_hashes for result in results.index if len(result.new_hashes)]
        if hashes:  # before the transaction: a crash between them wakes once more, and loses no wake-up
            self.state.wake(np.unique(np.concatenate(hashes)), now_us)
        fault_point("complete.before_transaction")
        self.state.complete(
            plan,
            Completion(
                batch=plan.key.batch,
                counts=counts,
                gone=[o for result in results.join for o in result.decided_retries] + list(resolved.over),
                waiting=waiting,
                max_time_us=max_time_us,
                watermark_us=self._watermark(follower, now_us),
                inherited=resolved.inherited,
            ),
        )
        fault_point("complete.after_transaction")
        self._after_completion(plan, results, counts, began_us, readable_us)

    def _after_completion(
        self, plan: Plan, results: Results, counts: Counter[str], began_us: int, readable_us: int
    ) -> None:
        now_us = self.clock.now_us()
        for result in results.join:
            self._registered_us.update(dict.fromkeys(result.registered_elsewhere, now_us))
        if plan.content.retries:
            self.orders.drop_spools(self.state.spool_files())
        if not plan.content.quarantine:
            self._quarantined_in_a_row = 0
        seconds = (now_us - began_us) / MICROSECONDS
        since = merge([result.joinable_since_us for result in results.join])
        latencies = Sample(since.count, ((readable_us - since.values) / MICROSECONDS)[::-1])
        self.watching.on_batch(BatchReport(plan.key.batch, counts, seconds, latencies))

    def _watermark(self, follower: Follower, now_us: int) -> int | None:
        """The watermark with this plan's bytes read."""
        files = follower.of("primary")
        return completion.watermark_us(
            list(files.values()),
            {number: tracked.size_bytes - tracked.offset_bytes for number, tracked in files.items()},
            now_us,
            microseconds(self.pipeline.tailing.idle_after),
            self.state.watermark_us,
        )

    def complete_by_redo(self, plan: Plan, follower: Follower) -> None:
        """The batch is in the table, but not what it found is in memory: do all of it again as new work.

        Its rows are read back when the new plan meets their tokens (protocol A6, A8).
        """
        log.info("batch %d was committed but not completed: reading it back", plan.key.batch)
        follower.advance(plan.advances, {})
        again = replace(plan.content, origins=(*plan.content.origins, plan.key.batch))
        self.state.complete(plan, Completion(plan.key.batch, {}, requeue=[again]))

    def _epochs_of_rows(self, records: Sequence[JoinedRecord]) -> dict[EventKey, frozenset[str]] | None:
        """In which epochs these events have rows; None if there was no epoch but this one."""
        if not self.state.follows_an_epoch:
            return None
        ids = {record.key.id for record in records}
        return epochs_of_rows(self.tables["joined_events"], ids, self.pipeline.foreign)

    def _row_status(self, contested: Sequence[Contested]) -> dict[Token, RowStatus]:
        tokens = {Token.parse(item.claim.token) for item in contested}
        return self.tables["joined_events"].row_status_of(tokens)

    def _release_contested(self, contested: list[Contested], claims: list[Claim]) -> set[Occurrence]:
        """Release ids that an earlier plan holds without a row; the records whose ids are free now."""
        if not claims:
            return set()
        outcomes = self.registry.release(claims)
        free = {
            claim.token
            for claim, outcome in zip(claims, outcomes, strict=True)
            if not isinstance(outcome, Unknown)
        }
        return {item.occurrence for item in contested if item.claim.token in free}

    def _release(self, claims: list[Claim]) -> None:
        """Release this plan's tokens that have no row; it stays open until that is known (protocol A7)."""
        patience = BackoffRetry(self.watching, self.clock, self.rng)
        while claims:
            outcomes = self.registry.release(claims)
            unknown = [(c, o) for c, o in zip(claims, outcomes, strict=True) if isinstance(o, Unknown)]
            claims = [claim for claim, _ in unknown]
            if claims and not patience.wait(
                f"registry: {len(claims)} ids not released yet: {unknown[0][1].reason}"
            ):
                raise RegistryUnavailable("stopped before all ids of the batch were released")

    # -- what can't end

    def _abandon(self, plan: Plan, follower: Follower, reason: str) -> None:
        """A batch that can't end: commit it empty, release its ids, take its work up in halves (A11)."""
        log.warning("batch %d could not be carried out (%s): taking it up in halves", plan.key.batch, reason)
        pieces = halves_of_plan(plan.content, reason, follower.files, self.orders.logs)
        if any(piece.quarantine for piece in pieces):
            self._quarantined_in_a_row += 1
            if self._quarantined_in_a_row > MOST_QUARANTINED_IN_A_ROW:
                raise TooManyDeaths(
                    f"{MOST_QUARANTINED_IN_A_ROW} events in a row kept their batch from ending, "
                    f"the last time: {reason}; mend the adapter or the machine and start again: "
                    "nothing of this batch is lost"
                )
        self._commit_main([], plan.key.batch)
        try:
            found = collect_results(self.runner.run(self.orders.release(plan, follower.files)))
            self._release([claim for result in found.join for claim in result.to_release])
        except (WorkerDied, CannotEnd):
            log.warning("batch %d: what it registered is released when its events come again", plan.key.batch)
        follower.advance(plan.advances, {})
        self.state.complete(plan, Completion(plan.key.batch, {}, requeue=pieces))
