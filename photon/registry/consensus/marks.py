"""What an epoch publishes of itself: a mark, in an item of its own; pure (protocol A16, docs/adr/0041).

A mark is a fact that stays true: up to this batch all is in the table or released. So any copy of it may be
believed, no round has to choose between two of them, and the greatest that anybody has seen counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from photon.registry.consensus.acceptor import Stored
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


def encode_mark(mark: Mark) -> str:
    """The text that is stored."""
    return f"{_KIND}:{mark.batch}:{mark.beats}"


def decode_mark(text: str) -> Mark:
    """The inverse of `encode_mark`; ValueError for another text."""
    kind, batch, beats = text.split(":")
    if kind != _KIND:
        raise ValueError(f"{text!r} is no mark; expected {_KIND}:batch:beats")
    return Mark(int(batch), int(beats))


def greatest_mark(replies: Iterable[object]) -> Mark:
    """The greatest mark among the endpoints' replies; `NO_MARK` where none of them has one."""
    values = (reply.value for reply in replies if isinstance(reply, Stored))
    return max((decode_mark(value) for value in values if value is not None), default=NO_MARK)
