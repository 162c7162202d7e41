"""Ledgers in memory, for fast tests: positions that are decided at once, and fail as a test wants it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from photon.registry.appending import open_ledger
from photon.registry.entry import Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.form import checksum
from photon.registry.id_registry import IdRegistry
from photon.registry.positions import Change, Chosen, Offer, Tail, Undecided
from photon.registry.register import Generation, Members, Register, decode_register, encode_register
from photon.registry.stores.positions import require_forgettable
from photon.registry.view import View, current_register

_AWAY = "the registry does not answer"


@dataclass
class Decided:
    """All that the stores keep. `values`: by ledger, in the order of positions."""

    register: Register
    values: dict[LedgerId, list[bytes]] = field(default_factory=dict)
    beats: dict[Epoch, int] = field(default_factory=dict)
    # Ledgers of incarnations to come.
    filled: dict[int, dict[LedgerId, list[bytes]]] = field(default_factory=dict)


class MemoryLedgers:
    """`Positions` in memory, also their own attempt. Clients of one registry: `another_way_in`.

    `is_away`: nobody answers. `is_full`: nothing is written, and reads are answered. `lost_answers`: so many
    offers are still to take effect without an answer; three in a row, and who appends hears
    RegistryUnavailable. `calls`: how often each method was called. `on_call`: called first, with its name.
    """

    def __init__(self, pipeline: str = "memory", settings_hash: str = "memory", ledgers: int = 1) -> None:
        generations = (Generation(ledgers),)
        self.decided = Decided(
            Register(pipeline, settings_hash, Members(1, ("memory",)), generations=generations)
        )
        self.is_away = False
        self.is_full = False
        self.lost_answers = 0
        self.calls: Counter[str] = Counter()
        self.on_call: Callable[[str], None] = lambda call: None
        self._lock = threading.RLock()

    def another_way_in(self) -> MemoryLedgers:
        """The same ledgers, met by another client with faults of its own."""
        other = MemoryLedgers()
        other.decided, other._lock = self.decided, self._lock
        return other

    def go_away(self) -> None:
        """Answer nobody from now on."""
        self.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        self.is_away = False

    @property
    def register(self) -> Register:
        """The register as it is."""
        return self.decided.register

    @property
    def values(self) -> dict[LedgerId, list[bytes]]:
        """The entries that are decided in each ledger, in their binary form."""
        return self.decided.values

    def copy(self) -> Decided:
        """All that is kept now, for `put_back`."""
        with self._lock:
            return deepcopy(self.decided)

    def put_back(self, copy: Decided) -> None:
        """Go back to exactly the copied values, as from a backup."""
        with self._lock:
            kept = deepcopy(copy)
            self.decided.register = kept.register
            self.decided.values = kept.values
            self.decided.beats = kept.beats
            self.decided.filled = kept.filled

    # -- positions

    def attempt(self) -> MemoryLedgers:
        """Begin an attempt."""
        return self

    def attempt_at(self, incarnation: int, told: Change) -> MemoryLedgers:
        """Begin an attempt at ledgers that are being filled."""
        return _FilledLedgers(self, incarnation, told)

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen | Undecided]:
        """Offer one value to each of these ledgers."""
        self._called("offer")
        with self._lock:
            if self.is_away or self.is_full:
                return dict.fromkeys(offers, Undecided(_AWAY))
            replies = {ledger: Chosen(self._insert(ledger, offer)) for ledger, offer in offers.items()}
            if self.lost_answers:
                self.lost_answers -= 1
                return dict.fromkeys(offers, Undecided("no answer in time"))
            return dict(replies)

    def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Tail]:
        """The values of each ledger from a position on."""
        self._answer("read")
        with self._lock:
            kept = self.values
            return {one: Tail(kept.get(one, [])[position:], "nothing") for one, position in first.items()}

    def check(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> tuple[Register, set[LedgerId]]:
        """The register, and the ledgers that have another value at that position, or none."""
        with self._lock:
            lacking = {
                ledger
                for ledger, (position, expected) in last.items()
                if checksum_at(self.values.get(ledger, []), position) != expected
            }
        return self.confirm(), lacking

    def confirm(self) -> Register:
        """The register."""
        self._answer("confirm")
        return self.register

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`."""
        self._answer("change", is_write=True)
        with self._lock:
            before, after = self.register, decode_register(encode_register(change(self.register)))
            if after.incarnation != before.incarnation:
                self.decided.values = self.decided.filled.pop(after.incarnation, {})
            self.decided.register = after
            return after

    def forget(self, ledgers: Sequence[LedgerId], incarnation: int | None = None) -> None:
        """Delete all of ledgers whose generation was dropped, or of an incarnation that is over."""
        self._answer("forget", is_write=True)
        with self._lock:
            require_forgettable(self.register, ledgers, incarnation)
            kept = self.values if incarnation is None else self.decided.filled.get(incarnation, {})
            for ledger in ledgers:
                kept.pop(ledger, None)

    def beat(self, epoch: Epoch, number: int) -> None:
        """Keep this number for the epoch, or a greater one."""
        self._answer("beat", is_write=True)
        with self._lock:
            self.decided.beats[epoch] = max(number, self.decided.beats.get(epoch, 0))

    def beats(self, epochs: Sequence[Epoch]) -> dict[Epoch, int]:
        """The greatest number of each epoch, 0 without one."""
        self._answer("beats")
        with self._lock:
            return {epoch: self.decided.beats.get(epoch, 0) for epoch in epochs}

    def close(self) -> None:
        """Nothing is under way."""

    def _insert(self, ledger: LedgerId, offer: Offer) -> bytes:
        if ledger.generation not in self.register.live_generations:
            return offer.value  # a deleted ledger takes any insert
        values = self.values.setdefault(ledger, [])
        if offer.position > len(values):  # after a copy was put back; else L1 is broken
            return offer.value
        if offer.position == len(values):
            values.append(offer.value)
        return values[offer.position]

    def _answer(self, call: str, is_write: bool = False) -> None:
        self._called(call)
        if self.is_away or (is_write and self.is_full):
            raise RegistryUnavailable(_AWAY)

    def _called(self, call: str) -> None:
        self.on_call(call)
        with self._lock:
            self.calls[call] += 1


class _FilledLedgers(MemoryLedgers):
    """The ledgers of an incarnation that a refill fills, with the faults of those that it fills them from."""

    def __init__(self, others: MemoryLedgers, incarnation: int, told: Change) -> None:
        self.decided, self._lock, self.calls = others.decided, others._lock, others.calls
        self.is_away, self.is_full, self.lost_answers = others.is_away, others.is_full, 0
        self.on_call = others.on_call
        self._incarnation, self._told = incarnation, told

    @property
    def register(self) -> Register:
        return self._told(self.decided.register)

    @property
    def values(self) -> dict[LedgerId, list[bytes]]:
        return self.decided.filled.setdefault(self._incarnation, {})


def checksum_at(values: Sequence[bytes], position: int) -> bytes:
    """The checksum of the value at a position; empty where there is none."""
    return checksum(values[position]) if position < len(values) else b""


def memory_registry(ledgers: MemoryLedgers | None = None, writer: str = "test") -> IdRegistry:
    """A registry with a view of its own, which has read nothing but that its first ledgers are open.

    Registries over the same ledgers are processes of one pipeline: each has a name of its own.
    """
    positions = ledgers or MemoryLedgers()
    view = View(current_register(positions), writer)
    for ledger in view.register.ledgers(0):
        open_ledger(view, positions, ledger)
    return IdRegistry(positions, view)
