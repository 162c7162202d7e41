"""Claims as their entries have them: the time and place of each, and who else wanted the same id.

A view knows which entry's claims hold an id. For the rest the entry is read again; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from photon.registry.entry import NO_TIME_US, Claimant, Claims, Hashes, LedgerId
from photon.registry.fold import ClaimsAt
from photon.registry.form import decode
from photon.registry.id_registry import IdRegistry
from photon.storage.tokens import Occurrence


@dataclass(frozen=True, slots=True)
class ClaimOrigin:
    """One claim of an id: whose, where its entry is, when the event was, and which record would join."""

    claimant: Claimant
    ledger: LedgerId
    position: int
    time_us: int | None
    occurrence: Occurrence


def origins_of(registry: IdRegistry, hashes: Hashes) -> list[ClaimOrigin | None]:
    """The claim that holds each id; None where nobody does. Each entry is read once. RegistryUnavailable."""
    refs = registry.holders(hashes).refs
    found: list[ClaimOrigin | None] = [None] * len(hashes)
    for ledger in refs.ledgers():
        positions = np.unique(refs.positions[refs.are_in(ledger)])
        for at, claims in _claims_at(registry, ledger, positions.tolist()):
            for index in np.flatnonzero(refs.are(*at)).tolist():
                found[index] = _origin(at, claims, hashes[index : index + 1])
    return found


def claims_behind(registry: IdRegistry, at: ClaimsAt, one: Hashes, most_entries: int) -> list[ClaimOrigin]:
    """Claims of one id behind those at a position, in that ledger: they came too late. RegistryUnavailable.

    Of so many entries at most.
    """
    ledger, position = at
    end = min(position + 1 + most_entries, registry.view.states[ledger].next_position)
    behind = _claims_at(registry, ledger, list(range(position + 1, end)))
    found = (_origin(each, claims, one) for each, claims in behind)
    return [origin for origin in found if origin is not None]


def _claims_at(
    registry: IdRegistry, ledger: LedgerId, positions: list[int]
) -> Iterator[tuple[ClaimsAt, Claims]]:
    """The claims in the entries at these positions, which ascend; not of what was dropped by now."""
    attempt = registry.positions.attempt()
    while positions:
        first = positions[0]
        values = attempt.read({ledger: first})[ledger].values
        for position in [position for position in positions if position < first + len(values)]:
            entry = decode(values[position - first], f"position {position} of ledger {ledger}")
            if entry.claims is not None:
                yield (ledger, position), entry.claims
        positions = [position for position in positions if position >= first + len(values)] if values else []


def _origin(at: ClaimsAt, claims: Claims, one: Hashes) -> ClaimOrigin | None:
    """The first claim of an id; None: it is not there."""
    places = np.flatnonzero((claims.hashes == one).all(axis=1))
    if not len(places):
        return None
    place, time_us = places[0], int(claims.times_us[places[0]])
    occurrence = Occurrence(int(claims.files[place]), int(claims.offsets_bytes[place]))
    return ClaimOrigin(claims.claimant, *at, None if time_us == NO_TIME_US else time_us, occurrence)
