"""Turns at appending: a driver far from the stores loses each position to one that is near them.

Two round trips pass between its look at the end of a ledger and the arrival of its next offer (L1, L8). Who
appends more often than that takes all positions. So a driver that has lost some in a row asks for a turn. The
drivers of other datacenters hear of it with their next sign of life, and claim nothing for a moment.

It is advice, and no rule rests on it. A driver that asks and dies has cost each other one a moment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

from photon.process.clock import Clock
from photon.registry.entry import Epoch
from photon.registry.errors import RegistryUnavailable
from photon.registry.positions import Appending
from photon.registry.register import Register

log = logging.getLogger(__name__)

# Some entries of a driver at 300 ms, one way or the other, of the stores: each takes it three round trips.
TURN_SECONDS = 2.0


class Turns:
    """Turns of one process. `look` may be called in a thread beside the one that claims."""

    def __init__(self, positions: Appending) -> None:
        self._positions = positions
        self._seen: dict[Epoch, int] = {}
        self._is_asked = False

    def look(self, datacenter: str, register: Register) -> None:
        """See whether another datacenter has asked since the last look; later, where no store answers."""
        others = sorted(register.epochs.keys() - {datacenter, *register.given_up})
        asked: Mapping[Epoch, int] = {}
        with suppress(RegistryUnavailable):
            asked = self._positions.beats([_asked_by(name) for name in others]) if others else {}
        if any(number > self._seen.get(one, number) for one, number in asked.items()):
            self._is_asked = True
        self._seen |= asked

    def give(self, clock: Clock) -> None:
        """Wait a moment before the next claim, if another datacenter has asked for a turn."""
        if self._is_asked:
            self._is_asked = False
            log.debug("another datacenter claims first: it was outrun again and again")
            clock.sleep(TURN_SECONDS)


def ask_for_turn(positions: Appending, datacenter: str) -> None:
    """Ask for a turn; the next loss asks again where the stores do not answer."""
    own = _asked_by(datacenter)
    with suppress(RegistryUnavailable):
        positions.beat(own, positions.beats([own])[own] + 1)


def _asked_by(datacenter: str) -> Epoch:
    """Where it counts how often it has asked: beside the signs of life. No epoch has this number."""
    return Epoch(datacenter, 0)
