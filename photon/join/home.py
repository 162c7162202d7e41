"""The home datacenter of an event, which takes it up first (docs/adr/0009): that of its ledger.

It only saves work done twice, and keeps datacenters from appending to the same ledger.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from photon.registry.entry import Hashes, Mask, ledger_numbers
from photon.registry.hashing import hashes_of_texts
from photon.registry.register import Register

NOBODYS = ""


def at_home(hashes: Hashes, register: Register, among: frozenset[str]) -> Mask:
    """Whether the home of each id is one of these datacenters."""
    homes, of_id = _homes(hashes, register)
    is_there: Mask = np.array([home in among for home in homes], bool)[of_id]
    return is_there


def count_by_home(hashes: Hashes, register: Register) -> Counter[str]:
    """How many of the ids each datacenter is the home of."""
    homes, of_id = _homes(hashes, register)
    counts: Counter[str] = Counter()
    for home, count in zip(homes, np.bincount(of_id, minlength=len(homes)).tolist(), strict=True):
        counts[home] += count
    del counts[NOBODYS]
    return +counts


def home_of(event_id: str, register: Register) -> str:
    """The home datacenter of one event; NOBODYS if it has none."""
    homes, of_id = _homes(hashes_of_texts([event_id]), register)
    return homes[int(of_id[0])]


def _homes(hashes: Hashes, register: Register) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The homes of the newest ledgers, and for each id the place of its own among them."""
    newest = register.generations[-1]
    return newest.homes or (NOBODYS,) * newest.ledgers, ledger_numbers(hashes, newest.ledgers)
