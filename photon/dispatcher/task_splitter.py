"""From a plan to tasks: which task gets what.

The split is a function of the plan and the number of workers, so that a re-run splits alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from photon.dispatcher.plan import Plan
from photon.join.messages import BatchTasks, IndexUnit, JoinUnit, TaskContext
from photon.join.outcomes import OutcomeClass
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.tokens import Occurrence

TASK_BYTES = 2**20  # a task with less to do costs more to start than it saves
RETRY_BYTES = 200  # what a waiting record weighs against ranges when work is spread over tasks


@dataclass(frozen=True)
class TaskSplitter:
    """Makes the tasks of one datacenter's batches."""

    pipeline: Pipeline
    datacenter: str
    registry: RegistryAddress
    workers: int
    follows_an_epoch: bool
    crash_at: str | None = None

    def tasks(
        self,
        plan: Plan,
        files: Mapping[int, TrackedFile],
        row_schema: pa.Schema,
        unresponsive: frozenset[str],
        already_recorded: Mapping[Occurrence, OutcomeClass],
    ) -> BatchTasks:
        """The tasks that carry the plan out."""
        context = TaskContext(
            pipeline=self.pipeline,
            plan=plan.key,
            registry=self.registry,
            workers=self.workers,
            final=plan.content.final,
            unresponsive_datacenters=unresponsive,
            follows_an_epoch=self.follows_an_epoch,
            row_schema=row_schema,
            already_recorded=already_recorded,
            quarantine=plan.content.quarantine,
            crash_at=self.crash_at,
        )
        return BatchTasks(context, self._index_units(plan, files), self._join_units(plan, files))

    def release_tasks(self, plan: Plan, files: Mapping[int, TrackedFile]) -> BatchTasks:
        """The tasks that find what an abandoned plan has registered."""
        tasks = self.tasks(plan, files, pa.schema([]), frozenset(), {})
        return BatchTasks(replace(tasks.context, release_only=True), join_units=tasks.join_units)

    def _index_units(self, plan: Plan, files: Mapping[int, TrackedFile]) -> tuple[IndexUnit, ...]:
        ranges = plan.content.primary
        groups = self._groups([r.end_bytes - r.start_bytes for r in ranges])
        return tuple(IndexUnit(_with_files([ranges[i] for i in group], files)) for group in groups)

    def _join_units(self, plan: Plan, files: Mapping[int, TrackedFile]) -> tuple[JoinUnit, ...]:
        ranges, retries = plan.content.foreign, plan.content.retries
        weights = [r.end_bytes - r.start_bytes for r in ranges] + [RETRY_BYTES] * len(retries)
        units = []
        for group in self._groups(weights):
            own_ranges = [ranges[i] for i in group if i < len(ranges)]
            own_retries = tuple(retries[i - len(ranges)] for i in group if i >= len(ranges))
            numbers = sorted({retry.occurrence.file_number for retry in own_retries})
            retry_files = tuple(files[number].file for number in numbers)
            units.append(JoinUnit(_with_files(own_ranges, files), own_retries, retry_files))
        return tuple(units)

    def _groups(self, weights: list[int]) -> list[list[int]]:
        """Indices of `weights`, in bytes, for as many tasks as are worth their cost."""
        return spread(weights, min(self.workers, sum(weights) // TASK_BYTES + 1))


def spread(weights: list[int], bins: int) -> list[list[int]]:
    """Indices of `weights` in at most `bins` groups of about equal weight, none of them empty.

    Heaviest first into the lightest group: within 4/3 of the best for any number of groups.
    """
    groups: list[list[int]] = [[] for _ in range(min(bins, len(weights)))]
    loads = [0] * len(groups)
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        lightest = loads.index(min(loads))
        groups[lightest].append(index)
        loads[lightest] += weights[index]
    return groups


def _with_files(
    ranges: list[ByteRange], files: Mapping[int, TrackedFile]
) -> tuple[tuple[LogFile, ByteRange], ...]:
    in_order = sorted(ranges, key=lambda r: (r.file_number, r.start_bytes))
    return tuple((files[r.file_number].file, r) for r in in_order)
