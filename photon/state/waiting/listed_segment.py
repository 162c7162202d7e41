"""One waiting segment that counts: its row and its pages in the state database, as arrays in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.pipeline.location import Location
from photon.state.rows import reading_column
from photon.state.waiting.reasons import NEVER_US, REASONS, UNJOINABLE
from photon.state.waiting.segments import WaitingIndex, WaitingSegment, read_event_times
from photon.state.waiting.states import (
    PAGE_ROWS,
    Rows,
    States,
    Tally,
    WaitingState,
    first_rows,
    pack,
    pages_of,
    tally_of,
    unpack,
)
from photon.storage.tokens import Occurrence


@dataclass(frozen=True)
class WaitingRecord:
    """One record, for people."""

    occurrence: Occurrence
    event_id: str
    reason: str
    status: str  # open | requeued | unjoinable
    attempts: int
    first_seen_us: int
    due_us: int  # in the past for a woken record


@dataclass
class ListedSegment:
    """A segment that counts, and what became of its records."""

    info: WaitingSegment
    folder: Location
    tally: Tally
    next_due_us: int  # when its next open record is due
    stored_pages: Iterable[tuple[int, bytes]]  # read when they are needed
    first: int = 0  # no record before this one is open
    touched: set[int] = field(default_factory=set)  # pages that are to be stored
    _states: States | None = None
    _index: WaitingIndex | None = None
    _times_us: Rows | None = None

    @property
    def index(self) -> WaitingIndex:
        """WaitingDamaged, OSError."""
        if self._index is None:
            self._index = WaitingIndex(self.folder, self.info.name)
        return self._index

    @property
    def states(self) -> States:
        if self._states is None:
            states = np.zeros(self.info.records, np.uint8)
            for page, data in self.stored_pages:
                part = states[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
                with reading_column(f"waiting_pages, page {page} of {self.info.name},"):
                    part[:] = unpack(data, len(part))
            self._states = states
        return self._states

    @property
    def is_waiting(self) -> npt.NDArray[np.bool_]:
        """Which records wait: not those that are decided, or given up and kept. WaitingDamaged, OSError."""
        is_kept = (self.index.reasons == UNJOINABLE) & (self.states == WaitingState.OPEN)
        waits: npt.NDArray[np.bool_] = (self.states != WaitingState.GONE) & ~is_kept
        return waits

    @property
    def times_us(self) -> Rows:
        """The event times of what waits. WaitingDamaged, OSError."""
        if self._times_us is None:
            self._times_us = read_event_times(self.folder, self.info.name)
        return self._times_us[self.is_waiting]

    def mark(self, rows: Rows, state: WaitingState) -> None:
        """Note what became of these records."""
        if not len(rows):
            return
        reasons = self.index.reasons[rows]
        self.tally -= tally_of(reasons, self.states[rows])
        self.tally += tally_of(reasons, int(state))
        self.states[rows] = state
        self.touched.update(pages_of(rows))

    def rows_in(self, *states: WaitingState) -> Rows:
        return np.flatnonzero(np.isin(self.states, states))

    def end_of_due(self, now_us: int) -> int:
        """How many records have their time behind them."""
        return int(np.searchsorted(self.index.due_us, now_us, side="right"))

    def has_due(self, now_us: int) -> bool:
        return bool(self.tally[:, WaitingState.WOKEN].any()) or self.next_due_us <= now_us

    def page(self, number: int) -> bytes:
        return pack(self.states[number * PAGE_ROWS : (number + 1) * PAGE_ROWS])

    def find_next_due(self) -> None:
        """Pass over the records that are not open any more."""
        if not self.tally[:, WaitingState.OPEN].any():
            self.next_due_us = NEVER_US
            return
        (self.first,) = first_rows(self.states, WaitingState.OPEN, self.first, self.info.records, 1).tolist()
        self.next_due_us = int(self.index.due_us[self.first])

    def record(self, row: int) -> WaitingRecord:
        """One record, for people."""
        (record,) = self.index.records.slice(row, 1).to_pylist()
        state, reason = WaitingState(self.states[row]), REASONS[record["reason"]].name
        status = "requeued" if state is WaitingState.REQUEUED else "open"
        if reason == "unjoinable" and state is WaitingState.OPEN:
            status = "unjoinable"
        return WaitingRecord(
            Occurrence(record["_file"], record["_offset"]),
            record["_id"],
            reason,
            status,
            record["attempts"],
            record["first_seen_us"],
            record["first_seen_us"] if state is WaitingState.WOKEN else record["due_us"],
        )
