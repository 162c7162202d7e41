"""Carries out batches in this very process, without Spark: for tests, and for logs too small for a JVM.

The same task code as in Spark's workers (`photon.join.tasks`), one unit after the other.
"""

from __future__ import annotations

from photon.clock import Clock
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import run_index_unit, run_join_unit, run_release_unit
from photon.registry.interface import IdRegistry


class LocalRunner:
    """A `BatchRunner` of one process. What kills a task kills the dispatcher with it."""

    workers = 1

    def __init__(self, registry: IdRegistry | None = None, clock: Clock | None = None) -> None:
        """`registry` and `clock`: instead of the one at the registry address of the batch and the machine's; for tests."""
        self._registry = registry
        self._clock = clock

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """The outcomes of all units, index units first."""
        join = run_release_unit if batch.release_only else run_join_unit
        return [
            *(run_index_unit(unit, batch.context) for unit in batch.index_units),
            *(join(unit, batch.context, self._registry, self._clock) for unit in batch.join_units),
        ]

    def close(self) -> None:
        """Nothing was started."""
