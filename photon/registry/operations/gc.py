"""Garbage collection (gc): delete ids below the boundary at every endpoint (protocol C2).

How far the boundary may go says `photon.upkeep.pipeline_gc`.

    boundary raised at a majority -> at all endpoints at once: its own register has the boundary
    -> several shards at once, a page at a time: what is below the boundary is deleted there

A pass that was killed is simply run again, and goes on where it was: each endpoint has its position. One that
has ended forgets them. The next one begins anew, and takes what came late. Why no id is won again:
docs/adr/0020.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

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
from photon.registry.consensus.quorums import all_of_them
from photon.registry.consensus.register import Register, decode_register, with_boundary
from photon.registry.dynamodb.answers import item_bytes
from photon.registry.endpoints.channel import Channel, Threads
from photon.registry.endpoints.deadline import Unanswered, until_answered
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.operations.ranges import (
    ITEMS_BETWEEN_NOTES,
    AtOnce,
    HowFar,
    PositionItem,
    Ranges,
    in_threads,
)
from photon.registry.quorum.proposer import QuorumRegistry

PAGE_ITEMS = 1_000  # read, then deleted, at a time: bounds memory


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
    timeless_shards: bool = True,
    page_items: int = PAGE_ITEMS,
    items_between_notes: int = ITEMS_BETWEEN_NOTES,
    channel: Callable[[], Channel] | None = None,
    run: AtOnce = in_threads,
    say: Callable[[str], None] = lambda text: None,
) -> list[EndpointGc]:
    """Delete what is below the boundary of `register`, which a majority has, at every endpoint.

    At all endpoints at once, and at each of them in `registry.ranges` shards at once. `timeless_shards`: also
    look through the shards of ids without a time; they take a request each even if they are empty. `channel`:
    how requests travel to one endpoint; None: on as many threads as shards are worked on at once. `say`: is
    told how far it is.
    """
    shards = [shard for shard in shards_below_boundary(register) if timeless_shards or not is_fixed(shard)]
    how_far = HowFar("deletes old ids", say, registry.clock.elapsed_us)
    share = _Share(registry, register, shards, page_items, items_between_notes, run, how_far)
    new_channel = channel or partial(Threads, registry.settings.ranges_at_once)
    acceptors = registry.endpoints.active.acceptors
    with ExitStack() as opened:
        passes: list[_EndpointPass] = []
        for slot, acceptor in enumerate(acceptors):
            if acceptor is not None:
                endpoint = opened.enter_context(closing(registry.endpoints.alone(acceptor, new_channel())))
                passes.append(_EndpointPass(share, slot, acceptor, endpoint))
        run([one.run for one in passes], partial(_stop, passes))
        if not any(one.problem for one in passes):
            for one in passes:
                one.position.forget()
        done = {one.slot: one.result() for one in passes}
    out = "out of use until a repair of it has ended"
    return [done.get(slot, EndpointGc(slot, StoreSize(0, 0), problem=out)) for slot in range(len(acceptors))]


def _stop(passes: Sequence[_EndpointPass]) -> None:
    for one in passes:
        one.stop()


@dataclass(frozen=True)
class _Share:
    """What the passes at all endpoints have in common."""

    registry: QuorumRegistry
    register: Register
    shards: Sequence[str]
    page_items: int
    items_between_notes: int
    run: AtOnce
    how_far: HowFar


class _EndpointPass:
    """The pass at one endpoint."""

    def __init__(self, share: _Share, slot: int, acceptor: Acceptor, endpoint: Endpoints) -> None:
        """`endpoint` is the acceptor alone, over a channel of its own."""
        self.slot = slot
        self.problem = ""
        self.position = PositionItem(endpoint, "gc")
        self._share = share
        self._acceptor = acceptor
        self._endpoint = endpoint
        self._before: StoreSize | None = None
        self._deleted = StoreSize(0, 0)
        self._counting = threading.Lock()
        self._ranges: Ranges | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Delete all there is to delete in these shards, or as much as the endpoint lets us."""
        share, registry = self._share, self._share.registry
        self._before = self._size()
        try:
            list(until_answered(self._ask_for_boundary, [REGISTER_KEY], registry.deadline()))
            fault_point("gc.after_register")
            self._ranges = self._new_ranges()
            if not self._is_stopped:
                self._ranges.work_through(self._delete_range, registry.settings.ranges_at_once, share.run)
        except Unanswered as unanswered:
            self.problem = str(unanswered)
        fault_point("gc.after_endpoint")

    def stop(self) -> None:
        """End after the pages that are under way: the pass at another endpoint died."""
        self._is_stopped = True
        if self._ranges is not None:
            self._ranges.stop()

    def result(self) -> EndpointGc:
        """What came of it."""
        return EndpointGc(self.slot, self._deleted, self._before, self._size(), self.problem)

    def _ask_for_boundary(self, keys: Sequence[ItemKey]) -> list[Stored | NoReply]:
        """Whether the endpoint's own copy of the register has the boundary; it may have missed the change."""
        (reply,) = self._acceptor.read(keys)
        if isinstance(reply, NoReply):
            return [reply]
        if reply.value is not None and decode_register(reply.value).has_boundary_of(self._share.register):
            return [reply]
        self._share.registry.register.change(lambda now: now)  # a round goes to every endpoint
        return [NoReply("it does not take the register")]

    def _new_ranges(self) -> Ranges:
        """All shards, or those that are left of a pass with this very boundary."""
        share = self._share
        incarnation = share.register.members.incarnations[self.slot]
        work = f"gc of {incarnation} below {share.register.boundary_us}"
        found = self.position.read(share.registry.deadline())
        now_us, between = share.registry.clock.now_us, share.items_between_notes
        return Ranges(share.shards, work, self.position, now_us, found, between, share.how_far)

    def _delete_range(self, shard: str, after: ItemKey | None) -> Iterator[tuple[ItemKey | None, int]]:
        """Delete page by page what is below the boundary, in all of a shard whose keys do not say."""
        register = self._share.register
        boundary_us = register.boundary_us
        assert boundary_us is not None, "gc deletes nothing without a boundary"
        below = "" if is_fixed(shard) else sortable_time(boundary_us)
        while True:
            page = self._page(shard, below, after)
            self._delete([item for item in page.items if is_below_boundary(item.key, item.time, register)])
            fault_point("gc.after_page")
            yield page.last, len(page.items)
            if page.last is None:
                return
            after = page.last

    def _page(self, shard: str, below: str, after: ItemKey | None) -> Page:
        def ask(afters: Sequence[ItemKey | None]) -> list[Page | NoReply]:
            pages = self._endpoint.ask(self._scan, [(shard, below, one) for one in afters], 1, all_of_them)
            return [page for (page,) in pages]

        ((_, page),) = until_answered(ask, [after], self._share.registry.deadline())
        return page

    def _scan(
        self, acceptor: Acceptor, wanted: Sequence[tuple[str, str, ItemKey | None]]
    ) -> list[Page | NoReply]:
        return [acceptor.scan_shard(*one, self._share.page_items) for one in wanted]

    def _delete(self, items: Sequence[Scanned]) -> None:
        def ask(left: Sequence[Scanned]) -> list[WriteReply]:
            # Of ids without a time only the very item that was read: it may have been made anew since.
            deletes = [Delete(item.key, item.time) for item in left]
            replies = self._endpoint.ask(
                lambda a, b: a.delete(b), deletes, self._acceptor.writes_per_request, all_of_them
            )
            return [reply for (reply,) in replies]

        replies = until_answered(ask, items, self._share.registry.deadline())
        deleted = [item for item, reply in replies if isinstance(reply, Done)]
        with self._counting:
            before, more_bytes = self._deleted, sum(map(item_bytes, deleted))
            self._deleted = StoreSize(before.items + len(deleted), (before.bytes or 0) + more_bytes)

    def _size(self) -> StoreSize | None:
        size = self._acceptor.size()
        return size if isinstance(size, StoreSize) else None
