"""All items of some shards at one endpoint, for tests and measurements that look at what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus.acceptor import Acceptor, Page, Scanned
from photon.registry.consensus.layout import ItemKey

PAGE_ITEMS = 1_000


def stored_items(
    acceptor: Acceptor, shards: Sequence[str], page_items: int = PAGE_ITEMS
) -> Iterator[Scanned]:
    """Page by page, in the order of the shards and of their keys. RegistryUnavailable."""
    for shard in shards:
        after: ItemKey | None = None
        while True:
            page = acceptor.scan_shard(shard, "", after, page_items)
            if not isinstance(page, Page):
                raise RegistryUnavailable(page.reason)
            yield from page.items
            if page.last is None:
                break
            after = page.last
