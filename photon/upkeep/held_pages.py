"""The ids of one datacenter in the registry, page by page, as one endpoint has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from photon.registry.consensus.acceptor import Acceptor, NoReply, Page, Scanned
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    ItemKey,
    datacenter_of,
    decode_value,
    shards_by_config,
)
from photon.registry.consensus.quorums import all_of_them
from photon.registry.consensus.register import Register
from photon.registry.endpoints.deadline import until_answered
from photon.registry.quorum.proposer import QuorumRegistry
from photon.tokens import Token

PAGE_ITEMS = 1_000


@dataclass(frozen=True)
class HeldPage:
    """What a page has of the datacenter, and where the next page begins (`last` None: nowhere)."""

    held: tuple[tuple[Scanned, Token], ...]
    cleared: int
    last: ItemKey | None
    items: int


def shards_of(register: Register) -> list[str]:
    """The shards of all configs."""
    return [shard for config in shards_by_config(register) for shard in config]


def held_pages(
    registry: QuorumRegistry,
    acceptor: Acceptor,
    datacenter: str,
    shard: str,
    after: ItemKey | None,
    page_items: int,
) -> Iterator[HeldPage]:
    """The pages of one shard, from behind a key on. Unanswered."""
    while True:
        page = page_of(registry, acceptor, shard, "", after, page_items)
        yield _of(datacenter, page)
        if page.last is None:
            return
        after = page.last


def _of(datacenter: str, page: Page) -> HeldPage:
    held: list[tuple[Scanned, Token]] = []
    cleared = 0
    for item in page.items:
        match decode_value(item.stored.value) if item.stored.value is not None else None:
            case Held(token) if datacenter_of(token) == datacenter:
                held.append((item, Token.parse(token)))
            case Cleared(owner) if owner == datacenter:
                cleared += 1
    return HeldPage(tuple(held), cleared, page.last, len(page.items))


def page_of(
    registry: QuorumRegistry,
    acceptor: Acceptor,
    shard: str,
    below: str,
    after: ItemKey | None,
    page_items: int,
) -> Page:
    """One page of a shard at one endpoint; `below`: only keys before this one, if it is any. Unanswered."""
    endpoint = registry.endpoints.alone(acceptor)

    def scan(one: Acceptor, batch: Sequence[ItemKey | None]) -> list[Page | NoReply]:
        return [one.scan_shard(shard, below, begin, page_items) for begin in batch]

    def ask(afters: Sequence[ItemKey | None]) -> list[Page | NoReply]:
        return [page for (page,) in endpoint.ask(scan, afters, 1, all_of_them)]

    ((_, page),) = until_answered(ask, [after], registry.deadline())
    return page
