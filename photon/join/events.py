"""The events whose occurrences the records of one join task are."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from photon.join.records import Ints, Mask, Records
from photon.registry.entry import Hashes
from photon.registry.hashing import hashes_of
from photon.storage.tokens import Occurrence


class Events:
    """The events among some records. One record leads each: it is the one that is to join (protocol A9).

    At first that is the first by (time, path, offset). Each datacenter numbers files in its own way, but
    their paths, times and offsets are alike in all.
    """

    def __init__(self, records: Records, rows: Ints) -> None:
        """The events of the records `rows`."""
        ids = records.of("_id", rows).dictionary_encode()
        codes: Ints = ids.indices.to_numpy().astype(np.int64)
        numbers, offsets_bytes = records.file_numbers[rows], records.offsets_bytes[rows]
        times_us, ranks = records.times_us[rows], records.path_ranks[rows]
        order = np.lexsort((numbers, offsets_bytes, ranks, times_us, codes))
        ordered = codes[order]
        is_first = np.diff(ordered, prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        self.records = records
        self.rows = rows[order]  # all records, event by event
        self.event_of_row = np.cumsum(is_first) - 1  # beside `rows`
        self.leaders = self.rows[starts]
        self._starts = np.append(starts, len(rows))
        retries = np.add.reduceat(records.is_retry[self.rows], starts) if len(rows) else starts
        self.is_fresh: Mask = retries == 0  # none of its records has waited

    def __len__(self) -> int:
        return len(self.leaders)

    @cached_property
    def place_of(self) -> Ints:
        """The place of each record in `rows`; -1 for a record that is not there."""
        places = np.full(len(self.records), -1, np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places

    def of(self, rows: Ints) -> Ints:
        """The event of each of these records."""
        return self.event_of_row[self.place_of[rows]]

    def first_of_each(self, rows: Ints) -> Ints:
        """Indices of `rows`, in their order: of several records of an event the one that comes first."""
        if np.array_equal(rows, self.leaders[self.of(rows)]):  # as it nearly always is
            return np.arange(len(rows))
        in_order = np.argsort(self.place_of[rows])
        _, first = np.unique(self.of(rows[in_order]), return_index=True)
        return np.sort(in_order[first])

    def members(self, event: int) -> Ints:
        """The records of one event, the first ahead."""
        return self.rows[self._starts[event] : self._starts[event + 1]]

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each event's id, by which ledgers know it."""
        return hashes_of(self.records.of("_id", self.leaders))

    def lead(self, rows: Ints) -> None:
        """Have each event that has some of these records be led by the first of them."""
        first = rows[self.first_of_each(rows)]
        self.leaders[self.of(first)] = first

    def is_ordered(self, event: int) -> bool:
        """Recovery has asked for one of its records."""
        return bool(self.records.is_ordered[self.members(event)].any())

    def member_at(self, event: int, place: Occurrence) -> int | None:
        """The record of an event at this place."""
        members = self.members(event).tolist()
        return next((row for row in members if self.records.occurrence(row) == place), None)
