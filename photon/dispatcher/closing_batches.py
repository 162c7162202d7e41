"""Close what was committed: with the next claims, or by itself where nothing is claimed (protocol A7, L4).

A close of batch N is appended after commit N. What the batch claimed and has no row for is free then, and the
others know that the rest is joined (A16, L9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

from photon.dispatcher.recovery.rows_of_plans import rowless_unless_taken
from photon.process.clock import MICROSECONDS, Clock
from photon.process.faults import fault_point
from photon.process.measures import Meter
from photon.registry.closing import Closing, Rowless
from photon.registry.entry import Claimant, Epoch, Hashes, Mask
from photon.registry.epochs import claimed_through
from photon.registry.errors import RegistryUnavailable
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.holds import HashSet
from photon.registry.id_registry import IdRegistry
from photon.registry.view import files_of_unclosed, unclosed_claimants
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable, app_id

log = logging.getLogger(__name__)

CLOSE_US = MICROSECONDS  # the others wait for a close, and a busy dispatcher's rides with its next claims


@dataclass
class BatchCloses:
    """The closes of one epoch. Used by the dispatcher's thread alone."""

    registry: IdRegistry
    epoch: Epoch
    table: OutputTable
    others_took: Callable[[], bool]  # whether a missing row may be one that others took (E12)
    clock: Clock
    meter: Meter
    _through: int = 0  # the last batch that may be closed
    _since_us: int | None = None  # when it was committed, or its close last failed; None: all is closed
    _rows: dict[Claimant, HashSet] = field(default_factory=dict)  # ids of rows, where they need not be read

    def committed(self, batch: int, claimant: Claimant | None = None, rows: Hashes | None = None) -> None:
        """The table has this batch, and all before it. `rows`: the ids of all rows of the claimant in it."""
        if claimant is not None and rows is not None:
            self._rows[claimant] = HashSet(rows)
        self._through = max(self._through, batch)
        if self._since_us is None:
            self._since_us = self.clock.elapsed_us()

    @property
    def due(self) -> Closing | None:
        """The close that goes with the next claims."""
        if self._since_us is None:
            return None
        return Closing(self.epoch, self._through, self._rowless())

    def closed(self, closing: Closing | None) -> None:
        """Take note that all that was due is closed in all ledgers: with claims, or by itself."""
        if closing is not None:
            self._rows = {one: rows for one, rows in self._rows.items() if one.batch > closing.through}
            self._since_us = None

    @property
    def closed_through(self) -> int:
        """The last batch with which all that the epoch held by then is decided."""
        unclosed = (one for one in unclosed_claimants(self.registry.view) if one.epoch == self.epoch)
        return min([self._through, *(one.batch - 1 for one in unclosed)])

    def named_files(self) -> set[int]:
        """The numbers of the log files that claims name which are not closed yet."""
        return files_of_unclosed(self.registry.view, self.epoch)

    @property
    def is_behind_claims(self) -> bool:
        """Whether another copy of the state has claimed for a batch that comes next, and has no plan here.

        It may have died. Others wait for what it holds, until a batch of that number is closed (A7).
        """
        return claimed_through(self.registry, self.epoch) > self._through

    def now(self) -> None:
        """Close all that is committed; ask nobody where nothing is unclosed.

        RegistryUnavailable, RegistryMismatch; LakeUnavailable where rows are to be read.
        """
        if (closing := self.due) is None:
            return
        began_us = self.clock.elapsed_us()
        fault_point("close.before")
        self.registry.close(closing)
        fault_point("close.after")
        seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
        self.meter.time("registry_call_seconds", "close", seconds=seconds)
        self.closed(closing)

    def tend(self) -> None:
        """Close what no claims have closed for a while; later, where registry or lake do not answer."""
        if self._since_us is None or self.clock.elapsed_us() - self._since_us < CLOSE_US:
            return
        self.finish()

    def finish(self) -> None:
        """Close all, or leave it to the next time or the next start."""
        try:
            self.now()
        except (RegistryUnavailable, LakeUnavailable) as error:
            log.info("batches up to %d are closed later: %s", self._through, error)
            self._since_us = self.clock.elapsed_us()

    def _rowless(self) -> Rowless:
        """Go by the rows that are known, and by the table as it is when others are first asked for."""
        behind = (app_id(self.epoch.datacenter, str(self.epoch.number)), self._through)
        known = dict(self._rows)
        of_table = cache(partial(rowless_unless_taken, self.table, self.others_took, behind))

        def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
            rows = known.get(one.claimant)
            return of_table()(at, one) if rows is None else ~rows.has(one.hashes)

        return rowless
