"""Find where records lie today, if a row's place is of an earlier epoch or its primary is not there.

Each epoch numbers log files anew, but a row still tells the offset, id and time of its record. So the file of
an old number is today's file that has these records at their offsets. Ids alone do not tell: where they are
used again, as after a reboot, two files may have the same ids there. An id is compared again when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.interface import Around
from photon.event_store.logs import Index, store_for_a_look
from photon.event_store.segments import SegmentDamaged
from photon.join.records import occurrence_texts
from photon.logs.files import Side
from photon.logs.formats.times import parse_event_times, style_of, time_texts
from photon.upkeep.backfill.records_at import Ints, LogCopy, Mask, RecordsAt, are

# Lines that are read to find a piece's files, and those of one file more: a second or two for 100,000.
MOST_READ = 1_000_000
NOT_LOOKED_FOR = -2  # in place of a file's number
ROWS_TRIED = 3  # of each file: the records of some may be gone


@dataclass(frozen=True)
class KnownRecords:
    """Records, as rows tell them: the columns of the id, ids and times; null: not known."""

    id_names: Sequence[str]
    ids: pa.Array
    times_us: pa.Array

    def are(self, found: RecordsAt, rows: Ints) -> Mask:
        """Whether each record that was found is that of its row; `rows`: the row's number for each record."""
        ids, *times = found.texts(self.id_names, *([name] for name in found.log.time))
        times_us = parse_event_times(time_texts(times), style_of(found.log))
        expected_us = self.times_us.take(pa.array(rows))
        is_known: Mask = pc.is_valid(expected_us).to_numpy(zero_copy_only=False)
        return are(ids, self.ids.take(pa.array(rows))) & (are(times_us, expected_us) | ~is_known)


def todays_numbers(
    epochs: npt.NDArray[np.object_],
    numbers: Ints,
    offsets: Ints,
    records: KnownRecords,
    copy: LogCopy,
    side: Side,
) -> Ints:
    """The number of each record's file in this epoch; -1: none or several have it.

    The files of most records come first. NOT_LOOKED_FOR: those of the others took too much to read.
    """
    candidates = np.array(sorted(n for n, each in copy.files.items() if each.file.side == side), np.int64)
    found = np.full(len(numbers), NOT_LOOKED_FOR)
    lines_left = MOST_READ
    for group in sorted(_groups(epochs, numbers), key=len, reverse=True):
        if lines_left <= 0:
            break
        tried = group[np.unique(np.linspace(0, len(group) - 1, ROWS_TRIED).astype(int))]
        lines_left -= len(tried) * len(candidates)
        found[group] = _file_of(tried, offsets, records, candidates, copy)
    return found


def _groups(epochs: npt.NDArray[np.object_], numbers: Ints) -> list[Ints]:
    """Group the numbers of records by epoch and file: one array for each file of each epoch."""
    _, epoch_of = np.unique(epochs.astype(str), return_inverse=True)
    _, group_of = np.unique(np.stack((epoch_of, numbers)), axis=1, return_inverse=True)
    order = np.argsort(group_of.reshape(-1), kind="stable")
    starts = np.flatnonzero(np.diff(group_of.reshape(-1)[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _file_of(tried: Ints, offsets: Ints, records: KnownRecords, candidates: Ints, copy: LogCopy) -> int:
    """The candidate that has most of these records at their offsets; -1 if none has any, or two lead."""
    numbers, rows = np.repeat(candidates, len(tried)), np.tile(tried, len(candidates))
    is_match = records.are(RecordsAt.read(numbers, offsets[rows], copy), rows)
    hits = is_match.reshape(len(candidates), len(tried)).sum(axis=1)
    most = np.flatnonzero(hits == hits.max(initial=1))
    return int(candidates[most[0]]) if len(most) == 1 else -1


def places_of_primaries(keys: pa.Array, times_us: pa.Array, copy: LogCopy, index: Index) -> pa.Array:
    """The occurrence of the primary event that has each key at exactly this time.

    Null if there is none, or several of different content: the row keeps the primary that it names (F14).
    """
    nothing = pa.nulls(len(keys), pa.string())
    is_known = pc.and_(pc.is_valid(keys), pc.is_valid(times_us))
    wanted = np.flatnonzero(is_known.to_numpy(zero_copy_only=False))
    some = pa.array(wanted)
    exactly_us = times_us.take(some).cast(pa.int64()).to_numpy()
    files = [one.file for one in copy.files.values() if one.file.side == "primary" and one.state == "open"]
    try:
        with store_for_a_look(copy.folder, copy.log, index, files) as store:  # type: ignore[arg-type]
            found = store.lookup(keys.take(some), Around(exactly_us, exactly_us, exactly_us))
    except (SegmentDamaged, OSError):  # a merge has just replaced a segment: the next rebuild finds the event
        return nothing
    if not found.events.num_rows:
        return nothing
    columns = (found.events[name].to_numpy() for name in ("_file", "_offset"))
    texts = occurrence_texts(*columns)
    place = np.full(len(keys), -1)
    place[wanted] = np.where(found.is_ambiguous, -1, found.rows)
    return texts.take(pa.array(place, mask=place < 0))
