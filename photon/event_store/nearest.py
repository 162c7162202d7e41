"""Which of the primary events with one id joins: the nearest one (protocol F14).

A segment has the events of one hash behind each other, by time. So a lookup takes one of them from each
segment, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from photon.event_store.hashing import Hashes
from photon.event_store.interface import Around, Ints
from photon.event_store.segments import Places, Segment, concat, rows_of_runs

Mask = npt.NDArray[np.bool_]
Files = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class NearestEvents:
    """The nearest event of each key that has one, by hash: the line tells whether it has the key's id."""

    keys: Ints  # which key each place is for; each key once
    places: Places
    is_ambiguous: Mask  # of each key: events of other content might have joined, too


def nearest_events(
    segments: Iterable[Segment], hashes: Hashes, around: Around, is_there: Callable[[Files], Mask]
) -> NearestEvents:
    """The nearest event to each key's time, of those in log files that are there (protocol F14).

    `is_there`: whether the log file of each number is. One that went makes a key ambiguous all the same.
    """
    order = np.argsort(hashes)
    wanted, asked = hashes[order], around.take(order)
    least, most = np.full(len(hashes), 2**64 - 1, np.uint64), np.zeros(len(hashes), np.uint64)
    keys, parts = [np.empty(0, np.int64)], list[Places]()
    for segment in segments:
        places = segment.places
        which, first, end = segment.runs(wanted)
        key, its = order[which], asked.take(which)
        begin, stop, row = _choose(places.times_us, first, end, its)
        inside = begin < stop
        which, key, begin, stop, row = (each[inside] for each in (which, key, begin, stop, row))
        # Events of one content have one time, so whatever lies between two of them has it too.
        for at in (begin, stop - 1):
            least[key] = np.minimum(least[key], places.digests[at])
            most[key] = np.maximum(most[key], places.digests[at])
        is_dead = ~is_there(places.files[row])
        if is_dead.any():
            dead = np.flatnonzero(is_dead)
            its = its.take(np.flatnonzero(inside)[dead])
            row[dead] = _among_living(places, first[inside][dead], end[inside][dead], its, is_there)
            key, row = key[row >= 0], row[row >= 0]
        keys.append(key)
        parts.append(places.take(row))
    all_keys, all_places = np.concatenate(keys), concat(parts)
    best = best_of_each(all_keys, all_places, around)
    return NearestEvents(all_keys[best], all_places.take(best), least < most)


def best_of_each(keys: Ints, places: Places, around: Around) -> Ints:
    """The rows of the places that are nearest to their keys' times, one for each key."""
    counts = np.bincount(keys)
    is_alone = counts[keys] == 1 if len(keys) else np.empty(0, bool)
    rows = np.flatnonzero(~is_alone)
    of, some = keys[rows], places.take(rows)
    is_behind = some.times_us > around.expected_us[of]
    # `~` turns the order of whole numbers round, and the least of them does not overflow.
    distance = np.where(is_behind, some.times_us, ~some.times_us)
    order = np.lexsort((some.offsets_bytes, some.files, some.digests, distance, is_behind, of))
    is_first = np.diff(of[order], prepend=-1) != 0
    return np.concatenate((np.flatnonzero(is_alone), rows[order[is_first]]))


def _choose(times_us: Ints, first: Ints, end: Ints, around: Around) -> tuple[Ints, Ints, Ints]:
    """For each key, choose among the events [first, end): those in its window, and the nearest of them.

    Nothing is subtracted, so that no wild time overflows.
    """
    begin = _first_where(times_us, first, end, around.first_us, np.greater_equal)
    stop = _first_where(times_us, begin, end, around.last_us, np.greater)
    behind = _first_where(times_us, begin, stop, around.expected_us, np.greater)
    # Events are by time and digest: the first at the latest time before has the smallest digest.
    latest_us = times_us[np.maximum(behind - 1, 0)] if len(times_us) else behind
    return begin, stop, _first_where(times_us, begin, behind, latest_us, np.greater_equal)


def _first_where(
    times_us: Ints, first: Ints, end: Ints, at_us: Ints, is_reached: Callable[[Ints, Ints], Mask]
) -> Ints:
    """The first row of each stretch [first, end), which is sorted, whose time has reached another one."""
    low, high = first.copy(), end.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        reached = is_reached(times_us[middle], at_us[open_])
        high[open_[reached]] = middle[reached]
        low[open_[~reached]] = middle[~reached] + 1
        open_ = open_[low[open_] < high[open_]]
    return low


def _among_living(
    places: Places, first: Ints, end: Ints, around: Around, is_there: Callable[[Files], Mask]
) -> Ints:
    """The nearest event of each key whose log file is there; -1 where there is none.

    The events of one hash are looked at once, however many keys have it.
    """
    runs, run_of = np.unique(first, return_inverse=True)
    ends = np.empty(len(runs), np.int64)
    ends[run_of] = end
    rows = rows_of_runs(runs, ends)
    living = is_there(places.files[rows])
    bounds = np.concatenate(([0], np.cumsum(living)))[np.concatenate(([0], np.cumsum(ends - runs)))]
    rows = rows[living]
    begin, stop, row = _choose(places.times_us[rows], bounds[run_of], bounds[run_of + 1], around)
    found = np.full(len(first), -1)
    found[begin < stop] = rows[row[begin < stop]]
    return found
