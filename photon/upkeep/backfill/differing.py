"""Which rows differ from the rows that are to take their places."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.upkeep.backfill.records_at import Mask


def differs(old: pa.Table, new: pa.Table) -> Mask:
    """Which rows differ. A column that one of them lacks is null in it."""
    found = np.zeros(old.num_rows, bool)
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        if name not in new.column_names or name not in old.column_names:
            only = (old if name in old.column_names else new)[name]
            found |= pc.is_valid(only).to_numpy(zero_copy_only=False)
        elif not old[name].equals(new[name]):
            found |= _values_differ(old[name].combine_chunks(), new[name].combine_chunks())
    return found


def _values_differ(old: pa.Array, new: pa.Array) -> Mask:
    if pa.types.is_nested(old.type) or old.type != new.type:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.array([a != b for a, b in pairs], bool)
    unlike = pc.xor(pc.is_null(old), pc.is_null(new))
    if pa.types.is_floating(old.type):  # NaN is as good as NaN
        both = pc.and_(pc.fill_null(pc.is_nan(old), False), pc.fill_null(pc.is_nan(new), False))
        unequal = pc.and_not(pc.fill_null(pc.not_equal(old, new), False), both)
    else:
        unequal = pc.fill_null(pc.not_equal(old, new), False)
    mask: Mask = pc.or_(unlike, unequal).to_numpy(zero_copy_only=False)
    return mask
