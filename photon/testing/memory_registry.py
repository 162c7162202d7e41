"""A registry in memory, for fast tests: the product's own rounds over stores in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from photon.clock import Clock, SystemClock
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import (
    ABSENT,
    Accept,
    AcceptReply,
    Delete,
    Done,
    Insert,
    NoReply,
    Page,
    Prepare,
    PrepareReply,
    Promised,
    ReadReply,
    Refused,
    Replace,
    Scanned,
    Stored,
    StoreSize,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.layout import SHARD_HASH, ItemKey, is_cleared
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.dynamodb.answers import item_bytes
from photon.registry.quorum.proposer import QuorumRegistry

Q = TypeVar("Q")
R = TypeVar("R")


class MemoryAcceptor:
    """One endpoint in memory: an `Acceptor`."""

    writes_per_request = 25
    reads_per_request = 100

    def __init__(self) -> None:
        self.items: dict[ItemKey, Stored] = {}
        self.times: dict[ItemKey, str] = {}  # as `layout.stored_time`, of items that were made with one
        self._lock = threading.Lock()

    # -- the acceptor

    def insert(self, batch: Sequence[Insert]) -> list[WriteReply]:
        return self._serve("insert", batch, self._insert)

    def read(self, batch: Sequence[ItemKey]) -> list[ReadReply]:
        return self._serve("read", batch, lambda key: self.items.get(key, ABSENT))

    def prepare(self, batch: Sequence[Prepare]) -> list[PrepareReply]:
        return self._serve("prepare", batch, self._prepare)

    def accept(self, batch: Sequence[Accept]) -> list[AcceptReply]:
        return self._serve("accept", batch, self._accept)

    def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
        return self._serve("replace", batch, self._replace)

    def delete(self, batch: Sequence[Delete]) -> list[WriteReply]:
        return self._serve("delete", batch, self._delete)

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:

        def is_wanted(key: ItemKey) -> bool:
            return key.p == shard and (not below or key.s < below) and (after is None or key > after)

        return self._page(limit, is_wanted)

    def size(self) -> StoreSize | NoReply:
        page = self._page(None, lambda key: True)
        if isinstance(page, NoReply):
            return page
        return StoreSize(len(page.items), sum(map(item_bytes, page.items)))

    def _page(self, limit: int | None, is_wanted: Callable[[ItemKey], bool]) -> Page | NoReply:
        with self._lock:
            keys = sorted(filter(is_wanted, self.items))[:limit]
            items = tuple(Scanned(key, self.times.get(key, ""), self.items[key]) for key in keys)
        return Page(items, keys[-1] if len(keys) == limit else None)

    # -- one item

    def _insert(self, insert: Insert) -> Done | Unchanged:
        if insert.key in self.items:
            return Unchanged()
        self.items[insert.key] = Stored(insert.value, promised=insert.ballot)
        self.times[insert.key] = insert.time
        return Done()

    def _prepare(self, prepare: Prepare) -> Promised | Refused:
        now = self.items.get(prepare.key, ABSENT)
        if now.promised >= prepare.ballot:
            return Refused(now)
        self.items[prepare.key] = replace(now, promised=prepare.ballot)
        self.times.setdefault(prepare.key, prepare.time)
        return Promised(now)

    def _accept(self, accept: Accept) -> Done | Refused:
        now = self.items.get(accept.key, ABSENT)
        cleared = now.value is not None and is_cleared(now.value) and now.value != accept.value
        if now.promised > accept.ballot or cleared:
            return Refused(now)
        self.items[accept.key] = Stored(accept.value, accepted=accept.ballot, promised=accept.ballot)
        self.times.setdefault(accept.key, accept.time)
        return Done()

    def _replace(self, wanted: Replace) -> Done | Unchanged:
        now = self.items.get(wanted.key, ABSENT)
        if now.value != wanted.old:
            return Unchanged()
        self.items[wanted.key] = replace(now, value=wanted.new)
        return Done()

    def _delete(self, delete: Delete) -> Done | Unchanged:
        if delete.key in self.items and delete.time and self.times.get(delete.key, "") != delete.time:
            return Unchanged()
        self.items.pop(delete.key, None)
        self.times.pop(delete.key, None)
        return Done()

    # -- requests

    def _serve(self, kind: str, batch: Sequence[Q], apply: Callable[[Q], R]) -> list[R | NoReply]:
        keys = {getattr(query, "key", query) for query in batch}
        # What the real one refuses as a whole must not pass here.
        assert len(keys) == len(batch), "one request names an item twice (protocol B7)"
        assert len(batch) <= (self.reads_per_request if kind == "read" else self.writes_per_request)
        with self._lock:
            return [apply(query) for query in batch]


def memory_registry(
    *acceptors: MemoryAcceptor,
    clock: Clock | None = None,
    settings: Registry | None = None,
    horizon_us: int | None = None,
) -> QuorumRegistry:
    """A registry over these acceptors (a new one, if none is given), with its register.

    Registries over the same acceptors are clients of one registry. With `horizon_us` ids carry their time.
    """
    clock = clock or SystemClock()
    settings = settings or Registry()
    members = acceptors or (MemoryAcceptor(),)
    registry = QuorumRegistry(members, settings, clock)
    registry.register.create(
        Register(
            pipeline="memory",
            settings_hash="memory",
            shard_hash=SHARD_HASH,
            members=Members(1, tuple(f"memory-{number}" for number in range(len(members)))),
            configs=() if horizon_us is None else (ShardConfig(settings.shards),),
            horizon_us=horizon_us,
        )
    )
    return registry
