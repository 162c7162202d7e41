"""The home datacenter of an event, which takes it up first (docs/adr/0009). It only saves work done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.event_store.hashing import hash_ids

# The primary index uses the hash itself; the home of an event should not go with the place of its primary.
_HOME = np.uint64(0x9E3779B97F4A7C15)


def at_home(ids: pa.Array, datacenters: Sequence[str], among: frozenset[str]) -> npt.NDArray[np.bool_]:
    """Whether the home of each id is one of `among`, whatever the order of all `datacenters`."""
    names = sorted(datacenters)
    is_there: npt.NDArray[np.bool_] = np.array([name in among for name in names], bool)[_homes(ids, names)]
    return is_there


def count_by_home(ids: pa.Array, datacenters: Sequence[str]) -> Counter[str]:
    """How many of the ids each datacenter is the home of."""
    names = sorted(datacenters)
    counts = np.bincount(_homes(ids, names).astype(np.int64), minlength=len(names))
    return Counter(dict(zip(names, counts.tolist(), strict=True)))


def _homes(ids: pa.Array, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """The place of each id's home among sorted names."""
    homes: npt.NDArray[np.uint64] = ((hash_ids(ids) * _HOME) >> np.uint64(32)) % np.uint64(len(names))
    return homes


def home_of(event_id: str, datacenters: Sequence[str]) -> str:
    """The home datacenter of one event."""
    ids = pa.array([event_id], pa.string())
    return next(name for name in datacenters if at_home(ids, datacenters, frozenset({name}))[0])
