"""Which ids a view has, all of them: to count them, and to free those of a datacenter whose lake is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from photon.registry.entry import Hashes, LedgerId, Mask
from photon.registry.holds import FREED, Holds, Run
from photon.registry.view import View


def ids_by_ledger(holds: Holds) -> Counter[LedgerId]:
    """How many ids are held in each ledger, by the claims that hold them."""
    counts: Counter[LedgerId] = Counter()
    for generation, run, held in _held(holds):
        numbers, found = np.unique(run.numbers[held], return_counts=True)
        for number, count in zip(numbers.tolist(), found.tolist(), strict=True):
            counts[LedgerId(generation, number)] += count
    return counts


def ids_of(view: View, datacenter: str) -> Iterator[Hashes]:
    """The ids that a datacenter's claims hold, part by part."""
    for generation, run, held in _held(view.holds):
        for number in np.unique(run.numbers[held]).tolist():
            claims = view.claimants.items(LedgerId(generation, number))
            own = [position for position, one in claims if one.epoch.datacenter == datacenter]
            mask = held & (run.numbers == number) & np.isin(run.positions, np.array(own, np.uint32))
            if mask.any():
                yield np.stack((run.upper[mask], run.lower[mask]), axis=1)


def _held(holds: Holds) -> Iterator[tuple[int, Run, Mask]]:
    """Each run, newest first, and which of its ids are held as it says: no newer run says otherwise."""
    newer: list[Run] = []
    for generation in reversed(holds.generations):
        for run in reversed(holds.runs(generation)):
            held: Mask = run.positions != FREED
            for other in newer:
                hidden = run.find_halves(other.upper, other.lower)
                held[hidden[hidden >= 0]] = False
            yield generation, run, held
            newer.append(run)
