"""Positions of ledgers as the rest of the registry needs them: write-once values, and a check.

Values are bytes here (`photon.registry.form`). `photon.registry.stores` keeps them in its stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from photon.registry.entry import Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.register import Register

Change = Callable[[Register], Register]
# How a read ended. `more`: positions behind its values may be decided. `nothing`: a majority has no value at
# the next position. `undecided`: the copies there prove nothing, and the next offer settles it.
Ending = Literal["more", "nothing", "undecided"]


class Unconfirmed(Exception):
    """The members moved, or the registry was made anew: forget what the attempt brought (L8)."""


class EntryLost(RegistryUnavailable):
    """All stores answer, and none has the right copy of a position that is decided.

    The ledger may have been dropped. If not, a copy of the registry was put back, and an entry that was on
    its way arrived behind the gap (L10).
    """


@dataclass(frozen=True, slots=True)
class Offer:
    """A value for the first position that is not decided, as far as its writer has read."""

    position: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of the offer's position: byte by byte the one that was offered, or another writer's."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Undecided:
    """No answer in time: the offered value may be chosen, now or later. Reading on settles it (L2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The decided values from a position on, in order, and how they ended."""

    values: Sequence[bytes]
    ending: Ending


class Attempt(Protocol):
    """All that is asked of the stores between two checks, under the same members.

    Nothing that it brings counts before `confirm` has returned: no view folds it, and nobody offers behind
    it (L1).
    """

    def offer(self, offers: Mapping[LedgerId, Offer]) -> Mapping[LedgerId, Chosen | Undecided]:
        """Offer one value to each of these ledgers, in parallel. Never raises for a store that is silent."""
        ...

    def read(self, first: Mapping[LedgerId, int]) -> Mapping[LedgerId, Tail]:
        """The decided values of each ledger from position `first` on, or the first ones of many.

        It never prepares a ballot, so that reading writes nothing. RegistryUnavailable if too few answer;
        EntryLost.
        """
        ...

    def confirm(self) -> Register:
        """Read the register at a majority, after all replies so far: these count from now on (L8).

        Unconfirmed, or RegistryUnavailable.
        """
        ...

    def check(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> tuple[Register, set[LedgerId]]:
        """As `confirm`; and name the ledgers that lack the value with this checksum at this position.

        No majority has it there: a copy of the registry was put back, or the ledger was dropped.
        """
        ...


class Appending(Protocol):
    """The ledgers of one incarnation: what reading and appending need. An attempt belongs to one thread."""

    def attempt(self) -> Attempt:
        """Begin an attempt."""
        ...

    def beat(self, epoch: Epoch, number: int) -> None:
        """Have a majority keep this number for the epoch, or a greater one. RegistryUnavailable."""
        ...

    def beats(self, epochs: Sequence[Epoch]) -> Mapping[Epoch, int]:
        """The greatest number of each epoch that a majority has, 0 without one. RegistryUnavailable."""
        ...


class Positions(Appending, Protocol):
    """All ledgers of a registry. Thread-safe."""

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`, which may be called again; the register after it.

        RegistryUnavailable: it may have taken effect or not.
        """
        ...

    def forget(self, ledgers: Sequence[LedgerId], incarnation: int | None = None) -> None:
        """Delete all items of ledgers whose generation the register calls dropped (L12).

        With an `incarnation`: all items that it has of them, if the register has gone beyond it.
        """
        ...

    def attempt_at(self, incarnation: int, told: Change) -> Attempt:
        """Begin an attempt at the ledgers of an incarnation that is being filled.

        It is confirmed by what `told` makes of the register that is read (`photon.registry.refilling`).
        """
        ...
