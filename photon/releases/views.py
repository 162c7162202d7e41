"""Side tables as readers want them: each event once, and none that has been joined or looked at again.

Every datacenter gives up events of its own copy of the logs, and a new epoch reads all of them again: so one
event may have several rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def unjoined_of(rows: pa.Table, joined_ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The first row of each event without a joined row: by time, datacenter, epoch, batch and occurrence."""
    order = (rows["event_time"], rows["_datacenter"], _epochs(rows), rows["_batch"], rows["_occurrence"])
    found = rows.take(_first_of_each(rows["event_id"], order))
    return found.filter(pc.invert(pc.is_in(found["event_id"], value_set=_values(joined_ids))))


def dead_letters_of(rows: pa.Table, mended: pa.Table, joined_ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The newest letter of each event, or of each place in a log where it is no event.

    Without those that were looked at again since (`mended`: `_epoch`, `_batch`, `_occurrence`), and without
    foreign ones whose event has a joined row.
    """
    order = (_negative(_epochs(rows)), _negative(rows["_batch"]), rows["_occurrence"])
    found = rows.take(_first_of_each(letter_keys(rows), order))
    latest = mended.group_by(["_epoch", "_occurrence"]).aggregate([("_batch", "max")])
    found = found.append_column("_mended", _looked_up(found, latest))
    is_again = pc.fill_null(pc.less_equal(found["_batch"], found["_mended"]), False)
    is_joined = pc.and_(
        pc.equal(found["side"], "foreign"), pc.is_in(found["event_id"], value_set=_values(joined_ids))
    )
    return found.filter(pc.invert(pc.or_(is_again, is_joined))).drop_columns(["_mended"])


def letter_keys(rows: pa.Table) -> pa.ChunkedArray:
    """The key of each letter: its side and event, else its side, path and offset."""
    offset = pc.replace_substring_regex(rows["_occurrence"], "^[^:]*:", "")
    place = pc.binary_join_element_wise(
        rows["path"], offset, ":", null_handling="replace", null_replacement=""
    )
    is_event = pc.if_else(pc.is_valid(rows["event_id"]), "event", "place")
    of = pc.coalesce(rows["event_id"], place)
    return pc.binary_join_element_wise(rows["side"], is_event, of, " ")


def _first_of_each(
    keys: pa.ChunkedArray, order: Sequence[pa.ChunkedArray | pa.Array]
) -> npt.NDArray[np.int64]:
    """The row of each key that is the first one in this order, nulls last; rows ascend."""
    names = [str(number) for number in range(len(order))]
    by = pc.sort_indices(pa.table(list(order), names), [(name, "ascending") for name in names]).to_numpy()
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes[by], return_index=True)
    return np.sort(by[first]).astype(np.int64)


def _looked_up(letters: pa.Table, latest: pa.Table) -> pa.Array:
    """The last batch before which each letter was taken up again; null: never."""
    columns = (latest[name].to_pylist() for name in ("_epoch", "_occurrence", "_batch_max"))
    found = {(epoch, occurrence): batch for epoch, occurrence, batch in zip(*columns, strict=True)}
    places = zip(letters["_epoch"].to_pylist(), letters["_occurrence"].to_pylist(), strict=True)
    return pa.array([found.get(place) for place in places] if found else [None] * len(letters), pa.int64())


def _epochs(rows: pa.Table) -> pa.ChunkedArray:
    return rows["_epoch"].cast(pa.int64())


def _negative(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.negate(numbers)


def _values(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    return ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
