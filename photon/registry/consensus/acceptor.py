"""What the rounds ask of one endpoint, and its answers as types. No I/O and no decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, Literal, Protocol, TypeVar, overload

from photon.registry.consensus.layout import ItemKey

FAST_BALLOT = ""  # a value without `a`; sorts before every other ballot


@dataclass(frozen=True, slots=True)
class Stored:
    """What one endpoint has of one item. An absent item, or one that is only promised, has no `value`."""

    value: str | None = None
    accepted: str = FAST_BALLOT
    promised: str = FAST_BALLOT


ABSENT = Stored()


@dataclass(frozen=True, slots=True)
class Scanned:
    """An item as a scan found it; `time` as in `Insert`."""

    key: ItemKey
    time: str
    stored: Stored


@dataclass(frozen=True, slots=True)
class Page:
    """Some of an endpoint's items; `last`: where the next page goes on, None after the last one."""

    items: tuple[Scanned, ...]
    last: ItemKey | None


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How much an endpoint has, as it counts itself: DynamoDB on AWS is up to six hours late."""

    items: int
    bytes: int | None  # None: it counts its items only, as dynoxide 1.2.1 does


# -- requests


@dataclass(frozen=True, slots=True)
class Insert:
    """Store `value` where nothing is, and promise `ballot` in the same step, if there is one.

    `time`: as `layout.stored_time`, kept by whatever makes the item.
    """

    key: ItemKey
    value: str
    time: str = ""
    ballot: str = FAST_BALLOT


@dataclass(frozen=True, slots=True)
class Prepare:
    """Promise `ballot`."""

    key: ItemKey
    ballot: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Accept:
    """Store `value` at `ballot`."""

    key: ItemKey
    ballot: str
    value: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Replace:
    """Store `new` where `old` is."""

    key: ItemKey
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the item; with a `time` (as in `Insert`) only one that was stored with it."""

    key: ItemKey
    time: str = ""


# -- replies, about one item each


@dataclass(frozen=True, slots=True)
class Done:
    """The write took effect."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The item is not as the write expects it: an insert finds one, a replacement another value."""


@dataclass(frozen=True, slots=True)
class Promised:
    """The endpoint promised; `before` is what it had, where `promised` may be the new promise already."""

    before: Stored


@dataclass(frozen=True, slots=True)
class Refused:
    """The endpoint has promised a higher ballot, or the item is cleared; `now` is what it has."""

    now: Stored


NoReplyKind = Literal["unclear", "throttled", "unreachable", "denied", "not_asked"]


@dataclass(frozen=True, slots=True)
class NoReply:
    """No answer about this item: the request may have taken effect, or may do so later (protocol B2).

    `unclear`: an error that we can't read. `throttled`: the endpoint had too little capacity. `unreachable`:
    it did not answer at all, or has lost its table; do not ask again soon. `denied`: we have no credentials
    that it takes, or too few rights; do not ask again soon. `not_asked`: its slot is out of use, or it has
    just been silent; this is no news of the endpoint.
    """

    reason: str
    kind: NoReplyKind = "unclear"

    @property
    def problem(self) -> Literal["does not answer", "does not let us in"]:
        """What to say of an endpoint that has no better reply than this."""
        return "does not let us in" if self.kind == "denied" else "does not answer"


ReadReply = Stored | NoReply
WriteReply = Done | Unchanged | NoReply
PrepareReply = Promised | Refused | NoReply
AcceptReply = Done | Refused | NoReply


R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Sequence[R], Generic[R]):
    """The same reply to each of `length` requests, as one object."""

    reply: R
    length: int

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[R]:
        return repeat(self.reply, self.length)

    def __eq__(self, other: object) -> bool:
        """Whether it has the same replies, as a list may have them too."""
        return isinstance(other, Sequence) and list(self) == list(other)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Same[R]: ...
    def __getitem__(self, index: int | slice) -> R | Same[R]:
        where = range(self.length)[index]  # IndexError beyond the end
        return Same(self.reply, len(where)) if isinstance(where, range) else self.reply


def different(replies: Sequence[R]) -> Sequence[R]:
    """These replies, but one for all that are the same object."""
    return replies[:1] if isinstance(replies, Same) else replies


class Acceptor(Protocol):
    """One endpoint. Each method is one batch, with distinct keys; answers come in its order.

    `reads_per_request` and `writes_per_request` bound the length of a batch. Thread-safe. Every write is
    atomic for its item and applies only if its condition holds at that moment.
    """

    writes_per_request: int
    reads_per_request: int

    def insert(self, batch: Sequence[Insert]) -> Sequence[WriteReply]:
        """Store a value where there is no item: the fast round."""
        ...

    def read(self, batch: Sequence[ItemKey]) -> Sequence[ReadReply]:
        """What is stored (consistently); `ABSENT` only if the key was processed (protocol B8)."""
        ...

    def prepare(self, batch: Sequence[Prepare]) -> Sequence[PrepareReply]:
        """Promise a ballot above the one promised, and say what was there before (protocol B4)."""
        ...

    def accept(self, batch: Sequence[Accept]) -> Sequence[AcceptReply]:
        """Store a value at a ballot not below the one promised; over a cleared one only the same (B6)."""
        ...

    def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
        """Replace exactly the value `old`, keeping its ballots: the clearing of ids."""
        ...

    def delete(self, batch: Sequence[Delete]) -> list[WriteReply]:
        """Remove items, for gc alone; where there is none, `Done` or `Unchanged`."""
        ...

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        """The next at most `limit` items of a shard with a range key below this one, in order, consistently.

        `below` empty: all of the shard.
        """
        ...

    def size(self) -> StoreSize | NoReply:
        """How much there is."""
        ...
