"""Where the records lie by which plans hold ids that are not closed yet.

Of two records of one event in a plan, the one at that place joins it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.ledger.entry import NO_HASHES, Hashes
from photon.ledger.fold import Unclosed
from photon.ledger.holds import Run

NO_PLACE = -1


class Places(NamedTuple):
    """By id the place of the record, NO_PLACE where it is not known, as columns."""

    files: npt.NDArray[np.int64]
    offsets_bytes: npt.NDArray[np.int64]


def no_places(length: int) -> Places:
    """Columns of so many ids, with no place known."""
    return Places(np.full(length, NO_PLACE, np.int64), np.full(length, NO_PLACE, np.int64))


def places_of(hashes: Hashes, unclosed: Iterable[Unclosed]) -> Places:
    """Where the records of these ids lie, as far as they are among what is unclosed."""
    kept = [one for one in unclosed if len(one)]
    places = no_places(len(hashes))
    if not kept or not len(hashes):
        return places
    known = np.concatenate([NO_HASHES, *(one.hashes for one in kept)])
    order = np.argsort(known[:, 0], kind="stable")
    length = len(known)
    run = Run(known[order, 0], known[order, 1], np.zeros(length, np.uint16), np.zeros(length, np.uint32))
    indices = run.find(hashes)
    there = indices >= 0
    rows = order[indices[there]]
    places.files[there] = np.concatenate([one.files for one in kept])[rows]
    places.offsets_bytes[there] = np.concatenate([one.offsets_bytes for one in kept])[rows]
    return places
