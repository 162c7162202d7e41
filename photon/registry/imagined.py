"""A registry that is only imagined: a verb's plan runs the verb's own steps on it, and nothing is stored.

Entries that it takes follow on those that a view has read, as if nobody else appended meanwhile. So the plan
tells to the byte what a run would leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from photon.registry.entry import Epoch, LedgerId
from photon.registry.positions import Change, Chosen, Offer, Tail
from photon.registry.register import Register
from photon.registry.view import View


def imagined(view: View) -> tuple[View, ImaginedPositions]:
    """A view that may be changed without changing this one, and positions to append to by it."""
    copied = View(view.register, view.writer)
    copied.states = dict(view.states)
    for generation in view.holds.generations:
        copied.holds.replace(generation, view.holds.runs(generation))
    return copied, ImaginedPositions(view.register)


class ImaginedPositions:
    """`Positions` that are also their own attempt. Only the view that appends to them has their entries."""

    def __init__(self, register: Register) -> None:
        self._register = register

    def attempt(self) -> ImaginedPositions:
        """Begin an attempt."""
        return self

    def attempt_at(self, incarnation: int, told: Change) -> ImaginedPositions:
        """Begin an attempt at ledgers that are being filled."""
        return ImaginedPositions(told(self._register))

    def offer(self, offers: Mapping[LedgerId, Offer]) -> Mapping[LedgerId, Chosen]:
        """Every offer is chosen."""
        return {ledger: Chosen(one.value) for ledger, one in offers.items()}

    def read(self, first: Mapping[LedgerId, int]) -> Mapping[LedgerId, Tail]:
        """Nothing is behind what the view has."""
        return {ledger: Tail((), "nothing") for ledger in first}

    def confirm(self) -> Register:
        """The register."""
        return self._register

    def check(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> tuple[Register, set[LedgerId]]:
        """The register; every entry is still there."""
        return self._register, set()

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`."""
        self._register = change(self._register)
        return self._register

    def forget(self, ledgers: Sequence[LedgerId], incarnation: int | None = None) -> None:
        """Nothing is kept."""

    def beat(self, epoch: Epoch, number: int) -> None:
        """Nobody asks for it."""

    def beats(self, epochs: Sequence[Epoch]) -> Mapping[Epoch, int]:
        """Nobody has given a sign of life."""
        return dict.fromkeys(epochs, 0)
