"""Primary events looked up by their keys again, for rows whose `_primary_occurrence` names none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.event_store.logs import Index, store_for_a_look
from photon.event_store.segments import SegmentDamaged
from photon.join.records import occurrence_texts
from photon.upkeep.backfill.records_at import LogCopy


def occurrences_of(keys: pa.Array, copy: LogCopy, index: Index) -> pa.Array:
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
