"""Primary ids that come again for other content: how often, how far apart, and a window for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.values import MICROSECONDS_OF_UNITS

# The share of the pairs that a window has to hold: others may be orphans that are near another use. By chance
# alone it would hold half of them.
LEAST_WITHIN = 0.75
LEAST_OF_UNIT = 10  # a window is said in the largest unit of which it has so many
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IdsUsedAgain:
    """Primary ids of a sample that several records of other content have."""

    ids: int
    of_ids: int
    shortest_us: int  # between two of one id; 0: at one time
    longest_us: int
    doubtful: int  # foreign ids with several primaries to choose from, without a window
    lookup_window: str | None  # that is proposed; None: no window tells them apart
    beyond: int  # pairs that are farther apart than this window, and do not join with it


@dataclass(frozen=True, slots=True)
class NearestPrimaries:
    """The nearest primary of each foreign event, as a join chooses it (protocol F14)."""

    rows: Ints  # of the primaries; -1: none within the window
    used_again: IdsUsedAgain | None


def nearest_primaries(foreigns: pa.Table, primaries: pa.Table) -> NearestPrimaries:
    """Pair the events of two samples, within a window where one tells the primaries of an id apart."""
    ids = pc.unique(primaries["_id"])
    contents = _contents(primaries, ids)
    _, of, times_us = contents
    keys = pc.fill_null(pc.index_in(foreigns["_key"], ids), -1).to_numpy().astype(np.int64)
    around_us = foreigns["_time_us"].to_numpy()
    rows, distance_us = _nearest(contents, keys, around_us)
    gaps_us = np.diff(times_us)[np.diff(of) == 0]
    if not len(gaps_us):
        return NearestPrimaries(rows, None)
    is_paired = rows >= 0
    window_us = _rounded((int(gaps_us.min()) - 1) // 2)
    beyond = is_paired & (distance_us > window_us)
    is_enough = window_us > 0 and int(beyond.sum()) <= (1 - LEAST_WITHIN) * int(is_paired.sum())
    counts = np.bincount(of, minlength=len(ids))
    used_again = IdsUsedAgain(
        int((counts > 1).sum()),
        len(ids),
        int(gaps_us.min()),
        int(gaps_us.max()),
        len(pc.unique(foreigns["_id"].filter(pa.array(is_paired & (counts[keys] > 1))))),
        said(window_us) if is_enough else None,
        int(beyond.sum()) if is_enough else 0,
    )
    return NearestPrimaries(np.where(beyond, -1, rows) if is_enough else rows, used_again)


def said(duration_us: int) -> str:
    """A duration as pipeline files have it, in its largest unit that leaves little out."""
    unit, size_us = _unit(duration_us)
    return f"{duration_us // size_us}{unit}"


def _rounded(duration_us: int) -> int:
    _, size_us = _unit(duration_us)
    return duration_us // size_us * size_us


def _unit(duration_us: int) -> tuple[str, int]:
    units = sorted(MICROSECONDS_OF_UNITS.items(), key=lambda each: -each[1])
    return next((each for each in units if duration_us >= LEAST_OF_UNIT * each[1]), units[-1])


def _contents(primaries: pa.Table, ids: pa.Array) -> tuple[Ints, Ints, Ints]:
    """The first record of each content of each id, by id and time: its row, number of the id, and time."""
    of = pc.index_in(primaries["_id"], ids).to_numpy().astype(np.int64)
    content = primaries["_raw"].combine_chunks().dictionary_encode().indices.to_numpy()
    times_us = primaries["_time_us"].to_numpy()
    order = np.lexsort((times_us, content, of))
    is_first = (np.diff(of[order], prepend=-1) != 0) | (np.diff(content[order], prepend=-1) != 0)
    rows = order[is_first]
    rows = rows[np.lexsort((times_us[rows], of[rows]))]
    return rows, of[rows], times_us[rows]


def _nearest(contents: tuple[Ints, Ints, Ints], keys: Ints, around_us: Ints) -> tuple[Ints, Ints]:
    """The row of the latest content at or before each time, else of the earliest behind; how far it is."""
    rows, of, times_us = contents
    if not len(rows):
        return np.full(len(keys), -1), np.zeros(len(keys), np.int64)
    # Both in one order by id and time, contents first: so many of them lie at or before each foreign event.
    is_foreign = np.repeat((False, True), (len(of), len(keys)))
    order = np.lexsort((is_foreign, np.concatenate((times_us, around_us)), np.concatenate((of, keys))))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(~is_foreign[order])
    behind = before[len(of) :]
    ahead, behind = np.maximum(behind - 1, 0), np.minimum(behind, len(of) - 1)
    at = np.where(of[ahead] == keys, ahead, behind)
    is_paired = of[at] == keys
    return np.where(is_paired, rows[at], -1), np.abs(times_us[at] - around_us)
