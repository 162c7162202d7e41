"""Judge copies: which are intact, which positions from one on they prove decided, and why these end.

A copy at p + 1 says which copy of p is right. Only the last position needs proof by its own copies (see the
package).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from photon.registry.form import EntryDamaged, checksum, predecessor
from photon.registry.stores.copies import Copy, Key, NoReply, Page, Promised, Refused, Store
from photon.registry.stores.decisions import chosen, majority

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intact:
    """A copy with a right checksum, and the two in it: its own, and that of the position before.

    Both are empty where the copy has no value.
    """

    copy: Copy
    checksum: bytes = b""
    predecessor: bytes = b""


@dataclass(frozen=True, slots=True)
class JudgedPage:
    """A page of one store. `intact` lacks damaged copies: there the store counts as silent (L2)."""

    page: Page
    intact: Mapping[int, Intact]

    def at(self, position: int) -> Intact | None:
        """The copy at a position, perhaps an absent one; None: the page does not say, or it is damaged."""
        if not self.page.covers(position):
            return None
        if position not in self.page.copies:
            return _NOTHING_THERE
        return self.intact.get(position)


_NOTHING_THERE = Intact(Copy())


def judged_page(store: Store, first: Key) -> JudgedPage | NoReply:
    """Ask a store for a page, and judge its copies."""
    page = store.page(first)
    if isinstance(page, NoReply):
        return page
    said = {at: _intact(Key(first.ledger, at), copy) for at, copy in page.copies.items()}
    return JudgedPage(page, {at: intact for at, intact in said.items() if intact is not None})


def judged(key: Key, reply: Any) -> Any:
    """The reply, or NoReply in its place if its copy is damaged (L2)."""
    copy = reply.now if isinstance(reply, Refused) else reply.before if isinstance(reply, Promised) else None
    if copy is not None and _intact(key, copy) is None:
        return NoReply(f"the copy of {key} is damaged", "not_asked")
    return reply


def _intact(key: Key, copy: Copy) -> Intact | None:
    if copy.value is None:
        return Intact(copy)
    try:
        where = f"a copy of position {key}"
        return Intact(copy, checksum(copy.value, where), predecessor(copy.value, where))
    except EntryDamaged as error:
        log.warning("%s; it counts as no reply", error)
        return None


# Why a walk ends at a position. `nothing`: no store of a majority has a value. `undecided`: a majority
# answered, and some values are there that prove nothing. `silent`: fewer than a majority answered. `lacking`:
# the position is decided, and no copy at hand is the right one.
Ending = Literal["nothing", "undecided", "silent", "lacking"]


@dataclass(frozen=True, slots=True)
class Walk:
    """The decided values from a position on, and why they end."""

    values: list[bytes]
    ending: Ending


def walk(first: int, pages: Iterable[JudgedPage], n: int) -> Walk:
    """Collect the values from `first` on, as far as these pages of distinct stores prove them decided."""
    pages = list(pages)
    values: list[bytes] = []
    here = _said_of(first, pages)
    while True:
        after = _said_of(first + len(values) + 1, pages)
        value = _decided(here, after, n)
        if value is None:
            return Walk(values, _ending(here, after, n))
        values.append(value)
        here = after


def _said_of(position: int, pages: Sequence[JudgedPage]) -> list[Intact]:
    return [said for page in pages if (said := page.at(position)) is not None]


def _decided(here: Sequence[Intact], after: Sequence[Intact], n: int) -> bytes | None:
    """The value that the copies at the next position name, else the one that its own copies prove."""
    named = _named_by(after)
    if len(named) == 1:
        return next((one.copy.value for one in here if _has_value(one) and one.checksum in named), None)
    return chosen([one.copy for one in here], n)


def _named_by(after: Sequence[Intact]) -> set[bytes]:
    """The checksums that copies name of the position before. Two would break L1, and then none counts."""
    return {one.predecessor for one in after if _has_value(one)}


def _ending(here: Sequence[Intact], after: Sequence[Intact], n: int) -> Ending:
    if _named_by(after):
        return "lacking"
    if len(here) < majority(n):
        return "silent"
    return "undecided" if any(map(_has_value, here)) else "nothing"


def _has_value(said: Intact) -> bool:
    return said.copy.value is not None
