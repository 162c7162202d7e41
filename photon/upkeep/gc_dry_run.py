"""What garbage collection would delete, without deleting it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from photon.clock import Clock
from photon.pipeline.file import Pipeline
from photon.registry.consensus.acceptor import Acceptor, Scanned, StoreSize
from photon.registry.consensus.layout import is_below_boundary, is_fixed, shards_below_boundary, sortable_time
from photon.registry.consensus.register import Register, with_boundary
from photon.registry.dynamodb.answers import item_bytes
from photon.registry.endpoints.deadline import Unanswered
from photon.registry.operations.gc import EndpointGc
from photon.registry.operations.ranges import HowFar
from photon.registry.quorum.proposer import QuorumRegistry
from photon.upkeep.held_pages import PAGE_ITEMS, page_of
from photon.upkeep.pipeline_gc import GcResult, may_go


def would_gc(pipeline: Pipeline, clock: Clock, say: Callable[[str], None] = lambda text: None) -> GcResult:
    """What `run_gc` would do now; changes nothing. `say` is told how far it is.

    Reads all items below the boundary that would be. RegistryUnavailable, LakeUnavailable, and what
    `find_registry` raises.
    """
    asked = may_go(pipeline, clock)
    before_us = asked.register.boundary_us
    if asked.is_off:
        return GcResult(before_us, before_us, asked.limit.because, {})
    register = asked.register
    if asked.limit.boundary_us is not None:
        register = with_boundary(register, asked.limit.boundary_us)
    timeless = not pipeline.foreign.time_in_id
    shards = [shard for shard in shards_below_boundary(register) if timeless or not is_fixed(shard)]
    how_far = HowFar("looks for old ids", say, asked.registry.clock.elapsed_us)
    acceptors = asked.registry.endpoints.active.acceptors
    how_far.expect(len(shards) * len(list(filter(None, acceptors))))
    by_endpoint = {
        str(asked.address.endpoints[slot]): _at_one(asked.registry, slot, acceptor, register, shards, how_far)
        for slot, acceptor in enumerate(acceptors)
    }
    return GcResult(before_us, register.boundary_us, asked.limit.because, by_endpoint)


def _at_one(
    registry: QuorumRegistry,
    slot: int,
    acceptor: Acceptor | None,
    register: Register,
    shards: Sequence[str],
    how_far: HowFar,
) -> EndpointGc:
    """What one endpoint has below the boundary of `register`, which only this process knows."""
    if acceptor is None:
        return EndpointGc(slot, StoreSize(0, 0), problem="out of use until a repair of it has ended")
    found = StoreSize(0, 0)
    try:
        for shard in shards:
            for items in _pages_below(registry, acceptor, shard, register):
                found = StoreSize(found.items + len(items), (found.bytes or 0) + sum(map(item_bytes, items)))
                how_far.advance(len(items), 0)
            how_far.advance(0, 1)
    except Unanswered as error:
        return EndpointGc(slot, found, problem=str(error))
    return EndpointGc(slot, found)


def _pages_below(
    registry: QuorumRegistry, acceptor: Acceptor, shard: str, register: Register
) -> Iterator[list[Scanned]]:
    """What lies below the boundary in one shard, page by page. Unanswered."""
    boundary_us, after = register.boundary_us, None
    assert boundary_us is not None, "gc deletes nothing without a boundary"
    below = "" if is_fixed(shard) else sortable_time(boundary_us)
    while True:
        page = page_of(registry, acceptor, shard, below, after, PAGE_ITEMS)
        yield [item for item in page.items if is_below_boundary(item.key, item.time, register)]
        if page.last is None:
            return
        after = page.last
