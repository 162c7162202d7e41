"""Index the primary ranges of the next batch while this one joins, claims and commits.

Nothing of it counts before a plan has these ranges: its completion lists the segments, its commit the dead
letters. What goes wrong ahead counts for nothing either: the plan meets it again, and deals with it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from photon.dispatcher.log_reader import LogReader, NewRanges
from photon.dispatcher.planning import most_primary_lines, primary_budget_bytes
from photon.dispatcher.primary_index import PrimaryIndex
from photon.dispatcher.task_splitter import index_tasks
from photon.join.messages import BatchRunner, BatchTasks, IndexResult, IndexTask, TaskContext, TaskOutcome
from photon.logs.files import TrackedFile
from photon.logs.source import LogsUnavailable
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Limits
from photon.state.plan import Plan, PlanContent
from photon.storage.tokens import PlanKey, new_id

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexedAhead:
    """The primary ranges of the plan `key`, and what its index tasks have made of them."""

    key: PlanKey
    ranges: NewRanges
    segments: tuple[str, ...]
    results: tuple[IndexResult, ...]


@dataclass(frozen=True)
class _UnderWay:
    key: PlanKey
    ranges: NewRanges
    tasks: tuple[IndexTask, ...]
    outcomes: Future[list[TaskOutcome]]


@dataclass
class IndexAhead:
    """Indexes for one batch ahead. Used by the dispatcher's thread alone."""

    pipeline: Pipeline
    index: PrimaryIndex
    runner: BatchRunner
    _under_way: _UnderWay | None = None
    _taken: IndexedAhead | None = None

    def begin(self, plan: Plan, reader: LogReader, limits: Limits) -> None:
        """Begin to index what `plan`, which runs now, leaves of the primary logs; nothing if it leaves none.

        It begins in catch-up alone: a live batch takes all that is there.
        """
        self.discard()
        backlog_bytes = sum(reader.backlog_after("primary", plan.advances).values())
        if not backlog_bytes:
            return
        budget_bytes = primary_budget_bytes(self.pipeline.limits, backlog_bytes)
        try:
            ranges = reader.cut("primary", budget_bytes, most_primary_lines(limits), plan.advances)
        except LogsUnavailable:
            return
        if not ranges.ranges:
            return
        key = PlanKey(plan.key.datacenter, plan.key.epoch, plan.key.batch + 1, new_id())
        to_come = Plan(key, PlanContent(primary=ranges.ranges), ranges.advances)
        segment_of = partial(self.index.new_segment, key)
        tasks = index_tasks(to_come, reader.files, self.runner.workers, segment_of)
        snapshot = self.index.snapshot()
        context = TaskContext(self.pipeline, key, self.index.work, snapshot, False, False)
        outcomes = self.runner.begin(BatchTasks(context, tasks))
        self._under_way = _UnderWay(key, ranges, tasks, outcomes)

    def take(self, batch: int, reader: LogReader) -> IndexedAhead | None:
        """Take what is indexed for `batch`, which is planned now; None: cut its ranges anew."""
        ahead, self._taken = self._under_way, None
        if ahead is not None and ahead.key.batch == batch and follows(ahead.ranges, reader.files):
            results = _results(ahead)
            if len(results) == len(ahead.tasks):
                self._under_way = None
                segments = tuple(task.segment for task in ahead.tasks)
                self._taken = IndexedAhead(ahead.key, ahead.ranges, segments, results)
                return self._taken
        self.discard()
        return None

    def made_for(self, plan: PlanKey) -> IndexedAhead | None:
        """Return what was taken for this plan."""
        return self._taken if self._taken is not None and self._taken.key == plan else None

    def discard(self) -> None:
        """Wait for what is under way, and forget it."""
        if self._under_way is not None:
            _results(self._under_way)
            self.index.drop(task.segment for task in self._under_way.tasks)
            self._under_way = None


def follows(ranges: NewRanges, files: Mapping[int, TrackedFile]) -> bool:
    """Whether these ranges are what comes next of their files, as these are now."""
    starts = {each.file_number: each.start_bytes for each in ranges.ranges}
    return all(
        files[number].state == "open" and files[number].offset_bytes == start_bytes
        for number, start_bytes in starts.items()
    )


def _results(ahead: _UnderWay) -> tuple[IndexResult, ...]:
    """The results of the tasks that succeeded."""
    try:
        outcomes = ahead.outcomes.result()
    except Exception as error:
        log.info("primary logs could not be indexed ahead: %s", error)
        return ()
    return tuple(outcome for outcome in outcomes if isinstance(outcome, IndexResult))
