"""Claim what the tasks of a batch want to join, and have those run again that lost something (A5, A7, L2).

The first run of a task proposes claims and judges its records as if all of them were won. If all are, its
files are good as they are. Else it runs again with what is known by then: it finds its stored rows (A14).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.completion import Results, Superseded, collect_results
from photon.join.left_out import leave_out
from photon.join.messages import BatchRunner, BatchTasks
from photon.process.clock import MICROSECONDS, Clock
from photon.process.faults import fault_point
from photon.process.measures import Meter
from photon.process.readable import counted
from photon.registry.entry import NO_HASHES, Claims, Hashes, Mask
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import EpochOver, IdRegistry
from photon.registry.lookups import claimant_of
from photon.storage.output_files import OutputFile
from photon.storage.tables import CommitConflict
from photon.storage.tokens import Occurrence

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
class LeftOut:
    """Claims of a task whose events another task of the batch joins."""

    which: Mask  # among the task's claims
    joined_at: list[Occurrence]  # the record that joins each one's event


@dataclass(frozen=True)
class Round:
    """The tasks of a batch that need another step after a claim, by their indices."""

    again: list[int]  # these run again, for somebody else was faster
    left_out: dict[int, LeftOut]


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
        there or not (A5); LakeUnavailable. What keeps a task from ending is raised as by `collect_results`.
        """
        settled = Settled(results, [], 0)
        while True:
            check(settled.results)
            claims = [result.claims for result in settled.results.join]
            together = concatenated([one for one in claims if one is not None])
            if together is None:
                return settled
            lengths = [0 if one is None else len(one) for one in claims]
            round_ = judge(lengths, together, self._claim(together))
            if not round_.again:
                _leave_out(tasks, settled, round_.left_out)
                return settled
            settled.rounds += 1
            if settled.rounds == MOST_ROUNDS:
                raise RegistryUnavailable(
                    f"batch {tasks.context.plan.batch} lost claims {MOST_ROUNDS} times, and runs again"
                )
            self._run_again(tasks, round_.again, settled)

    def _claim(self, claims: Claims) -> Mask:
        """Claim, and return which of the claims are won."""
        self.registry.turns.give(self.clock)
        closing, began_us = self.closes.due, self.clock.elapsed_us()
        fault_point("claim.before")
        try:
            won = self.registry.claim(claims, closing).are_won(claims)
        except EpochOver as error:
            if not self.registry.view.is_over(claims.claimant.epoch):  # a batch was passed over (A25)
                raise CommitConflict(f"others have closed batch {claims.claimant.batch}") from error
            raise Superseded(str(error)) from error
        except RegistryUnavailable:
            self.meter.count("registry_unanswered_ids", by=len(claims))
            raise
        fault_point("claim.after")
        seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
        self.meter.time("registry_call_seconds", "claim", seconds=seconds)
        self.meter.count("registry_claims", "won", by=int(won.sum()))
        self.meter.count("registry_claims", "lost", by=int((~won).sum()))
        self.closes.closed(closing)
        return won

    def _run_again(self, tasks: BatchTasks, which: Sequence[int], settled: Settled) -> None:
        log.info(
            "batch %d: claims were lost to others; run again: %s",
            tasks.context.plan.batch,
            counted(len(which), "task"),
        )
        self.registry.read_on()  # who won may have closed it by now
        plan = claimant_of(tasks.context.plan)
        context = replace(tasks.context, view=self.registry.snapshot(plan))
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


def _leave_out(tasks: BatchTasks, settled: Settled, left_out: Mapping[int, LeftOut]) -> None:
    """Leave rows out of the results of these tasks, a thread for each: it reads and writes a file."""
    if not left_out:
        return
    join = settled.results.join
    with ThreadPoolExecutor(len(left_out), "left out") as threads:
        changed = {
            index: threads.submit(leave_out, join[index], one.which, one.joined_at, tasks.context)
            for index, one in left_out.items()
        }
    for index, future in changed.items():
        join[index] = future.result()


def judge(lengths: Sequence[int], claims: Claims, won: Mask) -> Round:
    """Decide what becomes of the tasks of a batch; `lengths`: how many of the claims each has, in order.

    A task leaves out the row of an event that another record of the batch has won. One that lost to somebody
    else runs again.
    """
    winners = _winners(claims, won)
    ends = np.cumsum(lengths)
    again: list[int] = []
    left_out: dict[int, LeftOut] = {}
    for task, (length, end) in enumerate(zip(lengths, ends.tolist(), strict=True)):
        lost = np.flatnonzero(~won[end - length : end]) + end - length
        joined_at = [winners.get(tuple(one)) for one in claims.hashes[lost].tolist()]
        if None in joined_at:
            again.append(task)
        elif len(lost):
            which = ~won[end - length : end]
            left_out[task] = LeftOut(which, [one for one in joined_at if one is not None])
    return Round(again, left_out)


def _winners(claims: Claims, won: Mask) -> dict[tuple[int, ...], Occurrence]:
    """The records that have won events for which other records have lost, by hash."""
    upper = claims.hashes[:, 0]
    contested = np.flatnonzero(won & np.isin(upper, upper[~won]))
    places = zip(claims.files[contested].tolist(), claims.offsets_bytes[contested].tolist(), strict=True)
    hashes = map(tuple, claims.hashes[contested].tolist())
    return {one: Occurrence(*place) for one, place in zip(hashes, places, strict=True)}


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
