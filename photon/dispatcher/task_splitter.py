"""From a plan to a work order: which task gets what.

The split is a function of the plan and the number of workers, so that a re-run splits alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from photon.dispatcher.plan import Plan
from photon.dispatcher.planning import spread
from photon.join.messages import BatchTasks, IndexUnit, JoinUnit, RetryRef, TaskContext
from photon.join.outcomes import OutcomeClass
from photon.join.spool import drop_unreferenced
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence

TASK_BYTES = 2**20  # a task with less to do costs more to start than it saves
RETRY_BYTES = 200  # what a waiting record weighs against ranges when work is spread over tasks


@dataclass(frozen=True)
class TaskSplitter:
    """Makes work orders for one datacenter."""

    pipeline: Pipeline
    datacenter: str
    registry: RegistryAddress
    table: OutputTable
    workers: int
    follows_an_epoch: bool
    crash_at: str | None = None

    @property
    def logs(self) -> Path:
        """The datacenter's logs folder."""
        return self.pipeline.datacenters[self.datacenter].logs

    def join(
        self,
        plan: Plan,
        files: Mapping[int, TrackedFile],
        quiet: frozenset[str],
        already_recorded: Mapping[Occurrence, OutcomeClass],
    ) -> BatchTasks:
        """The order that carries the plan out."""
        context = self._context(plan, quiet, already_recorded, self.table.schema())
        return BatchTasks(context, self._index_units(plan, files), self._join_units(plan, files))

    def release(self, plan: Plan, files: Mapping[int, TrackedFile]) -> BatchTasks:
        """The order that finds what an abandoned plan has registered."""
        context = self._context(plan, frozenset(), {}, pa.schema([]))
        return BatchTasks(context, (), self._join_units(plan, files), release_only=True)

    def drop_spools(self, referenced: Collection[str]) -> None:
        """Remove spool files that no waiting record is in; what can't be removed now goes another time."""
        with contextlib.suppress(OSError):
            drop_unreferenced(self.pipeline.datacenters[self.datacenter].state, referenced)

    def _context(
        self,
        plan: Plan,
        quiet: frozenset[str],
        already_recorded: Mapping[Occurrence, OutcomeClass],
        schema: pa.Schema,
    ) -> TaskContext:
        return TaskContext(
            pipeline=self.pipeline,
            datacenter=self.datacenter,
            plan=plan.key,
            registry=self.registry,
            workers=self.workers,
            final=plan.content.final,
            unresponsive_datacenters=quiet,
            follows_an_epoch=self.follows_an_epoch,
            row_schema=schema,
            already_recorded=dict(already_recorded),
            quarantine=plan.content.quarantine,
            crash_at=self.crash_at,
        )

    def _index_units(self, plan: Plan, files: Mapping[int, TrackedFile]) -> tuple[IndexUnit, ...]:
        ranges = plan.content.primary
        weights = [r.end_bytes - r.start_bytes for r in ranges]
        groups = spread(weights, self._tasks(weights))
        return tuple(IndexUnit(_with_files([ranges[i] for i in group], files)) for group in groups)

    def _tasks(self, weights: list[int]) -> int:
        """How many tasks are worth their cost for work of these weights in bytes."""
        return min(self.workers, sum(weights) // TASK_BYTES + 1)

    def _join_units(self, plan: Plan, files: Mapping[int, TrackedFile]) -> tuple[JoinUnit, ...]:
        items: list[ByteRange | RetryRef] = [*plan.content.foreign, *plan.content.retries]
        weights = [
            item.end_bytes - item.start_bytes if isinstance(item, ByteRange) else RETRY_BYTES
            for item in items
        ]
        units = []
        for group in spread(weights, self._tasks(weights)):
            ranges = [items[i] for i in group if isinstance(items[i], ByteRange)]
            retries = tuple(items[i] for i in group if isinstance(items[i], RetryRef))
            numbers = sorted({retry.occurrence.file_number for retry in retries})  # type: ignore[union-attr]
            units.append(
                JoinUnit(_with_files(ranges, files), retries, tuple(files[n].file for n in numbers))  # type: ignore[arg-type]
            )
        return tuple(units)


def _with_files(
    ranges: list[ByteRange], files: Mapping[int, TrackedFile]
) -> tuple[tuple[LogFile, ByteRange], ...]:
    return tuple(
        (files[r.file_number].file, r) for r in sorted(ranges, key=lambda r: (r.file_number, r.start_bytes))
    )
