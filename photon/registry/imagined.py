"""A registry that is only imagined: the plan of a verb (`photon.upkeep`) runs the verb's own steps on it.

Nothing is stored. The verb's entries follow those that a view has read, as if nobody else appended meanwhile:
so the plan tells to the byte what a run would leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from photon.registry.entry import Epoch, LedgerId
from photon.registry.positions import Change, Chosen, Offer, Tail
from photon.registry.register import Register
from photon.registry.view import View


def imagined(view: View) -> tuple[View, ImaginedPositions]:
    """Copy a view, and make positions that take its entries: changes of both leave the view as it is."""
    copied = View(view.register, view.writer)
    copied.states = dict(view.states)
    for generation in view.holds.generations:
        copied.holds.replace(generation, view.holds.runs(generation))
    return copied, ImaginedPositions(view.register)


class ImaginedPositions:
    """`Positions` that are also their own attempt. They keep no entry: the view that appends has them."""

    def __init__(self, register: Register) -> None:
        self._register = register

    def attempt(self) -> ImaginedPositions:
        """Begin an attempt."""
        return self

    def attempt_at(self, incarnation: int, told: Change) -> ImaginedPositions:
        """Begin an attempt at ledgers that are being filled."""
        return ImaginedPositions(told(self._register))

    def offer(self, offers: Mapping[LedgerId, Offer]) -> Mapping[LedgerId, Chosen]:
        """Choose every offer."""
        return {ledger: Chosen(one.value) for ledger, one in offers.items()}

    def read(self, first: Mapping[LedgerId, int]) -> Mapping[LedgerId, Tail]:
        """Say that nothing is behind the entries of the view."""
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
        """Delete nothing, for nothing is kept."""

    def beat(self, epoch: Epoch, number: int) -> None:
        """Keep nothing: nobody asks for it."""

    def beats(self, epochs: Sequence[Epoch]) -> Mapping[Epoch, int]:
        """Nobody has given a sign of life."""
        return dict.fromkeys(epochs, 0)
