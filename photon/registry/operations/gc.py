"""Garbage collection (gc): delete ids below the boundary at every endpoint (protocol C2).

How far the boundary may go says `photon.upkeep.pipeline_gc`.

    boundary raised at a majority -> at each endpoint: its own register has the boundary
    -> shard by shard, a page at a time: what is below the boundary is deleted there

A pass keeps no state of its own: one that was killed is simply run again, and takes what came late as well.
Why no id is won again: docs/adr/0020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from photon.faults import fault_point
from photon.registry.consensus.acceptor import (
    Acceptor,
    Delete,
    Done,
    NoReply,
    Page,
    Scanned,
    Stored,
    StoreSize,
    WriteReply,
)
from photon.registry.consensus.layout import (
    REGISTER_KEY,
    ItemKey,
    is_below_boundary,
    is_fixed,
    shards_below_boundary,
    sortable_time,
)
from photon.registry.consensus.register import Register, decode_register, with_boundary
from photon.registry.dynamodb.answers import item_bytes
from photon.registry.endpoints.deadline import Unanswered, until_answered
from photon.registry.endpoints.endpoints import Channel, Endpoints, Threads
from photon.registry.quorum.proposer import QuorumRegistry

PAGE_ITEMS = 1_000  # read, then deleted, at a time: bounds memory
DELETES_IN_FLIGHT = 4  # requests at once to one endpoint: gc leaves most of it to the joins


@dataclass(frozen=True, slots=True)
class EndpointGc:
    """What a pass deleted at one endpoint; with a `problem`, not everything: the next pass takes the rest.

    Two passes at once may both count an item: stores do not tell a delete of nothing from another. Sizes are
    as the endpoint counts itself, None if it did not say.
    """

    slot: int
    deleted: StoreSize
    before: StoreSize | None = None
    after: StoreSize | None = None
    problem: str = ""


def raise_boundary(registry: QuorumRegistry, boundary_us: int) -> Register:
    """The register with its boundary at least there, at a majority.

    RegistryUnavailable; ValueError if this is no time that a key can have.
    """
    sortable_time(boundary_us)  # before it is in the register, which never goes back
    register = registry.register.read()
    if with_boundary(register, boundary_us) != register:
        register = registry.register.change(lambda now: with_boundary(now, boundary_us))
    fault_point("gc.after_boundary")
    return register


def gc_pass(
    registry: QuorumRegistry,
    register: Register,
    channel: Callable[[], Channel] = lambda: Threads(DELETES_IN_FLIGHT),
    timeless_shards: bool = True,
    page_items: int = PAGE_ITEMS,
) -> list[EndpointGc]:
    """Delete what is below the boundary of `register`, which a majority has, at every endpoint in turn.

    `channel`: how deletes travel to one endpoint. `timeless_shards`: also look through the shards of ids
    without a time; they take a request each even if they are empty.
    """
    shards = [shard for shard in shards_below_boundary(register) if timeless_shards or not is_fixed(shard)]
    done = []
    for slot, acceptor in enumerate(registry.endpoints.active.acceptors):
        if acceptor is None:
            problem = "out of use until a repair of it has ended"
            done.append(EndpointGc(slot, StoreSize(0, 0), problem=problem))
            continue
        with closing(registry.endpoints.alone(acceptor, channel())) as endpoint:
            one = _EndpointPass(registry, register, acceptor, endpoint, page_items)
            done.append(one.run(slot, shards))
        fault_point("gc.after_endpoint")
    return done


@dataclass
class _EndpointPass:
    """The pass at one endpoint."""

    registry: QuorumRegistry
    register: Register
    acceptor: Acceptor
    endpoint: Endpoints  # the same one, over a channel of its own
    page_items: int
    deleted_items: int = 0
    deleted_bytes: int = 0

    def run(self, slot: int, shards: Sequence[str]) -> EndpointGc:
        """Delete all there is to delete in these shards, or as much as the endpoint lets us."""
        before, problem = self._size(), ""
        try:
            list(until_answered(self._ask_for_boundary, [REGISTER_KEY], self.registry.deadline()))
            fault_point("gc.after_register")
            for shard in shards:
                for items in self._pages(shard):
                    self._delete([i for i in items if is_below_boundary(i.key, i.time, self.register)])
                    fault_point("gc.after_page")
        except Unanswered as unanswered:
            problem = str(unanswered)
        deleted = StoreSize(self.deleted_items, self.deleted_bytes)
        return EndpointGc(slot, deleted, before, self._size(), problem)

    def _ask_for_boundary(self, keys: Sequence[ItemKey]) -> list[Stored | NoReply]:
        """Whether the endpoint's own copy of the register has the boundary; it may have missed the change."""
        (reply,) = self.acceptor.read(keys)
        if isinstance(reply, NoReply):
            return [reply]
        if reply.value is not None and decode_register(reply.value).has_boundary_of(self.register):
            return [reply]
        self.registry.register.change(lambda now: now)  # a round goes to every endpoint
        return [NoReply("it does not take the register")]

    def _pages(self, shard: str) -> Iterator[Sequence[Scanned]]:
        """What may be below the boundary; all of a shard whose keys do not say when their events were."""
        boundary_us = self.register.boundary_us
        assert boundary_us is not None, "gc deletes nothing without a boundary"
        below = "" if is_fixed(shard) else sortable_time(boundary_us)

        def ask(afters: Sequence[ItemKey | None]) -> list[Page | NoReply]:
            return [self.acceptor.scan_shard(shard, below, after, self.page_items) for after in afters]

        after: ItemKey | None = None
        while True:
            ((_, page),) = until_answered(ask, [after], self.registry.deadline())
            yield page.items
            if page.last is None:
                return
            after = page.last

    def _delete(self, items: Sequence[Scanned]) -> None:
        def ask(left: Sequence[Scanned]) -> list[WriteReply]:
            # Of ids without a time only the very item that was read: it may have been made anew since.
            deletes = [Delete(item.key, item.time) for item in left]
            replies = self.endpoint.ask(lambda a, b: a.delete(b), deletes, self.acceptor.writes_per_request)
            return [reply for (reply,) in replies]

        for item, reply in until_answered(ask, items, self.registry.deadline()):
            if isinstance(reply, Done):
                self.deleted_items += 1
                self.deleted_bytes += item_bytes(item)

    def _size(self) -> StoreSize | None:
        size = self.acceptor.size()
        return size if isinstance(size, StoreSize) else None
