"""What an epoch publishes of itself: a mark, in an item of its own; pure (protocol A16, docs/adr/0041).

A mark is a fact that stays true: up to this batch all is in the table or released. So any copy of it may be
believed, no round has to choose between two of them, and the greatest that anybody has seen counts.

Beside the mark stands how far each store was with this item when it was last read: the counter of its ballot,
which never goes back while a store keeps its data. So a store that was put back from an older copy is known
by what the others have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.decisions import next_counter
from photon.registry.consensus.layout import MARKS_SHARD, ItemKey

_KIND = "M"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """How far an epoch is, and a count that goes up while one of its batches is open."""

    batch: int = 0
    beats: int = 0


NO_MARK = Mark()


def mark_key(epoch: str) -> ItemKey:
    """The item of an epoch's mark."""
    return ItemKey(MARKS_SHARD, epoch)


def encode_mark(mark: Mark, seen: Mapping[str, int] | None = None) -> str:
    """The text that is stored; `seen`: the counter that each store was seen to have, by its incarnation."""
    stores = ",".join(f"{store}={counter}" for store, counter in sorted((seen or {}).items()))
    return f"{_KIND}:{mark.batch}:{mark.beats}" + (f":{stores}" if stores else "")


def decode_mark(text: str) -> Mark:
    """The mark in a stored text; ValueError for another text."""
    kind, batch, beats = text.split(":")[:3]
    if kind != _KIND:
        raise ValueError(f"{text!r} is no mark; expected {_KIND}:batch:beats")
    return Mark(int(batch), int(beats))


def greatest_mark(replies: Iterable[object]) -> Mark:
    """The greatest mark among the endpoints' replies; `NO_MARK` where none of them has one."""
    return max(map(decode_mark, _texts(replies)), default=NO_MARK)


def seen_in(replies: Iterable[object]) -> dict[str, int]:
    """The greatest counter that each store was ever seen to have, as all these replies tell together."""
    seen: dict[str, int] = {}
    for text in _texts(replies):
        for pair in text.split(":")[3:4]:
            for store, _, counter in (one.partition("=") for one in pair.split(",")):
                seen[store] = max(seen.get(store, 0), int(counter))
    return seen


def counter_of(stored: Stored) -> int:
    """The counter of the ballot at which a store has accepted an item; 0 where it has none."""
    return next_counter([Stored(accepted=stored.accepted)]) - 1


def slots_put_back(replies: Sequence[object], stores: Sequence[str]) -> frozenset[int]:
    """The slots whose stores have an older mark than they were seen to have: their data was put back."""
    seen = seen_in(replies)
    return frozenset(
        slot
        for slot, (reply, store) in enumerate(zip(replies, stores, strict=True))
        if isinstance(reply, Stored) and counter_of(reply) < seen.get(store, 0)
    )


def _texts(replies: Iterable[object]) -> list[str]:
    return [reply.value for reply in replies if isinstance(reply, Stored) and reply.value is not None]
