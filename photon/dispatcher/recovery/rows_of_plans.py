"""Find which claimed ids of a datacenter have rows, by one snapshot of its table (protocol A9, L4).

A row and a claim belong together by event id, epoch, batch and plan. The row's place in the logs does not
count: a person may have altered it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow.compute as pc

from photon.registry.closing import Rowless
from photon.registry.entry import NO_HASHES, Claimant, Hashes, Mask
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.hashing import hashes_of
from photon.registry.holds import HashSet
from photon.storage.joined_rows import ROWS_AT_ONCE, CommittedRows
from photon.storage.tables import OutputTable


def rowless_unless_taken(
    table: OutputTable, others_took: Callable[[], bool], behind: tuple[str, int] | None = None
) -> Rowless:
    """Free the ids without a row in a snapshot, but none while others may have taken rows away (E12).

    `others_took` is asked once a row is missing, so after the snapshot was made. `behind`: an app, and the
    batch that the snapshot has to have. LakeUnavailable.
    """
    rows, took = RowsOfPlans(table, behind), cache(others_took)

    def rowless(at: ClaimsAt, unclosed: Unclosed) -> Mask:
        missing = rows(at, unclosed)
        return np.zeros_like(missing) if missing.any() and took() else missing

    return rowless


class RowsOfPlans:
    """A `photon.registry.closing.Rowless`, by the rows that plans have in a table as this is made."""

    def __init__(self, table: OutputTable, behind: tuple[str, int] | None = None) -> None:
        """LakeUnavailable."""
        self._rows = CommittedRows(table, behind)
        self._found: dict[Claimant, HashSet] = {}  # few: those of the batches that are not closed

    def __call__(self, at: ClaimsAt, unclosed: Unclosed) -> Mask:
        """Which of the ids have no row. LakeUnavailable."""
        return ~self.have_rows(unclosed.claimant, unclosed.hashes)

    def have_rows(self, claimant: Claimant, hashes: Hashes) -> Mask:
        """Which of the ids have a row of this plan. LakeUnavailable."""
        if claimant not in self._found:
            batches = range(claimant.batch, claimant.batch + 1)
            pages = self._rows.pages(str(claimant.epoch.number), batches, ROWS_AT_ONCE)
            own = (page.filter(pc.equal(page["_plan"], claimant.plan)) for page in pages)
            ids = [NO_HASHES, *(hashes_of(rows["_event_id"]) for rows in own)]
            self._found[claimant] = HashSet(np.concatenate(ids))
        return self._found[claimant].has(hashes)
