"""Waiting records of a datacenter: the segments that count, and what became of each record. Changes nothing.

SQLite has a row a segment and a few bytes a record; arrays are in memory once somebody asks for them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from tempfile import NamedTemporaryFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.pipeline.location import Location
from photon.state.rows import reading_column
from photon.state.waiting import segments
from photon.state.waiting.listed_segment import ListedSegment, WaitingRecord
from photon.state.waiting.merging import SegmentSize
from photon.state.waiting.reasons import CODE_OF, NEVER_US, PRIMARY, REASONS, UNJOINABLE
from photon.state.waiting.segments import WaitingIndex, WaitingSegment
from photon.state.waiting.states import (
    Rows,
    Tally,
    WaitingState,
    first_rows,
    given_up,
    live,
    no_tally,
    pending,
    tally_from_stored,
)
from photon.storage.tokens import Occurrence

MOST_IN_MEMORY = 2**16  # records of a list of all; more are put into a file
WAITING_COLUMNS = pa.schema(
    [
        ("file", pa.int32()),
        ("offset", pa.int64()),
        ("event_id", pa.string()),
        ("given_up", pa.bool_()),  # when the inputs were declared complete; else it still waits
    ]
)


class WaitingView:
    """The waiting records of one datacenter, to look at."""

    def __init__(self, db: sqlite3.Connection, work: Callable[[], Location]) -> None:
        """`work`: below which folder the segments are."""
        self._db = db
        self._work = work
        self._segments: dict[str, ListedSegment] | None = None

    @property
    def folder(self) -> Location:
        """Where the segments are."""
        return self._work() / segments.FOLDER

    def forget(self) -> None:
        """Read again what is stored, when it is asked for next."""
        self._segments = None

    @property
    def _listed(self) -> dict[str, ListedSegment]:
        if self._segments is None:
            self._segments = {row[0]: self._of_row(*row) for row in self._rows()}
        return self._segments

    def _rows(self) -> Iterator[tuple[str, int, int, str, int, int, int]]:
        return iter(self._db.execute("SELECT * FROM waiting_segments ORDER BY name").fetchall())

    def _of_row(
        self, name: str, records: int, raw_bytes: int, tally: str, due_us: int, primary_us: int, given: int
    ) -> ListedSegment:
        with reading_column(f"waiting_segments, {name},"):
            found = tally_from_stored(json.loads(tally))
            info = WaitingSegment(
                name, int(records), int(raw_bytes), found, int(due_us), int(primary_us), bool(given)
            )
        return ListedSegment(info, self.folder, found.copy(), due_us, self._pages_of(name))

    def _pages_of(self, name: str) -> Iterator[tuple[int, bytes]]:
        yield from self._db.execute("SELECT page, states FROM waiting_pages WHERE segment = ?", (name,))

    # -- how many wait

    @property
    def tally(self) -> Tally:
        """How many records there are by reason and state."""
        return sum((listed.tally for listed in self._listed.values()), no_tally())

    def count(self, reasons: Sequence[str] = ()) -> int:
        """How many records wait (for any of `reasons`, where given)."""
        codes = [CODE_OF[reason] for reason in reasons] or list(range(len(REASONS)))
        tally = self.tally
        return live(tally[codes]) - (given_up(tally) if UNJOINABLE in codes else 0)

    def count_soon(self) -> int:
        """How many records would not wait long if somebody were at work: it is his turn, or they were woken.

        Others wait for what has yet to come: to look again for a primary that did not come finds nothing.
        """
        return int(self.tally[:, WaitingState.WOKEN].sum()) + self.count(("home", "contested"))

    def by_reason(self) -> dict[str, int]:
        """How many records wait, by reason (`requeued`: in a plan that is taken up again)."""
        tally = self.tally
        waiting = tally[:, WaitingState.OPEN] + tally[:, WaitingState.WOKEN]
        waiting[UNJOINABLE] -= given_up(tally)
        counts = {reason.name: int(n) for reason, n in zip(REASONS, waiting, strict=True)}
        counts["requeued"] = int(tally[:, WaitingState.REQUEUED].sum())
        return {name: n for name, n in counts.items() if n}

    def earliest_primary_us(self) -> int | None:
        """No waiting event's primary is looked for before this time; None if nothing waits."""
        waiting = (each for each in self._listed.values() if pending(each.tally))
        return min((each.info.least_primary_us for each in waiting), default=None)

    def event_times_us(self) -> Rows:
        """The event times of all records that wait, in no order. WaitingDamaged, OSError."""
        waiting = [listed.times_us for listed in self._listed.values() if pending(listed.tally)]
        return np.concatenate([np.empty(0, np.int64), *waiting])

    def count_for_primary(self, before_us: int) -> int:
        """How many records of events before this time wait for their primary. WaitingDamaged, OSError."""
        found = 0
        for listed in self._listed.values():
            if pending(listed.tally):
                is_for_primary = listed.index.reasons[listed.is_waiting] == PRIMARY
                found += int(np.count_nonzero(is_for_primary & (listed.times_us < before_us)))
        return found

    def by_file(self) -> dict[int, int]:
        """How many records of each log file wait, by its number. WaitingDamaged, OSError."""
        numbers = [np.empty(0, np.int32)]
        for listed in self._listed.values():
            if pending(listed.tally):
                numbers.append(listed.index.records["_file"].to_numpy()[listed.is_waiting])
        files, counts = np.unique(np.concatenate(numbers), return_counts=True)
        return dict(zip(files.tolist(), counts.tolist(), strict=True))

    def files_left(self) -> set[int]:
        """The numbers of the files of all records here, also given up. WaitingDamaged, OSError."""
        found = {name: self.rows_left(name) for name in self._listed}
        return {
            number
            for name, rows in found.items()
            if len(rows)
            for number in np.unique(self._listed[name].index.records["_file"].to_numpy()[rows]).tolist()
        }

    def key_hashes(self) -> npt.NDArray[np.uint64]:
        """The hashes of the keys of all records that wait, sorted, each once. WaitingDamaged, OSError."""
        waiting = [
            each.index.hashes_by_row[each.is_waiting] for each in self._listed.values() if pending(each.tally)
        ]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *waiting]))

    def by_age(self, now_us: int, bounds_us: Sequence[int]) -> list[int]:
        """How many records wait by how long ago they were first seen: below each bound, and beyond the last.

        WaitingDamaged.
        """
        counts = np.zeros(len(bounds_us) + 1, np.int64)
        for listed in self._listed.values():
            first_seen_us = listed.index.records["first_seen_us"].to_numpy()[listed.is_waiting]
            places = np.searchsorted(np.asarray(bounds_us), now_us - first_seen_us, side="right")
            counts += np.bincount(places, minlength=len(counts))
        return [int(count) for count in counts]

    def oldest_seen_us(self) -> dict[str, int]:
        """When the oldest record that waits for each reason was first seen, by reason as in `by_reason`.

        WaitingDamaged.
        """
        found: dict[str, int] = {}
        for listed in self._listed.values():
            if not pending(listed.tally):
                continue
            seen_us = listed.index.records["first_seen_us"].to_numpy()
            for name, mask in _by_reason(listed).items():
                if mask.any():
                    oldest_us = int(seen_us[mask].min())
                    found[name] = min(oldest_us, found.get(name, oldest_us))
        return found

    def next_of_each(self, most: int) -> dict[str, list[WaitingRecord]]:
        """Some of the records that wait for each reason, as in `by_reason`: those that are due next.

        WaitingDamaged.
        """
        found: dict[str, list[WaitingRecord]] = {}
        for listed in self._listed.values():
            if not pending(listed.tally):
                continue
            for name, mask in _by_reason(listed).items():
                if mask.any():
                    some = [listed.record(row) for row in np.flatnonzero(mask)[:most].tolist()]
                    both = [*found.get(name, []), *some]
                    found[name] = sorted(both, key=lambda record: record.due_us)[:most]
        return found

    # -- what is due

    def count_due(self, now_us: int) -> int:
        """How many records are due now."""
        due = 0
        for listed in self._listed.values():
            due += int(listed.tally[:, WaitingState.WOKEN].sum())
            if listed.next_due_us <= now_us:
                states = listed.states[listed.first : listed.end_of_due(now_us)]
                due += int(np.count_nonzero(states == WaitingState.OPEN))
        return due

    def due(self, now_us: int, most: int) -> list[tuple[WaitingIndex, Rows]]:
        """The records that are due, by segment: first those that were woken, then the longest due."""
        found: list[tuple[ListedSegment, Rows, Rows]] = []
        for listed in self._listed.values():
            if not most or not listed.has_due(now_us):
                continue
            woken = first_rows(listed.states, WaitingState.WOKEN, 0, self._end_of_woken(listed), most)
            end = listed.end_of_due(now_us)
            rows = first_rows(listed.states, WaitingState.OPEN, listed.first, end, most)
            times_us = np.concatenate((np.full(len(woken), -NEVER_US), listed.index.due_us[rows]))
            found.append((listed, np.concatenate((woken, rows)), times_us))
        if not found:
            return []
        times_us = np.concatenate([each[2] for each in found])
        is_chosen = np.ones(len(times_us), bool)
        if len(times_us) > most:
            is_chosen[:] = False
            is_chosen[np.argpartition(times_us, most - 1)[:most]] = True
        bounds = np.cumsum([len(rows) for _, rows, _ in found])[:-1]
        chosen = zip(found, np.split(is_chosen, bounds), strict=True)
        return [(listed.index, np.sort(rows[is_in])) for (listed, rows, _), is_in in chosen if is_in.any()]

    @staticmethod
    def _end_of_woken(listed: ListedSegment) -> int:
        return listed.info.records if listed.tally[:, WaitingState.WOKEN].any() else 0

    # -- single records

    def of_event(self, event_id: str) -> list[WaitingRecord]:
        """The records of one event. WaitingDamaged."""
        found = []
        for listed in self._listed.values():
            for row in listed.index.rows_of_event(event_id).tolist():
                if listed.states[row] != WaitingState.GONE:
                    found.append(listed.record(row))
        return found

    def events(self) -> pa.Table:
        """Every record that waits or was given up, as `WAITING_COLUMNS`. WaitingDamaged, OSError.

        Many are a view of a file without a name: they take no memory.
        """
        if sum(live(listed.tally) for listed in self._listed.values()) <= MOST_IN_MEMORY:
            return pa.concat_tables([WAITING_COLUMNS.empty_table(), *self._events()])
        with NamedTemporaryFile(prefix="photon-waiting-") as spool:
            with pa.ipc.new_file(spool, WAITING_COLUMNS) as sink:
                for part in self._events():
                    sink.write_table(part)
            spool.flush()
            with pa.ipc.open_file(pa.memory_map(spool.name)) as file:
                return file.read_all()

    def _events(self) -> Iterator[pa.Table]:
        for listed in self._listed.values():
            left = np.flatnonzero(listed.states != WaitingState.GONE)
            for rows in (left[at : at + MOST_IN_MEMORY] for at in range(0, len(left), MOST_IN_MEMORY)):
                records = listed.index.records.select(["_file", "_offset", "_id"]).take(pa.array(rows))
                is_given_up = (listed.index.reasons[rows] == UNJOINABLE) & (
                    listed.states[rows] == WaitingState.OPEN
                )
                records = records.append_column("given_up", pa.array(is_given_up))
                yield records.rename_columns(WAITING_COLUMNS.names).cast(WAITING_COLUMNS)

    def given_up_among(self, places: Collection[Occurrence]) -> dict[Occurrence, bool]:
        """Which of these records wait or are kept, and whether they were given up. WaitingDamaged."""
        found: dict[Occurrence, bool] = {}
        for listed in self._listed.values():
            for row in rows_at(listed, places).tolist():
                if listed.states[row] != WaitingState.GONE:
                    record = listed.record(row)
                    found[record.occurrence] = record.status == "unjoinable"
        return found

    # -- segments

    @property
    def names(self) -> set[str]:
        return set(self._listed)

    def listed(self, name: str) -> ListedSegment:
        """KeyError if the segment does not count."""
        return self._listed[name]

    def sizes(self) -> list[SegmentSize]:
        """How much of each segment is of use, of those that may be merged: no plan refers to them."""
        return [
            SegmentSize(name, each.info.records, live(each.tally), each.info.raw_bytes, each.info.is_given_up)
            for name, each in self._listed.items()
            if not each.tally[:, WaitingState.REQUEUED].any()
        ]

    def rows_left(self, name: str) -> Rows:
        """The rows of a segment that are not gone."""
        return self._listed[name].rows_in(WaitingState.OPEN, WaitingState.WOKEN, WaitingState.REQUEUED)


def _by_reason(listed: ListedSegment) -> dict[str, npt.NDArray[np.bool_]]:
    """Which records of a segment wait for each reason, as in `WaitingView.by_reason`. WaitingDamaged."""
    reasons, states = listed.index.reasons, listed.states
    is_open = (states == WaitingState.OPEN) | (states == WaitingState.WOKEN)
    is_open &= (reasons != UNJOINABLE) | (states != WaitingState.OPEN)
    masks = {REASONS[code].name: is_open & (reasons == code) for code in np.unique(reasons).tolist()}
    masks["requeued"] = states == WaitingState.REQUEUED
    return masks


def rows_at(listed: ListedSegment, places: Collection[Occurrence]) -> Rows:
    """The rows of a segment with the records at these places, whatever became of them."""
    index = listed.index
    maybe = np.flatnonzero(np.isin(index.offsets_bytes, [each.offset_bytes for each in places]))
    pairs = zip(index.files[maybe].tolist(), index.offsets_bytes[maybe].tolist(), strict=True)
    return maybe[[Occurrence(*pair) in places for pair in pairs]]
