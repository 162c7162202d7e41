"""Whether records of one id say the same.

Their columns are compared, as an adapter gets them, and not their bytes: the order of keys, blanks, and the
place of a column in a header make no difference, and a null is as good as no value. Identical lines below
identical headers need not be parsed, and a retried or copied line is one.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.join.adapting import RawRecords, columns_of
from photon.pipeline.file import Pipeline
from photon.storage.tokens import Occurrence

Ints = npt.NDArray[np.int64]

MOST_COMPARED = 10_000  # duplicates a task; each costs two parsed lines
MOST_KEPT = 20  # examples of conflicts in a task, and in a batch
MOST_NAMES = 5  # columns that differ, in one example
NOT_PARSED = "a record that can't be parsed"


@dataclass(frozen=True)
class Conflict:
    """A record whose content is another than that of the record of its id that joined."""

    event_id: str
    occurrence: Occurrence
    joined: Occurrence  # the record that joined
    differs: str  # the columns


@dataclass(frozen=True)
class Compared:
    """Counts of duplicates that were compared with the records that joined.

    Where there are more than are compared, the share among those that were stands for all.
    """

    conflicting: int = 0
    not_compared: int = 0  # one of both can't be read any more
    conflicts: tuple[Conflict, ...] = ()  # some of them

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            self.conflicting + other.conflicting,
            self.not_compared + other.not_compared,
            (*self.conflicts, *other.conflicts)[:MOST_KEPT],
        )

    def of_sample(self, compared: int, of: int) -> Compared:
        """Scale the counts up to all duplicates, where only so many were compared."""
        conflicting, not_compared = (
            round(count * of / compared) for count in (self.conflicting, self.not_compared)
        )
        return Compared(conflicting, not_compared, self.conflicts)


def sample_of(places: Sized, most: int) -> Ints:
    """Draw indices of at most so many by chance, the same ones in each run."""
    count = len(places)
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(count).choice(count, most, replace=False))


def compared(
    raws: RawRecords,
    ids: Sequence[str],
    places: Sequence[Occurrence],
    joined: Sequence[Occurrence],
    pipeline: Pipeline,
) -> Compared:
    """Compare records with those of their ids that joined; `raws` has the former, then the latter."""
    count = len(ids)
    others, ours = raws.raws[:count], raws.raws[count:]
    headers = np.array([raws.headers[at] for at in raws.header_of.tolist()], object)
    is_same = pc.equal(others, ours).to_numpy(zero_copy_only=False)
    is_same &= headers[:count] == headers[count:]
    unlike = np.flatnonzero(~is_same)
    if not len(unlike):
        return Compared()
    differs = _differences(raws, unlike, count, pipeline)
    conflicts = [
        Conflict(ids[at], places[at], joined[at], names)
        for at, names in zip(unlike.tolist(), differs, strict=True)
        if names not in ("", NOT_PARSED)
    ]
    return Compared(len(conflicts), differs.count(NOT_PARSED), tuple(conflicts[:MOST_KEPT]))


def _differences(raws: RawRecords, unlike: Ints, count: int, pipeline: Pipeline) -> list[str]:
    """The names of the columns that differ, of each of these pairs; empty where none does."""
    both = np.concatenate((unlike, unlike + count))
    # Together, so that a column has one type in all of them.
    some = RawRecords(raws.raws.take(pa.array(both)), raws.headers, raws.header_of[both])
    parsed = columns_of(some, pipeline.foreign)
    values = parsed.table.to_pylist() if parsed.table.num_columns else [{}] * len(both)
    pairs = zip(values[: len(unlike)], values[len(unlike) :], strict=True)
    return [
        NOT_PARSED if at in parsed.failures or at + len(unlike) in parsed.failures else _names(*pair)
        for at, pair in enumerate(pairs)
    ]


def _names(one: dict[str, Any], other: dict[str, Any]) -> str:
    names = [name for name in one if one[name] != other[name]]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
