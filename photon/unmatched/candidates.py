"""Candidates in the index of primary events, and which of them some row names: by hashes, then by ids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.hashing import Hashes, hash_ids
from photon.event_store.segments import Places
from photon.unmatched.deciding import HOUR_US, Selection

HASHES_AT_ONCE = 2**22  # candidates in memory: 100 MiB with what is made of them
_ODD = np.uint64(0x9E3779B97F4A7C15)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class UnmatchedCandidates:
    """Hashes of ids, and times. An id that was logged twice is there twice."""

    hashes: Hashes
    times_us: Ints

    def __len__(self) -> int:
        return len(self.hashes)


def by_hour(segments: Sequence[Places], window: Selection) -> Counter[int]:
    """How many candidates there are, by the hour of their times, counted from 1970."""
    found = Counter[int]()
    for places in segments:
        hours, counts = np.unique(places.times_us[window.among(places)] // HOUR_US, return_counts=True)
        found.update(dict(zip(hours.tolist(), counts.tolist(), strict=True)))
    return found


def in_ranges(segments: Sequence[Places], window: Selection) -> Iterator[UnmatchedCandidates]:
    """All candidates by ranges of hashes, so that memory is bounded: hashes are even."""
    count = sum(int(np.count_nonzero(window.among(places))) for places in segments)
    parts = max(1, -(-count // HASHES_AT_ONCE))
    bounds = np.array([(2**64 * part) // parts for part in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(one.hashes, bounds).tolist(), len(one)] for one in segments]
    for part in range(parts):
        found = [one.take(slice(cut[part], cut[part + 1])) for one, cut in zip(segments, cuts, strict=True)]
        chosen = [places.take(window.among(places)) for places in found]
        yield UnmatchedCandidates(
            np.concatenate([np.empty(0, np.uint64), *(each.hashes for each in chosen)]),
            np.concatenate([np.empty(0, np.int64), *(each.times_us for each in chosen)]),
        )


class Named:
    """Which of some candidates rows name.

    An id of equal hash is the candidate's if its time is the same too: 64 bits and a microsecond. Of another
    time it may be another copy of the event, or another id: whoever reads the line compares the ids.
    """

    def __init__(self, candidates: UnmatchedCandidates) -> None:
        self.hashes = np.unique(candidates.hashes)
        self._places = np.unique(_places(candidates.hashes, candidates.times_us))
        self._is_known = np.zeros(len(self.hashes), bool)
        self._named: dict[int, set[str]] = defaultdict(set)

    def take(self, rows: pa.Table) -> None:
        """Take in the ids and times of rows, as their first two columns."""
        rows = rows.filter(pc.is_valid(rows.column(0)))
        if not rows.num_rows or not len(self.hashes):
            return
        hashes = hash_ids(rows.column(0))
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        hits = np.flatnonzero(self.hashes[at] == hashes)
        times_us = pc.fill_null(rows.column(1).cast(pa.int64()), 0).to_numpy()
        is_same = np.isin(_places(hashes[hits], times_us[hits]), self._places)
        self._is_known[at[hits[is_same]]] = True
        others = hits[~is_same]
        for hash_, event_id in zip(
            hashes[others].tolist(), rows.column(0).take(pa.array(others)).to_pylist(), strict=True
        ):
            self._named[hash_].add(event_id)

    @property
    def left(self) -> Hashes:
        """The hashes of which no row of an equal time was there; ascending."""
        return self.hashes[~self._is_known]

    def names(self, event_ids: pa.Array, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Whether rows of other times name these ids."""
        found = np.zeros(len(event_ids), bool)
        if self._named:
            for row in np.flatnonzero(np.isin(hashes, np.array(list(self._named), np.uint64))).tolist():
                found[row] = event_ids[row].as_py() in self._named[int(hashes[row])]
        return found


def _places(hashes: Hashes, times_us: Ints) -> Hashes:
    """A hash and a time in one number."""
    return hashes + times_us.astype(np.uint64) * _ODD
