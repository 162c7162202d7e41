"""A registry in memory, for fast tests: the product's own rounds over stores in this process, with faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from photon.clock import Clock, SystemClock
from photon.pipeline.file import Registry
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

Fault = Literal["down", "lost_request", "lost_answer", "unprocessed", "full"]
Q = TypeVar("Q")
R = TypeVar("R")

# As `photon.registry.dynamodb.acceptor` reports it; also of the endpoints of simulation and exploration.
TIMED_OUT = NoReply("timed out", "unreachable")
UNPROCESSED = NoReply("unprocessed", "throttled")

_REFUSED = NoReply("connection refused", "unreachable")
_WITHOUT_EFFECT: dict[Fault | None, NoReply] = {
    "down": _REFUSED,
    "full": NoReply("the disk is full"),
    "lost_request": TIMED_OUT,
}


class MemoryAcceptor:
    """One endpoint in memory, with faults.

    `down` answers nothing and `full` refuses writes, both until `mend`. `lost_request`: a batch times out
    without effect. `lost_answer`: a batch is applied and times out. `unprocessed`: half of the items of a
    batch are refused. `slow_seconds` pass, on the clock, before each batch.
    """

    inserts_per_request = 25
    writes_per_request = 25
    reads_per_request = 100

    def __init__(self, clock: Clock | None = None) -> None:
        self.items: dict[ItemKey, Stored] = {}
        self.times: dict[ItemKey, str] = {}  # as `layout.stored_time`, of items that were made with one
        self.slow_seconds = 0.0
        self.requests = 0
        self.on_request: Callable[[str, Sequence[object]], None] = lambda kind, batch: None
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._batches = 0

    def another_way_in(self) -> MemoryAcceptor:
        """The same endpoint, met by another client with faults of its own."""
        other = MemoryAcceptor(self._clock)
        other.items, other.times, other._lock = self.items, self.times, self._lock
        return other

    def fail(self, fault: Fault, batches: int = 1) -> None:
        """Have the next `batches` requests (for `down` and `full`: all until `mend`) meet with this fault."""
        with self._lock:
            self._fault, self._batches = fault, batches

    def mend(self) -> None:
        """Answer again."""
        with self._lock:
            self._fault = None

    # -- the acceptor

    def insert(self, batch: Sequence[Insert]) -> list[WriteReply]:
        """See `Acceptor`."""
        return self._serve("insert", batch, self._insert)

    def read(self, batch: Sequence[ItemKey]) -> list[ReadReply]:
        """See `Acceptor`."""
        return self._serve("read", batch, lambda key: self.items.get(key, ABSENT))

    def prepare(self, batch: Sequence[Prepare]) -> list[PrepareReply]:
        """See `Acceptor`."""
        return self._serve("prepare", batch, self._prepare)

    def accept(self, batch: Sequence[Accept]) -> list[AcceptReply]:
        """See `Acceptor`."""
        return self._serve("accept", batch, self._accept)

    def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
        """See `Acceptor`."""
        return self._serve("replace", batch, self._replace)

    def delete(self, batch: Sequence[Delete]) -> list[WriteReply]:
        """See `Acceptor`."""
        return self._serve("delete", batch, self._delete)

    def scan(self, after: ItemKey | None, limit: int) -> Page | NoReply:
        """See `Acceptor`."""
        self.on_request("scan", [after])
        return self._page(limit, lambda key: after is None or key > after)

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        """See `Acceptor`."""

        def is_wanted(key: ItemKey) -> bool:
            return key.p == shard and (not below or key.s < below) and (after is None or key > after)

        self.on_request("scan_shard", [after])
        return self._page(limit, is_wanted)

    def size(self) -> StoreSize | NoReply:
        """See `Acceptor`."""
        page = self._page(None, lambda key: True)
        if isinstance(page, NoReply):
            return page
        return StoreSize(len(page.items), sum(map(item_bytes, page.items)))

    def _page(self, limit: int | None, is_wanted: Callable[[ItemKey], bool]) -> Page | NoReply:
        if self._next_fault(reads=True) is not None:
            return _REFUSED
        with self._lock:
            keys = sorted(filter(is_wanted, self.items))[:limit]
            items = tuple(Scanned(key, self.times.get(key, ""), self.items[key]) for key in keys)
        return Page(items, keys[-1] if len(keys) == limit else None)

    # -- one item

    def _insert(self, insert: Insert) -> Done | Unchanged:
        if insert.key in self.items:
            return Unchanged()
        self.items[insert.key] = Stored(insert.value)
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
        bounds = {"read": self.reads_per_request, "insert": self.inserts_per_request}
        assert len(batch) <= bounds.get(kind, self.writes_per_request)
        if self.slow_seconds:
            self._clock.sleep(self.slow_seconds)
        self.on_request(kind, batch)
        fault = self._next_fault(reads=kind == "read")
        if fault in _WITHOUT_EFFECT:
            return [_WITHOUT_EFFECT[fault]] * len(batch)
        with self._lock:
            if fault == "unprocessed":
                return [apply(q) if i % 2 else UNPROCESSED for i, q in enumerate(batch)]
            replies = [apply(q) for q in batch]
        return [TIMED_OUT] * len(batch) if fault == "lost_answer" else [*replies]

    def _next_fault(self, reads: bool) -> Fault | None:
        with self._lock:
            self.requests += 1
            fault = self._fault
            if fault == "full":
                return None if reads else fault
            if fault is not None and fault != "down":
                self._batches -= 1
                if self._batches == 0:
                    self._fault = None
            return fault


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
    members = acceptors or (MemoryAcceptor(clock),)
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
