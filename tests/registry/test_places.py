"""Places of records that hold ids: those of the claims that hold each id now, and of no others."""

from __future__ import annotations

import numpy as np

from photon.registry.entry import Claimant, LedgerId
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.holds import NOBODY, Refs
from photon.registry.view import places_of
from tests.registry.in_memory import EAST, hashes_of

LEFT, RIGHT = LedgerId(0, 0), LedgerId(1, 3)


def unclosed(*ids: int, file: int) -> Unclosed:
    length = len(ids)
    offsets_bytes = np.arange(length, dtype=np.int64) * 10
    return Unclosed(Claimant(EAST, 1, "p"), hashes_of(*ids), np.full(length, file, np.uint32), offsets_bytes)


def refs_of(*claims: ClaimsAt | None) -> Refs:
    """Refer to the claims that hold each id; None: nobody holds it."""
    some = [(NOBODY, 0, 0) if one is None else (*one[0], one[1]) for one in claims]
    generations, numbers, positions = zip(*some, strict=True)
    return Refs(np.array(generations, np.int32), np.array(numbers, np.uint16), np.array(positions, np.uint32))


def test_what_nobody_holds_or_is_closed_has_no_place() -> None:
    claims = [((LEFT, 2), unclosed(1, file=5))]
    places = places_of(hashes_of(1, 1, 2, 1), refs_of(None, (LEFT, 1), (LEFT, 2), (RIGHT, 2)), claims)
    assert places.files.tolist() == [-1] * 4
    assert places_of(hashes_of(1), refs_of((LEFT, 2)), []).files.tolist() == [-1]


def test_claims_that_held_the_id_before_others_are_not_taken_for_these() -> None:
    claims = [((LEFT, 2), unclosed(1, 2, file=5)), ((LEFT, 7), unclosed(2, 1, file=6))]
    for at, files in (((LEFT, 2), [5, 5]), ((LEFT, 7), [6, 6])):
        assert places_of(hashes_of(1, 2), refs_of(at, at), claims).files.tolist() == files
        assert places_of(hashes_of(1, 2), refs_of(at, at), claims[::-1]).files.tolist() == files
