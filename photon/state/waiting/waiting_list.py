"""All changes to a datacenter's waiting records.

Each change belongs to a transaction of `DispatcherState`, which forgets what is in memory if that fails. No
change takes longer for records that stay as they are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from photon.state.waiting.listed_segment import ListedSegment
from photon.state.waiting.merging import Merged
from photon.state.waiting.reasons import CODE_OF, PRIMARY, UNJOINABLE, Codes
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import WaitingSegment
from photon.state.waiting.states import (
    PAGE_ROWS,
    Rows,
    WaitingState,
    given_up,
    live,
    no_tally,
    pending,
    tally_of,
    tally_to_stored,
)
from photon.state.waiting.waiting_view import WaitingView, rows_at
from photon.storage.tokens import Occurrence

# A new primary takes these up again: records that wait for it, and records that were given up.
_WAKEABLE = np.array([PRIMARY, UNJOINABLE], np.int8)


class WaitingList(WaitingView):
    """The waiting records of one datacenter, and what becomes of them: `store` ends each change."""

    def add(self, infos: Iterable[WaitingSegment]) -> None:
        """List new segments."""
        for info in infos:
            listed = ListedSegment(info, self.folder, info.tally.copy(), info.next_due_us, ())
            listed.touched = set()
            self._listed[info.name] = listed
            self._db.execute(
                "INSERT INTO waiting_segments VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    info.name,
                    info.records,
                    info.raw_bytes,
                    json.dumps(tally_to_stored(info.tally)),
                    info.next_due_us,
                    info.least_primary_us,
                    info.is_given_up,
                ),
            )

    def mark(self, retries: Iterable[Retries], state: WaitingState) -> None:
        """Note what became of the records of a plan."""
        for each in retries:
            self._listed[each.segment].mark(each.rows.to_numpy(), state)

    def mark_records(self, names: Iterable[str], places: Collection[Occurrence], state: WaitingState) -> None:
        """Note what became of single records of these segments."""
        if not places:
            return
        for listed in map(self.listed, names):
            listed.mark(rows_at(listed, places), state)

    def wake_given_up(self, places: Collection[Occurrence]) -> int:
        """Make those of these records due that were given up; how many those are."""
        before = given_up(self.tally)
        for listed in self._listed.values():
            self._wake(listed, rows_at(listed, places), np.array([UNJOINABLE], np.int8))
        return before - given_up(self.tally)

    def wake(self, new_hashes: Sequence[np.ndarray]) -> int:
        """Make records due whose primary may just have come; how many of them had been given up.

        `new_hashes`: uint64 of primary ids just read, each array sorted. Rare collisions only cost a lookup.
        """
        before = given_up(self.tally)
        for listed in self._listed.values():
            if not listed.tally[_WAKEABLE, WaitingState.OPEN].any():
                continue
            for hashes in new_hashes:
                rows = listed.index.rows_of_keys(hashes)
                self._wake(listed, rows, _WAKEABLE)
        return before - given_up(self.tally)

    def wake_all(self, reasons: Sequence[str]) -> int:
        """Make every open record of these reasons due; how many of them had been given up."""
        before = given_up(self.tally)
        codes = np.array([CODE_OF[reason] for reason in reasons], np.int8)
        for listed in self._listed.values():
            if listed.tally[codes, WaitingState.OPEN].any():
                self._wake(listed, listed.rows_in(WaitingState.OPEN), codes)
        return before - given_up(self.tally)

    def _wake(self, listed: ListedSegment, rows: Rows, reasons: Codes) -> None:
        is_woken = (listed.states[rows] == WaitingState.OPEN) & np.isin(listed.index.reasons[rows], reasons)
        listed.mark(rows[is_woken], WaitingState.WOKEN)

    def replace(self, merged: Merged) -> None:
        """List a merged segment in place of its sources. Its records keep the states that they have now."""
        states = [self._listed[name].states[rows] for name, rows in merged.sources]
        self.add([merged.info])
        new = self._listed[merged.info.name]
        moved = np.empty(merged.info.records, np.uint8)
        moved[merged.row_of] = np.concatenate(states)
        for state in (WaitingState.WOKEN, WaitingState.REQUEUED, WaitingState.GONE):
            new.mark(np.flatnonzero(moved == state), state)
        for name, _ in merged.sources:
            self._drop(name)

    def lose(self, name: str, kept: Rows) -> int:
        """Note that a segment's files are lost, but for the rows that plans refer to; how many waited."""
        listed = self._listed[name]
        waited = pending(listed.tally) - len(kept)
        listed.tally = no_tally()
        listed.tally[PRIMARY, WaitingState.REQUEUED] = len(kept)
        listed.tally[PRIMARY, WaitingState.GONE] = listed.info.records - len(kept)
        listed.states[:] = WaitingState.GONE
        listed.states[kept] = WaitingState.REQUEUED
        listed.touched = set(range(-(-listed.info.records // PAGE_ROWS)))
        return waited

    def recount(self) -> bool:
        """Count every record anew; whether the counts were wrong. They can't be, but nobody would notice."""
        wrong = [
            listed
            for listed in self._listed.values()
            if (tally_of(listed.index.reasons, listed.states) != listed.tally).any()
        ]
        for listed in wrong:
            listed.tally = tally_of(listed.index.reasons, listed.states)
            listed.touched.add(0)
        return bool(wrong)

    def store(self) -> None:
        """Store what has changed, and drop the segments that have no record left."""
        pages: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
        for name, listed in list(self._listed.items()):
            if not live(listed.tally):
                self._drop(name)
            elif listed.touched:
                listed.find_next_due()
                pages[name] = [(name, page, listed.page(page)) for page in sorted(listed.touched)]
                listed.touched = set()
                self._db.execute(
                    "UPDATE waiting_segments SET tally = ?, next_due_us = ? WHERE name = ?",
                    (json.dumps(tally_to_stored(listed.tally)), listed.next_due_us, name),
                )
        for rows in pages.values():
            self._db.executemany("INSERT OR REPLACE INTO waiting_pages VALUES (?, ?, ?)", rows)
        self._db.execute("INSERT OR REPLACE INTO counts VALUES ('pending', ?)", (pending(self.tally),))

    def _drop(self, name: str) -> None:
        self._listed.pop(name)
        self._db.execute("DELETE FROM waiting_segments WHERE name = ?", (name,))
        self._db.execute("DELETE FROM waiting_pages WHERE segment = ?", (name,))
