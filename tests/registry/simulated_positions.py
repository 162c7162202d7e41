"""Positions of ledgers as a seed wants them: answers are lost, inserts are late, members move, stores forget.

Values are the product's own bytes. All that happens to them happens at once, between two stops of a process;
what lies between a request and its answer is as much of the seed as is the request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from photon.registry.entry import Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.form import checksum
from photon.registry.positions import Change, Chosen, Offer, Tail, Unconfirmed, Undecided
from photon.registry.register import Generation, Members, Register, decode_register, encode_register

Pause = Callable[[], None]
NEVER: Pause = lambda: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the way to the stores is: chances for one request."""

    late: float = 0.06  # an insert is not answered, and takes effect at any time or never
    unheard: float = 0.06  # an insert takes effect, and is not answered
    silent: float = 0.01  # too few stores answer
    unconfirmed: float = 0.01  # the members have moved, and moved again
    in_part: float = 0.3  # a read brings some of the entries only


CALM = Weather(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class Stores:
    """Positions as decided. `late`: inserts on their way; `late_changes`: pairs of registers on their way."""

    register: Register
    chance: random.Random
    weather: Weather = field(default_factory=Weather)
    entries: dict[LedgerId, dict[int, bytes]] = field(default_factory=dict)
    beats: dict[Epoch, int] = field(default_factory=dict)
    late: list[tuple[LedgerId, Offer]] = field(default_factory=list)
    late_changes: list[tuple[Register, Register]] = field(default_factory=list)

    def insert(self, ledger: LedgerId, offer: Offer) -> bytes:
        """Return the position's value: the first that came. A deleted position is free again."""
        entries = self.entries.setdefault(ledger, {})
        if not self.register.generations[ledger.generation].is_dropped:
            assert offer.position <= len(entries), f"L1: a gap before {offer.position} of {ledger}"
        return entries.setdefault(offer.position, offer.value)

    def land(self) -> None:
        """Let one of the late requests take effect."""
        if self.late:
            ledger, offer = self.late.pop(self.chance.randrange(len(self.late)))
            self.insert(ledger, offer)
        elif self.late_changes:
            before, after = self.late_changes.pop(self.chance.randrange(len(self.late_changes)))
            if self.register == before:
                self.register = after

    def move_members(self) -> None:
        """Replace a store by another one."""
        members = replace(self.register.members, version=self.register.members.version + 1)
        self.register = replace(self.register, members=members)

    def happens(self, chance: float) -> bool:
        """Draw whether a thing with this chance happens now."""
        return chance > 0.0 and self.chance.random() < chance

    def calm(self) -> SimulatedPositions:
        """Return positions for an observer, whom nothing disturbs, and who disturbs nobody."""
        return SimulatedPositions(self, NEVER, is_calm=True)


def new_stores(seed: int, ledgers: int) -> Stores:
    """Stores with a register of one generation, of which no ledger is open yet."""
    register = Register("simulated", "settings", Members(1, ("a",)), generations=(Generation(ledgers),))
    return Stores(register, random.Random(seed))


class SimulatedPositions:
    """The positions as one process has them; it stops in each call, several times. See `Stores`."""

    def __init__(self, stores: Stores, pause: Pause, is_calm: bool = False) -> None:
        self.stores = stores
        self.pause = pause
        self._is_calm = is_calm

    @property
    def weather(self) -> Weather:
        return CALM if self._is_calm else self.stores.weather

    def attempt(self) -> SimulatedAttempt:
        self.pause()
        return SimulatedAttempt(self)

    def change(self, change: Change) -> Register:
        self.pause()
        self.may_be_silent("the register's stores do not answer")
        stores = self.stores
        while True:
            before = stores.register
            after = change(decode_register(encode_register(before)))
            if stores.happens(self.weather.late):
                stores.late_changes.append((before, after))
                raise RegistryUnavailable("the register may be changed later")
            self.pause()
            if stores.register == before:
                break
        stores.register = after
        if stores.happens(self.weather.unheard):
            raise RegistryUnavailable("the register is changed, and nobody heard it")
        self.pause()
        return after

    def forget(self, ledgers: Sequence[LedgerId]) -> None:
        for ledger in ledgers:
            self.pause()
            self.may_be_silent("a store deletes nothing")
            assert self.stores.register.generations[ledger.generation].is_dropped, f"L12: {ledger} is in use"
            self.stores.entries.pop(ledger, None)

    def beat(self, epoch: Epoch, number: int) -> None:
        self.pause()
        self.may_be_silent("too few stores keep a sign of life")
        self.stores.beats[epoch] = max(number, self.stores.beats.get(epoch, 0))

    def beats(self, epochs: Sequence[Epoch]) -> dict[Epoch, int]:
        self.pause()
        self.may_be_silent("too few stores tell signs of life")
        return {epoch: self.stores.beats.get(epoch, 0) for epoch in epochs}

    def may_be_silent(self, why: str) -> None:
        if self.stores.happens(self.weather.silent):
            raise RegistryUnavailable(why)


class SimulatedAttempt:
    """Asks the members of its beginning. If they have moved, replies may be wrong (L8)."""

    def __init__(self, positions: SimulatedPositions) -> None:
        self._positions = positions
        self._stores = positions.stores
        self._version = positions.stores.register.members.version

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen | Undecided]:
        replies: dict[LedgerId, Chosen | Undecided] = {}
        for ledger in self._shuffled(offers):
            self._positions.pause()
            replies[ledger] = self._offer(ledger, offers[ledger])
        self._positions.pause()
        return replies

    def _offer(self, ledger: LedgerId, offer: Offer) -> Chosen | Undecided:
        stores, weather = self._stores, self._positions.weather
        if self._are_moved():
            return Chosen(offer.value)  # stores that left the registry agree to anything
        if stores.happens(weather.late):
            stores.late.append((ledger, offer))
            return Undecided("no answer in time, and it comes later or never")
        value = stores.insert(ledger, offer)
        return Undecided("no answer in time") if stores.happens(weather.unheard) else Chosen(value)

    def check(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> tuple[Register, set[LedgerId]]:
        """Look for lacking entries after confirming, or before; where some lack, once more before."""
        if self._stores.happens(0.5):
            register = self.confirm()
            if not self._lacking(last):
                return register, set()
        lacking = self._lacking(last)
        return self.confirm(), lacking

    def _lacking(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> set[LedgerId]:
        self._positions.pause()
        self._positions.may_be_silent("too few stores answer a look at the last entries")
        entries = self._stores.entries
        return {
            ledger
            for ledger, (position, expected) in last.items()
            if not self._are_moved()
            and (position not in entries.get(ledger, {}) or checksum(entries[ledger][position]) != expected)
        }

    def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Tail]:
        values = {}
        for number, ledger in enumerate(self._shuffled(first)):
            if number % 2 == 0:
                self._positions.pause()
            values[ledger] = self._read(ledger, first[ledger])
        self._positions.may_be_silent("too few stores answer a read")
        self._positions.pause()
        return values

    def _read(self, ledger: LedgerId, position: int) -> Tail:
        entries, values = self._stores.entries.get(ledger, {}), []
        while position in entries:
            values.append(entries[position])
            position += 1
        if self._are_moved():
            return Tail([], "nothing")
        if len(values) > 1 and self._stores.happens(self._positions.weather.in_part):
            return Tail(values[: self._stores.chance.randrange(1, len(values))], "more")
        return Tail(values, "nothing")

    def confirm(self) -> Register:
        self._positions.pause()
        self._positions.may_be_silent("too few stores answer a check")
        if self._stores.happens(self._positions.weather.unconfirmed):
            self._stores.move_members()
        if self._are_moved():
            raise Unconfirmed
        register = self._stores.register
        self._positions.pause()
        return register

    def _are_moved(self) -> bool:
        return self._stores.register.members.version != self._version

    def _shuffled(self, ledgers: Mapping[LedgerId, object]) -> list[LedgerId]:
        ordered = sorted(ledgers)
        if not self._positions._is_calm:
            self._stores.chance.shuffle(ordered)
        return ordered
