"""Who holds ids, as a join's tasks ask: from a snapshot of a view, without the registry (docs/protocol.md, L2).

A `ViewSnapshot` goes to tasks on any machine: the runs of holds are named by where they are stored, and what is
newer than these comes along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from photon.ledger.entry import Claimant, Hashes, LedgerId, Mask, Times
from photon.ledger.fold import LedgerState
from photon.ledger.holds import Run
from photon.ledger.register import Register
from photon.ledger.view_store import ListedRun
from photon.pipeline.location import Location


class Hold(IntEnum):
    """Who holds an id, as one plan sees it."""

    NOBODY = 0
    THIS_PLAN = 1
    HERE = 2  # another plan of the same datacenter, of whichever epoch: its table says whether it has the row
    ELSEWHERE = 3  # another datacenter, which has not closed it: it may never join it
    JOINED_ELSEWHERE = 4  # another datacenter, which has closed it (L9)
    TOO_OLD = 5  # nobody holds it, and the boundary has passed its event (L5)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Who holds each of some ids, as columns of their length.

    `by`: for each id the place of its holder in `holders`, -1 where nobody holds it. Of a join that was closed
    long ago the holder's batch and plan are 0 and "": a task needs its datacenter alone.
    """

    codes: npt.NDArray[np.int8]  # of `Hold`
    by: npt.NDArray[np.int32]
    holders: Sequence[Claimant]

    def are(self, *holds: Hold) -> Mask:
        """Which of the ids are held so."""
        found: Mask = np.isin(self.codes, holds)
        return found

    def holder(self, index: int) -> Claimant:
        """Who holds the id with this index."""
        return self.holders[int(self.by[index])]


class Lookups(Protocol):
    """What a task may ask of the registry."""

    def look_up(self, hashes: Hashes, times_us: Times) -> Found:
        """Who holds each id now, as far as the snapshot knows; `times_us` of the events, NO_TIME_US: unknown."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ViewSnapshot:
    """A view as it was when a batch began; it pickles.

    `folder`, `listed`: by generation the runs that have files, oldest first. `newer`: the runs behind them.
    `datacenters`, `owners`: by ledger and position whose claims there are, compressed.
    """

    register: Register
    states: Mapping[LedgerId, LedgerState]
    folder: Location
    listed: Mapping[int, Sequence[ListedRun]]
    newer: Mapping[int, Sequence[Run]]
    datacenters: tuple[str, ...] = ()
    owners: Mapping[LedgerId, bytes] | None = None

    def open(self, plan: Claimant) -> Lookups:
        """What a task of this plan looks up in. RunDamaged, OSError."""
        raise NotImplementedError
