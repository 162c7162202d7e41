"""Where the records of rows are today, whose rows name a place of an earlier epoch, or no primary event.

Each epoch numbers log files anew. A row says at which offset its record begins, and which id it has. So
today's file of an old number is the one that has the ids of its rows at their offsets. Each record's id is
compared all the same when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.logs import Index, store_for_a_look
from photon.event_store.segments import SegmentDamaged
from photon.join.records import occurrence_texts
from photon.logs.files import Side
from photon.upkeep.backfill.records_at import Ints, LogCopy, RecordsAt, are

MOST_READ = 200_000  # lines that are read to find the files of one piece: a second or two for 100,000
ROWS_TRIED = 3  # rows of a file: the records of some may be gone


def todays_numbers(
    epochs: npt.NDArray[np.object_],
    numbers: Ints,
    offsets: Ints,
    ids: pa.Array,
    copy: LogCopy,
    side: Side,
    names: Sequence[str],
) -> Ints:
    """The number of each record's file in this epoch; -1 where no file has such a record.

    `ids`: what the columns `names` of each record say.
    """
    candidates = np.array(sorted(n for n, each in copy.files.items() if each.file.side == side), np.int64)
    found = np.full(len(numbers), -1)
    lines_left = MOST_READ
    for group in _groups(epochs, numbers):
        tried = group[np.unique(np.linspace(0, len(group) - 1, ROWS_TRIED).astype(int))]
        lines_left -= len(tried) * len(candidates)
        if lines_left < 0:
            break
        found[group] = _file_of(tried, offsets, ids, candidates, copy, names)
    return found


def _groups(epochs: npt.NDArray[np.object_], numbers: Ints) -> list[Ints]:
    """The records of one file of one epoch, each."""
    _, epoch_of = np.unique(epochs.astype(str), return_inverse=True)
    _, of = np.unique(np.stack((epoch_of, numbers)), axis=1, return_inverse=True)
    order = np.argsort(of.reshape(-1), kind="stable")
    starts = np.flatnonzero(np.diff(of.reshape(-1)[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _file_of(
    tried: Ints, offsets: Ints, ids: pa.Array, candidates: Ints, copy: LogCopy, names: Sequence[str]
) -> int:
    """The candidate that has most of these records at their offsets; -1 if none has any."""
    numbers, rows = np.repeat(candidates, len(tried)), np.tile(tried, len(candidates))
    (texts,) = RecordsAt.read(numbers, offsets[rows], copy).texts(names)
    hits = are(texts, ids.take(pa.array(rows))).reshape(len(candidates), len(tried)).sum(axis=1)
    return int(candidates[hits.argmax()]) if len(candidates) and hits.any() else -1


def places_of_primaries(keys: pa.Array, copy: LogCopy, index: Index) -> pa.Array:
    """Where the first primary event of each key is, as rows name it; null where none is found."""
    nothing = pa.nulls(len(keys), pa.string())
    wanted = np.flatnonzero(pc.is_valid(keys).to_numpy(zero_copy_only=False))
    files = [one.file for one in copy.files.values() if one.file.side == "primary" and one.state == "open"]
    try:
        with store_for_a_look(copy.folder, copy.log, index, files) as store:  # type: ignore[arg-type]
            found = store.lookup(keys.take(pa.array(wanted)))
    except (SegmentDamaged, OSError):  # a merge has just replaced a segment: the next rebuild finds it
        return nothing
    if not found.events.num_rows:
        return nothing
    columns = (found.events[name].to_numpy() for name in ("_file", "_offset"))
    texts = occurrence_texts(*columns)
    place = np.full(len(keys), -1)
    place[wanted] = found.rows
    return texts.take(pa.array(place, mask=place < 0))
