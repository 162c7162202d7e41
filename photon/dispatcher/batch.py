"""Carry one plan through: do what its state asks for, until it is completed (protocol A3 to A17).

What is done in which state, and what follows, is in `photon.state.lifecycle`.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from photon.dispatcher import completion
from photon.dispatcher.ahead import IndexedAhead
from photon.dispatcher.batch_tools import BatchTools
from photon.dispatcher.claiming_rounds import Settled
from photon.dispatcher.completion import (
    AdapterFails,
    CannotEnd,
    DeadlineExceeded,
    Results,
    Superseded,
    collect_results,
)
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.planning import split
from photon.dispatcher.task_splitter import index_tasks, join_tasks
from photon.join.messages import BatchTasks, NoWorkerStarts, RunnerDied, TaskContext, WorkerDied
from photon.process.faults import fault_point
from photon.process.readable import readable
from photon.registry.errors import RegistryUnavailable
from photon.registry.lookups import claimant_of
from photon.registry.segments import RunDamaged
from photon.registry.view_store import ViewUnavailable
from photon.state import lifecycle
from photon.state.dispatcher_state import Completion
from photon.state.lifecycle import FAILURES, FINAL, OWN_FAILURES, Event, Life, PlanState
from photon.state.plan import Plan, PlanContent
from photon.state.waiting.segments import WaitingDamaged
from photon.storage.delta import LakeUnavailable
from photon.storage.own_columns import SchemaConflict
from photon.storage.tables import CommitConflict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchExecution:
    """Runs one plan of one datacenter."""

    tools: BatchTools
    plan: Plan
    reader: LogReader

    def run(self, found_open: bool = False) -> bool:
        """Run the plan until it is completed; False if it is left open because a stop was requested.

        AdapterFails, Superseded, RegistryMismatch, TooManyDeaths, IndexLost and StateUnavailable leave it
        open too.
        """
        tools, plan = self.tools, self.plan
        tools.announcer.begun()
        is_piece = bool(plan.content.lineage.abandoned)
        life = lifecycle.new_life(is_piece, plan.content.attempts)
        if found_open:
            log.info("batch %d was left open", plan.key.batch)
            died = plan.key.plan_id != tools.last_plan_id
            life = lifecycle.found_open(tools.state.attempts(), is_piece, died)
        tools.last_plan_id = plan.key.plan_id
        began_us, retry, reason = tools.clock.now_us(), tools.retry, ""
        while life.state not in FINAL:
            if life.state is PlanState.WAITING:
                event = Event.WAITED if retry.wait(reason) else Event.STOPPED
            else:
                event, reason = self._act(life, began_us)
            if event in FAILURES:
                tools.meter.count("batch_failures", event.name.lower())
            if event in OWN_FAILURES:
                tools.callbacks.on_failure(reason)
            before, life = life, lifecycle.after(life, event, reason)
            if life.attempts != before.attempts and life.state is not PlanState.COMPLETED:
                tools.state.note_attempts(life.attempts)
        if life.state is PlanState.COMPLETED:
            retry.over()
        if life.state is PlanState.SUPERSEDED:
            raise Superseded(reason)
        if life.state is PlanState.HALTED:
            raise AdapterFails(reason)
        if life.state is PlanState.LEFT_OPEN:
            log.info("stopped while batch %d waits; the next start runs it again", plan.key.batch)
        return life.state is PlanState.COMPLETED

    def _act(self, life: Life, began_us: int) -> tuple[Event, str]:
        """Do what the plan's state asks for; return what came of it, and why."""
        try:
            match life.state:
                case PlanState.UNSURE:
                    return self.tools.committing.ask_table(self.plan)
                case PlanState.READY:
                    self._attempt(life, began_us)
                case PlanState.COMMITTED:
                    self._read_back(life)
                case PlanState.PASSED:
                    self._take(life)
                case PlanState.DOOMED:
                    self._abandon(life.doom or "")
            return Event.ENDED, ""
        except WaitingDamaged as error:
            return Event.UNAVAILABLE, self.tools.mend_waiting(error.segments, self.reader)
        except RunDamaged as error:
            return Event.UNAVAILABLE, self.tools.read_view_anew(error)
        except AdapterFails as error:
            return Event.ADAPTER_FAILED, str(error)
        except DeadlineExceeded as error:
            return Event.TIMED_OUT, str(error)
        except RunnerDied as error:
            return Event.RUNNER_DIED, str(error)
        except NoWorkerStarts as error:  # in halves the batch would meet it again, down to each record
            return Event.UNAVAILABLE, str(error)
        except WorkerDied as error:
            self.tools.index.check()  # a segment that was cut short kills who looks into it
            return Event.FAILED, str(error)
        except (SchemaConflict, CannotEnd) as error:
            return Event.FAILED, str(error)
        except (RegistryUnavailable, ViewUnavailable, LakeUnavailable, CommitConflict, OSError) as error:
            return Event.UNAVAILABLE, str(error)  # OSError: logs or the work folder

    def _attempt(self, life: Life, began_us: int) -> None:
        tools, plan = self.tools, self.plan
        fault_point("batch.before_run")
        if plan.content.foreign or plan.content.retries:  # all else is done while the registry is away
            tools.registry.read_on()
        if tools.holders.is_stopped:
            raise RegistryUnavailable(f"datacenter {tools.datacenter} is on hold, or was retired")
        ahead = None if life.ran_before else tools.ahead.made_for(plan.key)
        tasks = self._tasks(life, ahead)
        if life.is_first:
            tools.ahead.begin(plan, self.reader, tools.limits)
        with tools.timed("tasks"):
            outcomes = tools.runner.run(tasks)
        fault_point("batch.after_run")
        first = collect_results([*(ahead.results if ahead is not None else ()), *outcomes])
        with tools.timed("claim"):
            settled = tools.rounds.settle(tasks, first, self._check)
        results = settled.results
        tools.meter.add(results.measures)
        with tools.timed("commit"):
            tools.committing.commit_batch(plan, results)
        readable_us = tools.clock.now_us()
        # A task of an earlier attempt may have outlived it, and stored more.
        stored = tools.leftovers.candidates(plan) if life.ran_before else []
        with tools.timed("complete"):
            counts = self._complete(settled)
        candidates = {*stored, *results.unneeded_files}
        tools.leftovers.drop_uncommitted(candidates, settled.replaced, results.all_files)
        if not life.ran_before:  # claims before an outage say nothing of what others did in it
            tools.observer.first_answers(first, some_lost=bool(settled.rounds))
        if not plan.content.lineage.quarantine:
            tools.quarantined_in_a_row = 0
            tools.callbacks.on_progress()
        tools.observer.completed(plan.key.batch, results, counts, began_us, readable_us)

    def _check(self, results: Results) -> None:
        """Refuse to claim for results that must not be committed. OSError, AdapterFails."""
        self._follow_moved(results)
        completion.check_adapter(results, self.tools.adapter_calls, self.tools.pipeline, self.plan.key)

    def _follow_moved(self, results: Results) -> None:
        """Have the batch run again if bytes seem gone because their files moved since it was planned.

        OSError: then it is run again.
        """
        if not results.lost_bytes:
            return
        if moved := self.reader.find_moved((*self.plan.content.primary, *self.plan.content.foreign)):
            made = [each.indexed.segment for each in results.index]
            self.tools.index.make_anew(moved, [each.name for each in made if each is not None])
            names = ", ".join(readable(one.file.path) for one in moved)
            raise OSError(f"log files moved while the batch was under way, and are read there: {names}")

    def _tasks(self, life: Life, ahead: IndexedAhead | None) -> BatchTasks:
        tools, plan, reader = self.tools, self.plan, self.reader
        ran_before = life.ran_before
        lineage = plan.content.lineage
        workers, segment_of = tools.runner.workers, partial(tools.index.new_segment, plan.key)
        to_index = () if ahead is not None else index_tasks(plan, reader.files, workers, segment_of)
        segments = [] if lineage.quarantine else [task.segment for task in to_index]
        segments += ahead.segments if ahead is not None else ()
        context = TaskContext(
            pipeline=tools.pipeline,
            plan=plan.key,
            work=tools.state.work,
            index=tools.index.snapshot(segments),
            final=plan.content.final,
            follows_an_epoch=tools.state.follows_an_epoch,
            view=tools.registry.snapshot(claimant_of(plan.key)),
            row_schema=tools.joined.schema(),
            unresponsive_datacenters=tools.holders.absent | tools.observer.unresponsive_datacenters(),
            given_up=tools.holders.given_up,
            already_recorded=tools.committing.already_recorded(plan, ran_before),
            careful=life.is_suspect,
            quarantine=lineage.quarantine,
            candidate_files=tuple(tools.leftovers.candidates(plan)) if ran_before else (),
        )
        return BatchTasks(context, to_index, join_tasks(plan, reader.files, workers))

    def _complete(self, settled: Settled) -> Counter[str]:
        """After the commit: change the state in one transaction (A6). The next claims close the batch."""
        tools, plan, reader = self.tools, self.plan, self.reader
        results = settled.results
        resolved = tools.table_answers.resolve(plan.key.batch, results.registered_here)
        tools.holders.note_held({epoch for result in results.join for epoch in result.held})
        orphans = tools.table_answers.settle_given_up(plan.key.batch, results.to_free, tools.holders)
        resolved.counts += orphans.counts
        resolved.counts += tools.conflicts.count(plan, results, resolved, reader.files)
        now_us = tools.clock.now_us()
        max_time_us = completion.latest_times_us(results)
        reader.advance(plan.advances, max_time_us)
        reader.doubt(number for result in results.join for number in result.unread_files)
        counts = completion.sums(results, resolved)
        indexed = [result.indexed for result in results.index]
        segments = [each.segment for each in indexed if each.segment is not None]
        adapter_calls = results.adapter_calls.in_a_row(tools.adapter_calls)
        fault_point("complete.before_transaction")
        self._finish(
            Completion(
                counts=counts,
                lost=[lost for result in results.join for lost in result.lost],
                waiting=results.waiting,
                ended=resolved.ended | orphans.ended,
                released=resolved.released | orphans.released,
                new_hashes=[each.new_hashes for each in indexed],
                max_time_us=max_time_us,
                watermark_us=completion.watermark_of(
                    reader,
                    tools.pipeline,
                    now_us,
                    tools.state.watermark_us,
                    has_requeued=tools.state.count_requeued() > 0,
                ),
                inherited=resolved.inherited,
                segments=segments,
                adapter_calls=adapter_calls,
                window=tools.state.window_at(now_us),
                ended_us=now_us,
            ),
        )
        tools.closes.committed(plan.key.batch, claimant_of(plan.key), settled.rows)
        tools.adapter_calls = adapter_calls
        tools.index.added(segments)
        fault_point("complete.after_transaction")
        return counts

    def _finish(self, completion: Completion) -> None:
        self.tools.state.complete(self.plan, completion)
        self.tools.announcer.completed()

    def _read_back(self, life: Life) -> None:
        """Complete a batch that the table has, and queue all of its work again: its results are lost.

        The new plan finds its rows in the table, and what it claimed in vain is free by then (A6, A8). It has
        lost as many attempts; work that is not to be attempted again comes in halves (A17).
        """
        log.info("batch %d was committed but not completed: reading it back", self.plan.key.batch)
        parts = self._again(life)
        self._close_now()
        self._queue_again(parts)

    def _take(self, life: Life) -> None:
        """Complete a batch that others passed over, and queue all of its work again (A25).

        Nothing comes into its side tables any more, before the next plan reads what earlier ones put there.
        """
        tools, batch = self.tools, self.plan.key.batch
        says = f"batch {batch} was passed over while this process was silent: its work comes again"
        log.warning("datacenter %s: %s", tools.datacenter, says)
        parts = self._again(life)
        tools.committing.raise_side_tables(batch)
        fault_point("take.after_raised")
        self._close_now()
        fault_point("take.after_close")
        self._queue_again(parts, is_passed=True)
        tools.callbacks.on_passed(says)

    def _again(self, life: Life) -> list[PlanContent]:
        """The work of a batch whose results are lost, with the attempts that it has lost. TooManyDeaths."""
        if life.doom is not None:
            return self._halves(life.doom)
        lineage = self.plan.content.lineage.after(self.plan.as_origin)
        return [replace(self.plan.content, lineage=lineage, attempts=life.attempts.again())]

    def _queue_again(self, requeue: list[PlanContent], is_passed: bool = False) -> None:
        """Complete a batch without results, with its work queued as new plans'."""
        unneeded = self.tools.leftovers.not_committed(self.plan)
        self.reader.advance(self.plan.advances, {})
        self._finish(Completion(requeue=requeue, is_passed=is_passed))
        # Once for each batch, however often its table or the registry is away meanwhile.
        self.tools.quarantined_in_a_row += _is_of_one_record(requeue)
        self.tools.leftovers.drop(unneeded)

    def _close_now(self) -> None:
        """Close a batch before its work is planned again, or its records would meet their own claims (A7).

        Its claims may be there though nobody was told so: read them first.
        """
        self.tools.registry.catch_up()
        self.tools.closes.committed(self.plan.key.batch)
        self.tools.closes.now()

    def _abandon(self, reason: str) -> None:
        """Commit a batch that can't end empty, free its ids, queue its work in halves (A11)."""
        parts = self._halves(reason)
        self.tools.committing.commit_empty(self.plan)
        fault_point("abandon.after_commit")
        self._close_now()
        fault_point("abandon.after_close")
        self._queue_again(parts)

    def _halves(self, reason: str) -> list[PlanContent]:
        """The work of a batch that can't end. TooManyDeaths."""
        tools, plan, reader = self.tools, self.plan, self.reader
        log.warning("batch %d could not be carried out (%s): taking it up in halves", plan.key.batch, reason)
        logs = tools.pipeline.datacenters[tools.datacenter].logs
        parts = split(plan, reason, reader.files, logs, reader.rules_of)
        completion.check_deaths(tools.quarantined_in_a_row + _is_of_one_record(parts), reason)
        return parts


def _is_of_one_record(parts: list[PlanContent]) -> bool:
    """Whether a record is to become a dead letter, for it alone kept its batch from ending."""
    return any(part.lineage.quarantine for part in parts)
