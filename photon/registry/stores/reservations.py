"""A client's reservations: which next positions it has reserved, and in which ledgers others outrun it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence

from photon.registry.stores.asking import ActiveStores
from photon.registry.stores.copies import Key
from photon.registry.stores.rounds import Contender, Reserved

OUTRUN_TIMES = 2  # in a row; once is chance


class Reservations:
    """A client's offers so far, as far as they decide how it makes its next ones, by ledger. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reserved: dict[str, Reserved] = {}
        self._outrun: defaultdict[str, int] = defaultdict(int)  # how often; a success takes one away

    def contender(self, key: Key, value: bytes, proposer: str, active: ActiveStores) -> Contender:
        """An offer under these members. What was reserved is used once: a ballot has one value."""
        with self._lock:
            reserved = self._reserved.pop(key.ledger, None)
            is_outrun = self._outrun[key.ledger] >= OUTRUN_TIMES
        if reserved is not None and (reserved.key != key or reserved.active is not active):
            reserved = None
        return Contender(key, value, proposer, reserved, is_outrun)

    def keep(self, reserved: Sequence[Reserved]) -> None:
        """Use these for the next offers: a check has confirmed that they count (B11)."""
        with self._lock:
            self._reserved.update((one.key.ledger, one) for one in reserved)

    def ended(self, ledger: str, is_own: bool) -> None:
        """Take note of whether the value that was chosen is the own one."""
        with self._lock:
            by = -1 if is_own else 1
            self._outrun[ledger] = min(max(0, self._outrun[ledger] + by), OUTRUN_TIMES)
