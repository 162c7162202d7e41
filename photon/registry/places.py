"""Where the records lie by which plans hold ids that are not closed yet.

Of two records of one event in a plan, the one at that place joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.registry.entry import NO_HASHES, Hashes, LedgerId
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.holds import Refs, Run

NO_PLACE = -1
OF_NONE = -1  # instead of the number of an id's claims


class Places(NamedTuple):
    """By id the place of the record, NO_PLACE where it is not known, as columns."""

    files: npt.NDArray[np.int64]
    offsets_bytes: npt.NDArray[np.int64]


def no_places(length: int) -> Places:
    """Columns of so many ids, with no place known."""
    return Places(np.full(length, NO_PLACE, np.int64), np.full(length, NO_PLACE, np.int64))


def places_of(hashes: Hashes, refs: Refs, unclosed: Iterable[tuple[ClaimsAt, Unclosed]]) -> Places:
    """Where the records lie that hold these ids, as far as their claims are among what is unclosed.

    A ledger and its children may have parts of the same claims.
    """
    kept = [(at, one) for at, one in unclosed if len(one)]
    places = no_places(len(hashes))
    numbers = {at: number for number, at in enumerate(sorted({at for at, _ in kept}))}
    of_ids = numbers_of(refs, numbers)
    wanted = np.flatnonzero(of_ids != OF_NONE)
    if not len(wanted):
        return places
    known = np.concatenate([NO_HASHES, *(one.hashes for _, one in kept)])
    of_known = np.concatenate([np.full(len(one), numbers[at]) for at, one in kept])
    rows = _rows_of(hashes[wanted], of_ids[wanted], known, of_known)
    is_there = rows >= 0
    wanted, rows = wanted[is_there], rows[is_there]
    places.files[wanted] = np.concatenate([one.files for _, one in kept])[rows]
    places.offsets_bytes[wanted] = np.concatenate([one.offsets_bytes for _, one in kept])[rows]
    return places


def numbers_of(refs: Refs, numbers: Mapping[ClaimsAt, int]) -> npt.NDArray[np.int64]:
    """For each id the number of the claims that hold it, OF_NONE if they have none. Claims come in order."""
    found = np.full(len(refs.generations), OF_NONE, np.int64)
    of_ledger: dict[LedgerId, list[tuple[int, int]]] = {}
    for (ledger, position), number in numbers.items():  # ascending
        of_ledger.setdefault(ledger, []).append((position, number))
    for ledger, pairs in of_ledger.items():
        positions, own_numbers = np.array(pairs, np.int64).T
        own = np.flatnonzero(refs.are_in(ledger))
        rows = np.minimum(np.searchsorted(positions, refs.positions[own]), len(positions) - 1)
        is_among = positions[rows] == refs.positions[own]
        found[own[is_among]] = own_numbers[rows[is_among]]
    return found


def _rows_of(
    hashes: Hashes, of_ids: npt.NDArray[np.int64], known: Hashes, of_known: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each id its row among the known ones of the same claims, or -1."""
    order = np.argsort(np.ascontiguousarray(known[:, 0]))
    length = len(known)
    run = Run(known[order, 0], known[order, 1], np.zeros(length, np.uint16), np.zeros(length, np.uint32))
    indices = run.find(hashes)
    rows = np.where(indices >= 0, order[indices], -1)
    # A sealed ledger may know of claims of an id that others hold by now: seldom, so one by one.
    for one in np.flatnonzero((rows >= 0) & (of_known[rows] != of_ids)).tolist():
        same = (known == hashes[one]).all(axis=1) & (of_known == of_ids[one])
        rows[one] = int(same.argmax()) if same.any() else -1
    return rows
