"""Who holds ids, as a join's tasks ask: from a snapshot of a view, without the registry (rule L2).

A `ViewSnapshot` goes to tasks on any machine: runs of holds are named by where they are stored, and what is
newer than these comes along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from photon.registry.claimants import Owners
from photon.registry.entry import Claimant, Epoch, Hashes, LedgerId, Mask, Times
from photon.registry.fold import LedgerState
from photon.registry.holds import HashRun, RunFile
from photon.registry.register import Register
from photon.registry.segments import open_run
from photon.registry.view import NO_PLACE, RecordPlaces, View, newest_states, places_of
from photon.storage.tokens import PlanKey


class Hold(IntEnum):
    """Who holds an id, as one plan sees it."""

    NOBODY = 0
    THIS_PLAN = 1
    HERE = 2  # another plan of the same datacenter, of whichever epoch: its table says whether it has the row
    ELSEWHERE = 3  # another datacenter, which has not closed it: it may never join it
    JOINED_ELSEWHERE = 4  # another datacenter, which has closed it (L9)
    TOO_OLD = 5  # nobody holds it, and the boundary has passed its event (L5)


@dataclass(frozen=True, slots=True, eq=False)
class IdHolders:
    """Who holds each of some ids, as columns of their length.

    `by`: for each id the place of its holder in `holders`, -1 where nobody holds it. Of a join the holder's
    epoch and batch are 0, and its plan is "": a task needs its datacenter alone.
    """

    codes: npt.NDArray[np.int8]  # members of `Hold`
    by: npt.NDArray[np.int32]
    holders: Sequence[Claimant]
    places: RecordPlaces  # where the records lie by which THIS_PLAN holds ids

    def are(self, *holds: Hold) -> Mask:
        """Which of the ids are held so."""
        return np.isin(self.codes, holds)

    def holder(self, index: int) -> Claimant:
        """Who holds the id with this index."""
        return self.holders[int(self.by[index])]


class Lookups(Protocol):
    """The questions that a task may ask of the registry."""

    def look_up(self, hashes: Hashes, times_us: Times) -> IdHolders:
        """Who holds each id, as far as the snapshot knows; `times_us`: of the events, or NO_TIME_US."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ViewSnapshot:
    """A view as it was when a batch began; it pickles.

    `runs`: by generation, oldest first; those that have files are named by these.
    Of what a ledger's own claims have not closed its state names the claimants alone, and no hashes.
    """

    register: Register
    states: Mapping[LedgerId, LedgerState]
    runs: Mapping[int, Sequence[HashRun | RunFile]]
    owners: Owners

    def open(self, plan: Claimant) -> Lookups:
        """Open it for a task of this plan. RunDamaged, FormatTooNew, OSError."""
        view = View(self.register, "")
        view.states = dict(self.states)
        for generation, runs in self.runs.items():
            opened = [open_run(one) if isinstance(one, RunFile) else one for one in runs]
            view.holds.replace(generation, opened)
        return _SnapshotLookups(view, self.owners, plan)


def claimant_of(plan: PlanKey) -> Claimant:
    """A plan as ledgers know it."""
    return Claimant(Epoch(plan.datacenter, int(plan.epoch)), plan.batch, plan.plan_id)


def snapshot_of(view: View, plan: Claimant | None = None) -> ViewSnapshot:
    """A view as it is. `plan`: who will look up in it; None: any plan, and all records' places come along."""
    states = {ledger: _without_own_hashes(state, plan) for ledger, state in view.states.items()}
    runs = {one: tuple(run.file or run for run in view.holds.runs(one)) for one in view.holds.generations}
    return ViewSnapshot(view.register, states, runs, view.claimants.owners())


def _without_own_hashes(state: LedgerState, plan: Claimant | None) -> LedgerState:
    """The state without what batches have many of: `View.find` looks at inherited hashes alone."""
    kept = {
        at: one if at[0] != state.ledger or plan in (None, one.claimant) else one.take(slice(0))
        for at, one in state.unclosed.items()
    }
    return replace(state, unclosed=kept)


class _SnapshotLookups:
    """See `Lookups`. First among `holders` come the datacenters, then who holds something unclosed."""

    def __init__(self, view: View, owners: Owners, plan: Claimant) -> None:
        self._view = view
        self._plan = plan
        self._owners = owners.columns()
        states = newest_states(view)
        self._own = [
            (at, one) for state in states for at, one in state.unclosed.items() if one.claimant == plan
        ]
        unclosed = {at: one.claimant for state in view.states.values() for at, one in state.unclosed.items()}
        claimants = list(dict.fromkeys(unclosed.values()))
        self.holders = [*(Claimant(Epoch(name, 0), 0, "") for name in owners.datacenters), *claimants]
        places = {claimant: len(owners.datacenters) + n for n, claimant in enumerate(claimants)}
        # Who holds something unclosed at each position of a ledger: a place in `holders`, and one more.
        self._unclosed: dict[LedgerId, npt.NDArray[np.int32]] = {}
        for (ledger, position), claimant in unclosed.items():
            column = self._unclosed.setdefault(ledger, self._owners[ledger].astype(np.int32))
            column[position] = places[claimant] + 1
        is_here = np.array([one.epoch.datacenter == plan.epoch.datacenter for one in self.holders], bool)
        self._codes_of_joins = np.where(is_here, Hold.HERE, Hold.JOINED_ELSEWHERE).astype(np.int8)
        self._codes_of_others = np.where(is_here, Hold.HERE, Hold.ELSEWHERE).astype(np.int8)
        if plan in places:
            self._codes_of_others[places[plan]] = Hold.THIS_PLAN

    def look_up(self, hashes: Hashes, times_us: Times) -> IdHolders:
        """Who holds each id now, as far as the snapshot knows."""
        refs, held, joins, too_old = self._view.find(hashes, times_us)
        by = np.full(len(hashes), -1, np.int32)
        for ledger in refs.ledgers():
            for columns, are_so in ((self._owners, joins), (self._unclosed, ~joins)):
                if ledger in columns:
                    own = np.flatnonzero(refs.are_in(ledger) & are_so)
                    by[own] = columns[ledger][refs.positions[own]].astype(np.int32) - 1
        codes = np.full(len(hashes), Hold.NOBODY, np.int8)
        codes[too_old] = Hold.TOO_OLD
        codes[joins] = self._codes_of_joins[by[joins]]
        others = held & ~joins
        codes[others] = self._codes_of_others[by[others]]
        # An id that the plan has won is too old all the same once the boundary has passed it: see `claim`.
        codes[(codes == Hold.THIS_PLAN) & (times_us < self._view.register.boundary_us)] = Hold.TOO_OLD
        places = places_of(hashes, refs, self._own)
        for column in places:
            column[codes != Hold.THIS_PLAN] = NO_PLACE
        return IdHolders(codes, by, self.holders, places)
