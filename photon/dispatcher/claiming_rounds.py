"""Claim what the tasks of a batch want to join, and have those run again that lost something (A5, A7, L2).

The first run of a task proposes claims and judges its records as if all of them were won. If all are, its
files are good as they are. Else it runs again with what is known by then: it finds its stored rows (A14).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from photon.clock import MICROSECONDS, Clock
from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.completion import Results, Superseded, collect_results
from photon.faults import fault_point
from photon.join.messages import BatchRunner, BatchTasks, JoinResult
from photon.ledger.claiming import EpochOver
from photon.ledger.entry import NO_HASHES, Claims, Hashes
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.registry import IdRegistry
from photon.measures import Meter
from photon.storage.output_files import OutputFile

log = logging.getLogger(__name__)

# A task runs again only where somebody else was faster, and knows of him then. So a second round is rare, and
# a third one rarer; with more something is wrong, and the batch waits.
MOST_ROUNDS = 10


@dataclass
class Settled:
    """The results of a batch all of whose claims are won, and the files of runs before the last."""

    results: Results
    replaced: list[OutputFile]
    rounds: int

    @property
    def rows(self) -> Hashes:
        """The ids of all rows."""
        claims = [result.claims.hashes for result in self.results.join if result.claims is not None]
        return np.concatenate([NO_HASHES, *claims])


@dataclass(frozen=True)
class ClaimingRounds:
    """Carries out the claims of batches, one at a time."""

    registry: IdRegistry
    runner: BatchRunner
    closes: BatchCloses
    clock: Clock
    meter: Meter

    def settle(self, tasks: BatchTasks, results: Results, check: Callable[[Results], None]) -> Settled:
        """Claim, and run again what lost, until all is won.

        `check` raises what forbids to claim for such results. Superseded; RegistryUnavailable: claims may be
        there or not (A5). What keeps a task from ending is raised as by `collect_results`.
        """
        settled = Settled(results, [], 0)
        while True:
            check(settled.results)
            again = self._losers(settled.results.join)
            if not again:
                return settled
            settled.rounds += 1
            if settled.rounds == MOST_ROUNDS:
                raise RegistryUnavailable(
                    f"batch {tasks.context.plan.batch} lost claims {MOST_ROUNDS} times, and runs again"
                )
            self._run_again(tasks, again, settled)

    def _losers(self, results: Sequence[JoinResult]) -> list[int]:
        """Claim for these results; the indices of those whose tasks run again."""
        claims = [result.claims for result in results]
        together = concatenated([one for one in claims if one is not None])
        if together is None:
            return []
        closing, began_us = self.closes.due, self.clock.elapsed_us()
        fault_point("claim.before")
        try:
            are_won = self.registry.claim(together, closing).are_won(together)
        except EpochOver as error:
            raise Superseded(str(error)) from error
        except RegistryUnavailable:
            self.meter.count("registry_unanswered_ids", by=len(together))
            raise
        fault_point("claim.after")
        seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
        self.meter.time("registry_call_seconds", "claim", seconds=seconds)
        self.meter.count("registry_claims", "won", by=int(np.count_nonzero(are_won)))
        self.meter.count("registry_claims", "lost", by=int(np.count_nonzero(~are_won)))
        self.closes.rode(closing)
        return losers([0 if one is None else len(one) for one in claims], are_won)

    def _run_again(self, tasks: BatchTasks, which: Sequence[int], settled: Settled) -> None:
        log.info(
            "batch %d: %d tasks lost claims to others, and run again", tasks.context.plan.batch, len(which)
        )
        context = replace(tasks.context, view=self.registry.snapshot())
        join_tasks = tuple(tasks.join_tasks[index] for index in which)
        fresh = collect_results(self.runner.run(BatchTasks(context, (), join_tasks)))
        before = settled.results
        join = list(before.join)
        for index, result in zip(which, fresh.join, strict=False):  # some are `failing`: `check` raises then
            settled.replaced += join[index].files
            replaced = [*join[index].unneeded_files, *result.unneeded_files]
            measures = result.measures
            measures.add(join[index].measures)
            join[index] = replace(result, unneeded_files=tuple(replaced), measures=measures)
        settled.results = Results(before.index, join, fresh.failing)


def concatenated(claims: Sequence[Claims]) -> Claims | None:
    """Claims of one plan together, in their order; None without any."""
    some = [one for one in claims if len(one)]
    if len(some) < 2:
        return some[0] if some else None
    return Claims(
        some[0].claimant,
        np.concatenate([one.hashes for one in some]),
        np.concatenate([one.times_us for one in some]),
        np.concatenate([one.files for one in some]),
        np.concatenate([one.offsets_bytes for one in some]),
    )


def losers(lengths: Sequence[int], are_won: npt.NDArray[np.bool_]) -> list[int]:
    """Which tasks have lost a claim. `lengths`: how many of the claims, which are in order, each task has."""
    task_of = np.repeat(np.arange(len(lengths)), lengths)
    return [int(task) for task in np.unique(task_of[~are_won])]
