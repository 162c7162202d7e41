"""The copy that one store keeps of one position, requests and answers, as types. No I/O, no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from photon.registry.entry import Epoch, LedgerId

FAST_BALLOT = ""  # an insert made the copy: this sorts before every ballot


class Key(NamedTuple):
    """Where an item lies: its ledger in its incarnation, and its position."""

    ledger: str
    position: int

    def __str__(self) -> str:
        return f"{self.ledger}/{self.position}"


REGISTER_KEY = Key("register", 0)


def ledger_key(incarnation: int, ledger: LedgerId) -> str:
    """The ledger's name at the stores. A refill makes a new incarnation of all."""
    return f"{incarnation}.{ledger}"


def beat_key(epoch: Epoch) -> Key:
    """Where an epoch's sign of life is, in all incarnations."""
    return Key(f"beat.{epoch.datacenter}", epoch.number)


@dataclass(frozen=True, slots=True)
class Copy:
    """A store's content at a position. An absent item, or one that is only promised, has no `value`."""

    value: bytes | None = None
    accepted: str = FAST_BALLOT
    promised: str = FAST_BALLOT


ABSENT = Copy()


@dataclass(frozen=True, slots=True)
class Page:
    """The items of a ledger from one position through another, which is None if there are no more.

    A position in that range without an item was processed and is absent (protocol B8).
    """

    first: int
    through: int | None
    copies: Mapping[int, Copy]

    def covers(self, position: int) -> bool:
        """Whether the page says what is at the position."""
        return self.first <= position and (self.through is None or position <= self.through)


# -- requests


@dataclass(frozen=True, slots=True)
class Insert:
    """Store `value` where nothing is."""

    key: Key
    value: bytes


@dataclass(frozen=True, slots=True)
class Prepare:
    """Promise `ballot`."""

    key: Key
    ballot: str


@dataclass(frozen=True, slots=True)
class Accept:
    """Store `value` at `ballot`."""

    key: Key
    ballot: str
    value: bytes


# -- replies


@dataclass(frozen=True, slots=True)
class Done:
    """The write took effect."""


@dataclass(frozen=True, slots=True)
class Promised:
    """The store promised; `before` is what it had."""

    before: Copy


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition does not hold: an item is there, or a higher ballot is promised; `now` is what it has."""

    now: Copy


NoReplyKind = Literal["unclear", "throttled", "unreachable", "denied", "not_asked"]


@dataclass(frozen=True, slots=True)
class NoReply:
    """No answer: the request may have taken effect, or may do so later (protocol B2).

    `unclear`: an error that we can't read. `throttled`: the store had too little capacity. `unreachable`: it
    did not answer at all, or has lost its table; do not ask again soon. `denied`: we have no credentials that
    it takes, or too few rights; do not ask again soon. `not_asked`: its slot is out of use, or it has just
    been silent; this is no news of the store.
    """

    reason: str
    kind: NoReplyKind = "unclear"

    @property
    def problem(self) -> Literal["does not answer", "does not let us in"]:
        """Words for people about a store that has no better reply than this."""
        return "does not let us in" if self.kind == "denied" else "does not answer"


class Store(Protocol):
    """One store. Each method is one request and atomic for its item. Thread-safe."""

    def insert(self, insert: Insert) -> Done | Refused | NoReply:
        """Store a value where there is no item."""
        ...

    def prepare(self, prepare: Prepare) -> Promised | Refused | NoReply:
        """Promise a ballot above the one promised, and say what was there before."""
        ...

    def accept(self, accept: Accept) -> Done | Refused | NoReply:
        """Store a value at a ballot not below the one promised."""
        ...

    def get(self, key: Key) -> Copy | NoReply:
        """Read the copy there, consistently."""
        ...

    def ending(self, key: Key) -> bytes | NoReply:
        """The last bytes of the value there, which are an entry's checksum; empty without a value."""
        ...

    def page(self, first: Key) -> Page | NoReply:
        """The items of a ledger from a position on, in order, read consistently; as many as fit."""
        ...

    def forget(self, ledger: str) -> int | NoReply:
        """Delete some items of a ledger: how many, 0 once there is none."""
        ...

    def beat(self, key: Key, number: int) -> Done | NoReply:
        """Keep a number, unless a greater one is there."""
        ...

    def last_beat(self, key: Key) -> int | NoReply:
        """The number that is kept, 0 if there is none, read consistently."""
        ...
