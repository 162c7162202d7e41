"""The dispatcher of one datacenter: look, plan, carry out; again and again (paper, section 3.1).

Which plan is next, and when there is nothing left. How a plan is carried through is `batch`; what
goes into one is decided in `planning` and `retrying`.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from typing import Literal

from photon.clock import MICROSECONDS, Clock
from photon.dispatcher.backoff import Waiting, may_be_given_up
from photon.dispatcher.batch import BackoffRetry, BatchExecution
from photon.dispatcher.log_reader import Follower, NewRanges, PrimaryNews
from photon.dispatcher.plan import Plan, PlanContent
from photon.dispatcher.planning import budget
from photon.dispatcher.state import DispatcherState, StateUnavailable
from photon.dispatcher.state_rows import WaitingRow
from photon.event_store.log_file_map import LogFileMap
from photon.faults import fault_point
from photon.pipeline.file import Pipeline
from photon.tokens import PlanKey, new_plan_id

log = logging.getLogger(__name__)

Mode = Literal["stop", "until_idle", "complete"]


class Dispatcher:
    """Runs one datacenter's pipeline. One instance, one thread, one open plan at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        datacenter: str,
        state: DispatcherState,
        log_map: LogFileMap,
        execution: BatchExecution,
        clock: Clock,
    ) -> None:
        self.pipeline = pipeline
        self.datacenter = datacenter
        self.state = state
        self.execution = execution
        self.clock = clock
        self.watching = execution.watching
        self.map = log_map
        self.follower = self._follow()
        self._all_due = False
        self._idle_since_us: int | None = None

    def _follow(self) -> Follower:
        follower = Follower(self.pipeline, self.datacenter, self.state)
        self.map.put_files(tracked.file for tracked in follower.of("primary").values())
        return follower

    # -- the loop

    def run(self, mode: Mode, idle_seconds: float = 0.0) -> None:
        """Join until the end that `mode` names; where a stop is asked for, until after the current batch.

        `until_idle` ends when for `idle_seconds` there was nothing to do.
        """
        patience = BackoffRetry(self.watching, self.clock, self.execution.rng)
        begun = False
        while not self.watching.should_stop():
            try:
                if not begun:
                    # What is in memory may be ahead of the disk: begin from what is stored.
                    self.follower = self._follow()
                    begun = self._settle_what_was_left(mode)
                elif self._step(mode, idle_seconds):
                    return
            except (StateUnavailable, sqlite3.OperationalError) as error:
                begun = False
                if not patience.wait(f"state in {self.state.folder}: {error}"):
                    return

    def _step(self, mode: Mode, idle_seconds: float) -> bool:
        """Look, and carry out what there is to do; whether this was all."""
        now_us = self.clock.now_us()
        complete = mode == "complete"
        self._tell_map(self.follower.look(now_us, final=complete))
        primaries_first = complete and bool(self.follower.backlog_bytes["primary"])
        if complete and not primaries_first and not self._all_due:
            self.state.make_all_due(now_us, ("primary", "horizon"))
            self._all_due = True
        plan = self._plan(now_us, mode, primaries_first)
        if plan is not None:
            self._idle_since_us = None
            self.execution.carry_out(plan, self.follower, ran_before=False)
            return False
        if not self._nothing_left(mode, now_us):
            self._idle_since_us = None
        elif self._idle_since_us is None:
            self._idle_since_us = now_us
        if self._idle_since_us is not None and now_us - self._idle_since_us >= idle_seconds * MICROSECONDS:
            return True
        self.clock.sleep(self.pipeline.tailing.poll_interval.total_seconds())
        return False

    def _tell_map(self, news: PrimaryNews) -> None:
        """Lost files are forgotten, so that another copy of an event counts and what has none is given up."""
        if news.found:
            self.map.put_files(news.found)
        for number in news.lost:
            self.map.remove_file(number)

    def _nothing_left(self, mode: Mode, now_us: int) -> bool:
        """Whether this was all, when there is nothing to do at this moment (design, section 2)."""
        if self.follower.checks_pending:
            return False
        match mode:
            case "stop":
                return False
            case "until_idle":
                return not self.state.count_waiting(("home", "contested")) and not self.state.count_due(
                    now_us
                )
            case "complete":
                return not self.state.count_waiting()

    def _settle_what_was_left(self, mode: Mode) -> bool:
        """Settle what an earlier process left open; False where a stop was asked for meanwhile.

        A complete run looks again for all that was given up; else the primary that comes wakes it.
        """
        left = self.state.open_plan()
        if left is not None and self.execution.committed(left):
            self.execution.complete_by_redo(left, self.follower)
        elif left is not None:
            log.info("batch %d was left open: running it again", left.key.batch)
            if not self.execution.carry_out(left, self.follower, ran_before=True):
                return False
        reopened = self.state.reopen_unjoinable(self.clock.now_us()) if mode == "complete" else 0
        if reopened:
            log.info("%d unjoinable events of an earlier run are looked for again", reopened)
        return True

    # -- planning

    def _plan(self, now_us: int, mode: Mode, primaries_first: bool) -> Plan | None:
        requeued = self.state.requeued()
        if requeued is not None:
            requeue_id, content = requeued
            # Whether the inputs are complete is for this run to say, not for the one that left the work.
            final = mode == "complete" and not primaries_first
            return self._store(replace(content, final=final), NewRanges(), requeue_id)
        limits = self.pipeline.limits
        waiting = self.state.count_waiting()
        due = 0 if primaries_first else self.state.count_due(now_us)
        share = budget(limits, due, waiting, hold_foreign=primaries_first)
        final = mode == "complete"
        primary = self.follower.cut("primary", share.primary_bytes, limits.batch_events * 10, final)
        foreign = self.follower.cut("foreign", share.foreign_bytes, limits.batch_events, final)
        rows = self.state.due(now_us, share.retries) if share.retries else []
        watermark_us = self.state.watermark_us
        content = PlanContent(
            primary=primary.ranges,
            foreign=foreign.ranges,
            retries=tuple(row.ref(self._is_last_lookup(row, now_us, watermark_us)) for row in rows),
            final=final and not primaries_first,
        )
        if content.empty:
            return None
        return self._store(content, NewRanges(advances=primary.advances + foreign.advances), None)

    def _is_last_lookup(self, row: WaitingRow, now_us: int, watermark_us: int | None) -> bool:
        waiting = Waiting(row.occurrence, row.attempts, row.first_seen_us, row.primary_time_us)
        return may_be_given_up(waiting, now_us, watermark_us, self.pipeline.retry)

    def _store(self, content: PlanContent, cut: NewRanges, requeue_id: int | None) -> Plan:
        key = PlanKey(self.datacenter, self.execution.epoch, self.state.completed + 1, new_plan_id())
        plan = Plan(key, content, cut.advances, requeue_id)
        fault_point("plan.before_store")
        self.state.store_plan(plan)
        fault_point("plan.after_store")
        return plan

    def skip_foreign_backlog(self) -> None:
        """Begin with what comes from now on; primary logs are read from the start, for it belongs to them."""
        self._tell_map(self.follower.look(self.clock.now_us(), final=False))
        while any(self.follower.backlog_bytes["foreign"].values()):
            cut = self.follower.cut("foreign", self.pipeline.limits.batch_foreign_bytes, 2**62, False)
            if not cut.ranges:
                break
            self.follower.advance(cut.advances, {})
            self.state.put_files(self.follower.of("foreign").values())
            self._tell_map(self.follower.look(self.clock.now_us(), final=False))
