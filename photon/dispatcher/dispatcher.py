"""The dispatcher of one datacenter: look, plan, run the plan; again and again (paper, section 3.1)."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from photon.dispatcher.batch import BatchExecution
from photon.dispatcher.batch_tools import BatchTools
from photon.dispatcher.completion import IndexLost, watermark_of
from photon.dispatcher.forgetting import Forgetting
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.planning import (
    budget,
    due_retries,
    foreign_share_bytes,
    most_primary_lines,
    paced,
    primary_budget_bytes,
)
from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.releasing import Releasing
from photon.dispatcher.retrying import StoppedWaiting
from photon.dispatcher.taking_orders import OrderTaking
from photon.join.messages import NoWorkerStarts, RunnerDied
from photon.logs.announcements import Announcements
from photon.logs.source import LogsUnavailable
from photon.logs.tailing.open_files import OpenFiles
from photon.process.clock import MICROSECONDS
from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.registry.errors import RegistryUnavailable
from photon.state.database import StateUnavailable
from photon.state.plan import Advance, Plan, PlanContent
from photon.state.waiting.segments import WaitingDamaged
from photon.storage.delta import LakeUnavailable
from photon.storage.full_disks import why_not
from photon.storage.tokens import PlanKey, new_id

log = logging.getLogger(__name__)

# With nothing to do a dispatcher takes at most a tenth of a core, however many files it has to look at.
REST_PER_LOOK = 9
MOST_REST_SECONDS = 2.0  # so that a stop, and a new line, is soon noticed all the same
# Live lines gather for as long as the batch before them took. Without it 220 lines a second cost six to
# ten commits and nearly a whole core: four such joins leave nothing to reports on two cores.
MOST_REST_AFTER_BATCH_SECONDS = 1.0

# A clock that is set back by less makes nothing wait for long.
SET_BACK_SECONDS = 10

Mode = Literal["stop", "until_idle", "complete"]


def rest_of(took_seconds: float, poll_seconds: float, due_in_seconds: float) -> float:
    """How long to rest behind a look that took so long and left nothing to do.

    Looks are spread up to when a log on S3 is to be listed: each listing costs, and none comes too soon.
    """
    rest_seconds = max(poll_seconds, min(REST_PER_LOOK * took_seconds, MOST_REST_SECONDS))
    looks = due_in_seconds // (took_seconds + rest_seconds)
    return due_in_seconds / looks - took_seconds if looks else rest_seconds


class Dispatcher:
    """Runs one datacenter's pipeline. One instance, one thread, one open plan at a time."""

    def __init__(
        self, tools: BatchTools, news: Announcements, held: OpenFiles | None, releasing: Releasing
    ) -> None:
        """`news` tells of new log files. `held`: the log files that are held open."""
        self.tools, self.releasing = tools, releasing
        self._news, self._held = news, held
        self.pipeline, self.datacenter = tools.pipeline, tools.datacenter
        self.state, self.clock = tools.state, tools.clock
        self.index, self.ahead = tools.index, tools.ahead
        self._forgetting = Forgetting(tools.pipeline, tools.datacenter, tools.state)
        self.reader = self._new_reader()
        self._all_due = False
        self._out_of_reach = self.state.out_of_reach
        self._unreadable_orders: set[str] = set()
        self._had_order = False  # since new events had a plan
        self._idle_since_us: int | None = None
        self._lists_all = False  # the next look, for the run may end with it
        # Files may have been looked at since, by a clock that is right again.
        self._latest_us = max(self.state.ended_us, *(file.grown_us for file in self.reader.files.values()), 0)

    def _new_reader(self) -> LogReader:
        files, unread = self.state.files(), self.state.unread_files()
        reader = LogReader(self.pipeline, self.datacenter, files, self.state, self._news, self._held, unread)
        self.index.begin(reader.of("primary").values())
        return reader

    # -- the loop

    def run(self, mode: Mode, idle_seconds: float = 0.0) -> None:
        """Join until the end that `mode` names; a stop that is requested ends it after the current batch.

        `until_idle` ends when for `idle_seconds` there was nothing to do.
        """
        callbacks = self.tools.callbacks
        retry, room_is_doubted = self.tools.retry, False
        begun = index_is_lost = False
        while not callbacks.should_stop():
            try:
                if index_is_lost:
                    self.state.lose_index()
                    index_is_lost = False
                if not begun:
                    self.ahead.discard()
                    # Memory may be ahead of the disk: begin from what is stored.
                    self.reader = self._new_reader()
                    begun = self._finish_earlier_work(mode)
                elif self._step(mode, idle_seconds):
                    break
                elif retry.is_waiting:
                    # Reading the state, or finding nothing to do, is no proof that the disk takes writes.
                    if room_is_doubted:
                        self.state.try_to_write()
                        room_is_doubted = False
                    retry.over()
            except IndexLost as error:
                begun, index_is_lost = False, True
                log.warning("%s", error)
                callbacks.on_failure(str(error))
            except WaitingDamaged as error:
                begun = False
                if not retry.wait(self.tools.mend_waiting(error.segments, self.reader)):
                    return
            except NoWorkerStarts as error:  # between batches; or while the index was made again
                if not retry.wait(str(error)):
                    return
            except (RunnerDied, LakeUnavailable) as error:  # while the index was made again
                begun = False
                if not retry.wait(str(error)):
                    return
            except LogsUnavailable as error:
                if not retry.wait(f"logs: {error}"):
                    return
            except (StateUnavailable, sqlite3.OperationalError, OSError) as error:  # OSError: its work folder
                begun, room_is_doubted = False, True
                if not retry.wait(f"state in {self.state.folder}: {why_not(error, self.state.folder)}"):
                    return
        self.ahead.discard()
        self.tools.closes.finish()
        now_us = self.clock.now_us()
        self.tools.observer.timeline.flush(now_us)
        with suppress(StateUnavailable, sqlite3.OperationalError):  # nothing depends on it
            self._tell_completeness(mode, now_us, ends=True)
        self.releasing.finish()
        with suppress(StateUnavailable, WaitingDamaged):  # the next start merges again
            self.index.finish_merge()
            self.tools.waiting.finish_merge()

    def _finish_earlier_work(self, mode: Mode) -> bool:
        """Finish the plan that an earlier process left open; False if a stop was requested before.

        A complete run looks again for all events that were given up; in other modes their primary wakes them.
        """
        self.tools.waiting.begin()
        self._mend_index()
        left = self.state.open_plan()
        if left is not None and not BatchExecution(self.tools, left, self.reader).run(found_open=True):
            return False
        reopened = self.state.reopen_unjoinable() if mode == "complete" else 0
        if reopened:
            again = counted(reopened, "unjoinable event")
            log.info("%s of an earlier run looked for again", again)
        return True

    def _step(self, mode: Mode, idle_seconds: float) -> bool:
        """Look at the logs, run what there is to do, and return whether the run is over. NoWorkerStarts."""
        self.tools.runner.look()
        self.index.tend()
        self.tools.tend_registry()
        self._tend_held()
        if self.tools.holders.is_stopped:
            log.warning("datacenter %s is on hold, or was retired: this process ends", self.datacenter)
            return True
        now_us, began_us = self.clock.now_us(), self.clock.elapsed_us()
        self._follow_clock(now_us)
        self.tools.waiting.tend(now_us)
        complete = mode == "complete"
        self._look(now_us, final=complete, whole=self._lists_all)
        self._lists_all = False
        self._settle_watermark(now_us)
        if (seen_until_us := self.reader.seen_until_us) is not None:
            self.tools.observer.timeline.looked(self.reader.files, now_us, seen_until_us)
        self._tell_completeness(mode, now_us)
        self.releasing.tend()
        self._forget_files(now_us)
        # Between two orders new events have their turn: recovery may order many.
        if not self._had_order and not self.state.count_requeued():
            self._had_order = self._take_order(now_us)
        primaries_first = complete and bool(self.reader.backlog_bytes["primary"])
        if complete and not primaries_first and not self._all_due:
            self.state.make_all_due(("primary", "clock"))
            self._all_due = True
        plan = self._plan(now_us, complete, primaries_first)
        if plan is not None:
            self._idle_since_us = None
            self._had_order = self._had_order and plan.requeue_id is not None
            is_behind = self._unread_bytes() > self.pipeline.limits.line_bytes
            BatchExecution(self.tools, plan, self.reader).run()
            is_live = mode == "stop" or idle_seconds > 0
            if is_live and not (is_behind or self.state.count_requeued()):
                took_seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
                self.clock.sleep(min(took_seconds, MOST_REST_AFTER_BATCH_SECONDS))
            return False
        self.tools.callbacks.on_progress()
        if self._had_order:
            self._had_order = False
            return False
        if not self._nothing_left(mode, now_us):
            self._idle_since_us = None
        elif self._idle_since_us is None:
            self._idle_since_us = now_us
        if self._idle_since_us is not None and now_us - self._idle_since_us >= idle_seconds * MICROSECONDS:
            return True
        self._lists_all = mode == "until_idle" and self.reader.awaits_listing
        took_seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
        poll_seconds = self.pipeline.tailing.poll_interval.total_seconds()
        self._news.rest(self.clock, rest_of(took_seconds, poll_seconds, self.reader.due_in_seconds))
        return False

    def _unread_bytes(self) -> int:
        """How much of the logs no batch has read, of both sides; lines that have no end yet are in it."""
        return sum(sum(backlog.values()) for backlog in self.reader.backlog_bytes.values())

    def _look(self, now_us: int, final: bool, whole: bool = False) -> None:
        """See what has grown. LogsUnavailable."""
        self.index.follow(self.reader.look(now_us, final, whole))
        if self.reader.away_because is not None:
            raise LogsUnavailable(self.reader.away_because)

    def _settle_watermark(self, now_us: int) -> None:
        """Store how far the primary log is read, where it was a listing that was awaited and no batch."""
        if self.reader.is_unsettled("primary"):
            before_us, has_requeued = self.state.watermark_us, self.state.count_requeued() > 0
            read_us = watermark_of(self.reader, self.pipeline, now_us, before_us, has_requeued)
            if read_us is not None and read_us != before_us:
                self.state.note_watermark(read_us)

    def _tell_completeness(self, mode: Mode, now_us: int, ends: bool = False) -> None:
        if not self.reader.has_looked:
            return
        foreign = self.reader.awaited_of("foreign", now_us)
        observer, view = self.tools.observer, self.tools.registry.view
        unread = self.reader.unread()
        settled = partial(self.reader.settled_us, "foreign")
        said = observer.completeness.tend(foreign, now_us, mode == "complete", view, settled, ends, unread)
        if said is not None:
            self.releasing.said(said)

    def _follow_clock(self, now_us: int) -> None:
        """Have nothing wait for a time that a wrong clock has named."""
        back_seconds = (self._latest_us - now_us) / MICROSECONDS
        if back_seconds > SET_BACK_SECONDS:
            log.warning("the clock was set back by %.0f s: what waits is looked at now", back_seconds)
            self.state.make_all_due(("primary", "home", "clock", "contested", "held", "ordered"))
            self._idle_since_us = None
        self._latest_us = now_us

    def _tend_held(self) -> None:
        """See to what silent datacenters hold (protocol E6); later, while the registry does not answer."""
        holders = self.tools.holders
        try:
            holders.notice_hold()
            if holders.tend(self.state.waiting.count(("held",))):
                self.state.make_all_due(("held",))
        except RegistryUnavailable as error:
            log.debug("what others hold is seen to later: %s", error)
        if holders.out_of_reach != self._out_of_reach:
            self.state.note_out_of_reach(holders.out_of_reach)
            self._out_of_reach = holders.out_of_reach

    def _forget_files(self, now_us: int) -> None:
        """Forget log files that nothing names (protocol D13)."""
        forgotten = self._forgetting.tend(self.reader, self.tools.closes, now_us)
        self.tools.observer.timeline.forget(forgotten)

    def _take_order(self, now_us: int) -> bool:
        """Take up one order of recovery (protocol E4), as the next plans' work; False if there is none."""
        for path in waiting_orders(self.state.folder):
            if path.name in self._unreadable_orders:
                continue
            try:
                taking = OrderTaking(self.pipeline, self.datacenter, self.state)
                if taking.take(path, self.reader.files, now_us):
                    return True
            except (OSError, LakeUnavailable) as error:  # other events are joined all the same
                log.warning("the work order %s waits for the next start: %s", path, error)
                self._unreadable_orders.add(path.name)
        return False

    def _mend_index(self) -> None:
        """Index the primary logs again, as far as they were read, if the index is lost.

        IndexLost, WorkerDied.
        """
        self.index.clean()
        if not self.state.index_lost:
            self.index.check()
            return
        files = self.reader.of("primary").values()
        log.warning("primary logs are indexed again: %s", counted(len(files), "file"))
        segments = self.tools.reindex(files)
        fault_point("index.after_reindex")
        self.index.start_again(segments)

    def _nothing_left(self, mode: Mode, now_us: int) -> bool:
        """Whether the run is over, when there is nothing to do at this moment."""
        if mode == "stop" or self.reader.checks_pending or self.reader.awaits(now_us):
            return False
        # Records that are held for good must not keep a run from ending: they stay pending.
        left_to_others = self.tools.holders.wait_for_others
        soon = ("home", "contested") if left_to_others else ("home", "contested", "held")
        is_left = not (self.state.waiting.count(soon) or self.state.waiting.count_due(now_us))
        if mode == "complete":
            if self.reader.unread("primary") and is_left:
                return True  # all were looked for once; what waits may have its primary in such a file
            held = self.state.waiting.count(("held",)) if left_to_others else 0
            held += self.state.waiting.count(("ordered",)) if self.tools.holders.wait_for_tables else 0
            if is_left and self.reader.entries["primary"]:  # one may be indexed, and given up by a person
                held += self.state.waiting.count(("primary",))
            return self.state.waiting.count() == held
        return is_left

    # -- planning

    def _plan(self, now_us: int, complete: bool, primaries_first: bool) -> Plan | None:
        # While a primary log has a file that is not read, nothing is given up, whatever was stored before.
        is_unread = bool(self.reader.unread("primary"))
        final = complete and not primaries_first and not is_unread
        for requeue_id, content in self.state.requeued(most=1):
            # This run says whether the inputs are complete, not the one that left the plan.
            return self._store(replace(content, final=final), (), requeue_id, new_id())
        limits = paced(self.pipeline.limits, self.tools.observer.is_behind_others, complete)
        self.tools.limits, state = limits, self.state
        due = 0 if primaries_first else state.waiting.count_due(now_us)
        foreign_bytes, retries = budget(limits, due, state.waiting.count(), hold_foreign=primaries_first)
        backlog = {side: sum(files.values()) for side, files in self.reader.backlog_bytes.items()}
        ahead = self.ahead.take(state.completed + 1, self.reader)
        if ahead is not None:
            primary, primary_bytes = ahead.ranges, ahead.ranges.length_bytes
        else:
            primary_bytes = primary_budget_bytes(self.pipeline.limits, backlog["primary"])
            primary = self.reader.cut("primary", primary_bytes, most_primary_lines(limits))
        self.index.follow(self.reader.take_with_new_headers())
        share_bytes = foreign_share_bytes(primary_bytes, backlog["primary"], backlog["foreign"])
        foreign = self.reader.cut("foreign", min(foreign_bytes, share_bytes), limits.batch_events)
        content = PlanContent(
            primary=primary.ranges,
            foreign=foreign.ranges,
            retries=due_retries(
                state.waiting, now_us, retries, None if is_unread else state.watermark_us, self.pipeline.retry
            ),
            final=final,
        )
        if content.empty and not self.tools.closes.is_behind_claims:
            return None
        plan_id = new_id() if ahead is None else ahead.key.plan_id
        return self._store(content, primary.advances + foreign.advances, None, plan_id)

    def _store(
        self, content: PlanContent, advances: tuple[Advance, ...], requeue_id: int | None, plan_id: str
    ) -> Plan:
        key = PlanKey(self.datacenter, self.tools.epoch, self.state.completed + 1, plan_id)
        plan = Plan(key, content, advances, requeue_id)
        fault_point("plan.before_store")
        self.state.store_plan(plan, self.reader.take_grown(self.clock.now_us()))
        fault_point("plan.after_store")
        return plan

    def skip_foreign_backlog(self) -> None:
        """Begin with foreign events that come from now on; their primaries may be anywhere in the log.

        Now is when all files that are there could be looked at: a stop before leaves it to the next start.
        LogsUnavailable: then it is to be called again; StoppedWaiting.
        """
        while True:
            self._look(self.clock.now_us(), final=False)
            cut = self.reader.cut("foreign", self.pipeline.limits.batch_foreign_bytes, 2**62)
            if cut.ranges:
                self.reader.advance(cut.advances, {})
                self.state.put_files(self.reader.of("foreign").values())
                continue
            if not (self.reader.checks_pending or self.reader.awaits(self.clock.now_us())):
                self.state.note_backlog_skipped()
                return
            if self.tools.callbacks.should_stop():
                raise StoppedWaiting("a stop was requested while foreign lines were passed over")
            self.clock.sleep(self.pipeline.tailing.poll_interval.total_seconds())
