"""Which of the ids that plans hold have no row: what a close goes by (protocol L4, A9)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow.compute as pc

from photon.ledger.entry import Claimant, Hashes, Mask
from photon.ledger.fold import ClaimsAt, Unclosed, are_among
from photon.ledger.hashing import hashes_of
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import OutputTable


@dataclass
class RowsOfPlans:
    """Says it of plans whose batches are committed, or whose epoch is fenced: their rows change no more.

    It goes by the joined table of their datacenter, as it is when a plan is first asked for. LakeUnavailable.
    """

    table: OutputTable
    _rows: dict[Claimant, Hashes] = field(default_factory=dict)  # the ids of their rows

    def __call__(self, at: ClaimsAt, one: Unclosed) -> Mask:
        """See `photon.ledger.closing.Rowless`."""
        rows = self._rows.get(one.claimant)
        if rows is None:
            rows = self._rows[one.claimant] = rows_of_plan(self.table, one.claimant)
        return ~are_among(one.hashes, rows)

    def know(self, claimant: Claimant, rows: Hashes) -> None:
        """Take note of all rows of a plan, which need not be read then."""
        self._rows[claimant] = rows

    def forget(self, through: int) -> None:
        """Forget the rows of batches up to this one."""
        self._rows = {one: rows for one, rows in self._rows.items() if one.batch > through}


def rows_of_plan(table: OutputTable, claimant: Claimant) -> Hashes:
    """The ids of all rows that a plan has committed, as hashes. LakeUnavailable."""
    rows = CommittedRows(table).of_batches(str(claimant.epoch.number), [claimant.batch])
    return hashes_of(rows["_event_id"].filter(pc.equal(rows["_plan"], claimant.plan)))
