"""Forgetting old ids at every endpoint, over any acceptors: the collection of protocol C2.

    boundary raised at a majority -> at each endpoint: its own register has the boundary
    -> shard by shard, a page at a time: what is below the boundary is deleted there

What is done is found again in the stores themselves: a pass that was killed is simply begun again, and takes
what came late as well. Why no id is won again: docs/adr/0020. How far the boundary may go belongs in
`photon.upkeep.gc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from photon.clock import Clock
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
)
from photon.registry.consensus.layout import (
    REGISTER_KEY,
    is_collected,
    is_fixed,
    shards_to_collect,
    sortable_time,
)
from photon.registry.consensus.proposer import QuorumRegistry
from photon.registry.consensus.register import Register, decode_register, with_boundary
from photon.registry.consensus.rounds import reason_of
from photon.registry.endpoints.channel import Channel, Threads
from photon.registry.endpoints.endpoints import Deadline, Endpoints
from photon.registry.operations.sizes import item_bytes

PAGE_ITEMS = 1_000  # read, then deleted, at a time: bounds memory
DELETES_IN_FLIGHT = 4  # requests at once to one endpoint: collection leaves most of it to the joins


@dataclass(frozen=True, slots=True)
class Swept:
    """What was deleted at one endpoint; with a `problem`, not all that is to go: the next pass takes it.

    Two passes at once may both count an item: stores do not tell a delete of nothing from another. Sizes are
    as the endpoint counts itself, None if it did not say.
    """

    slot: int
    deleted: StoreSize
    before: StoreSize | None = None
    after: StoreSize | None = None
    problem: str = ""


class _Stopped(Exception):
    """The endpoint does not answer; the message says what it said last."""


_NOTHING = StoreSize(0, 0)


def raise_boundary(registry: QuorumRegistry, boundary_us: int) -> Register:
    """The register with its boundary at least there, at a majority.

    RegistryUnavailable; ValueError if this is no time that a key can have.
    """
    sortable_time(boundary_us)  # before it is in the register, which never goes back
    register = registry.register.read()
    if with_boundary(register, boundary_us) != register:
        register = registry.register.change(lambda now: with_boundary(now, boundary_us))
    fault_point("collect.after_boundary")
    return register


def sweep(
    registry: QuorumRegistry,
    register: Register,
    clock: Clock,
    channel: Callable[[], Channel] = lambda: Threads(DELETES_IN_FLIGHT),
    with_fixed: bool = True,
    page_items: int = PAGE_ITEMS,
) -> list[Swept]:
    """Delete what is below the boundaries of `register`, which a majority has, at every endpoint in turn.

    `channel`: how deletes travel to one endpoint. `with_fixed`: also in the shards of ids without a time,
    which take a request each even if they are empty.
    """
    shards = [shard for shard in shards_to_collect(register) if with_fixed or not is_fixed(shard)]
    swept = []
    for slot, acceptor in enumerate(registry.endpoints.active.acceptors):
        if acceptor is None:
            swept.append(Swept(slot, _NOTHING, problem="out of use until a repair of it has ended"))
            continue
        endpoint = Endpoints([acceptor], channel(), registry.endpoints.chance)
        try:
            one = _Sweep(registry, register, clock, acceptor, endpoint, page_items)
            swept.append(one.run(slot, shards))
        finally:
            endpoint.close()
        fault_point("collect.after_endpoint")
    return swept


class _Sweep:
    """One endpoint on its way."""

    def __init__(
        self,
        registry: QuorumRegistry,
        register: Register,
        clock: Clock,
        acceptor: Acceptor,
        endpoint: Endpoints,
        page_items: int,
    ) -> None:
        self._registry = registry
        self._register = register
        self._page_items = page_items
        self._clock = clock
        self._acceptor = acceptor
        self._endpoint = endpoint
        self._items = 0
        self._bytes = 0

    def run(self, slot: int, shards: Sequence[str]) -> Swept:
        """Delete all there is to delete in these shards, or as much as the endpoint lets us."""
        before, problem = self._size(), ""
        try:
            self._bring_register()
            fault_point("collect.after_register")
            for shard in shards:
                for page in self._pages(shard):
                    self._delete([i for i in page.items if is_collected(i.key, i.time, self._register)])
                    fault_point("collect.after_page")
        except _Stopped as stopped:
            problem = str(stopped)
        return Swept(slot, StoreSize(self._items, self._bytes), before, self._size(), problem)

    def _bring_register(self) -> None:
        """Have the boundary in the endpoint's own copy of the register: it may have missed the change."""
        deadline = self._deadline()
        while True:
            (reply,) = self._acceptor.read([REGISTER_KEY])
            if isinstance(reply, Stored) and self._has_boundary(reply):
                return
            if isinstance(reply, Stored):
                self._registry.register.change(lambda now: now)  # a round goes to every endpoint
            if not deadline.pause():
                raise _Stopped(
                    reply.reason if isinstance(reply, NoReply) else "it does not take the register"
                )

    def _has_boundary(self, stored: Stored) -> bool:
        return stored.value is not None and decode_register(stored.value).has_boundary_of(self._register)

    def _pages(self, shard: str) -> Iterator[Page]:
        """What may be below the boundary; all of a shard whose keys do not say when their events were."""
        boundary_us = self._register.boundary_us
        assert boundary_us is not None, "nothing is collected without a boundary"
        below = "" if is_fixed(shard) else sortable_time(boundary_us)
        after, deadline = None, self._deadline()
        while True:
            page = self._acceptor.scan_shard(shard, below, after, self._page_items)
            if isinstance(page, NoReply):
                if not deadline.pause():
                    raise _Stopped(page.reason)
                continue
            yield page
            if page.last is None:
                return
            after = page.last
            deadline.renew()

    def _delete(self, items: Sequence[Scanned]) -> None:
        deadline, left = self._deadline(), list(items)
        while left:
            # Of ids without a time only the very item that was read: it may have been made anew since.
            deletes = [Delete(item.key, item.time) for item in left]
            replies = self._endpoint.ask(lambda a, b: a.delete(b), deletes, self._acceptor.writes_per_request)
            answers = list(zip(left, (reply for (reply,) in replies), strict=True))
            gone = [item for item, reply in answers if isinstance(reply, Done)]
            self._items += len(gone)
            self._bytes += sum(map(item_bytes, gone))
            left = [item for item, reply in answers if isinstance(reply, NoReply)]
            if gone:
                deadline.renew()
            if left and not deadline.pause():
                raise _Stopped(reason_of([reply for _, reply in answers]))

    def _size(self) -> StoreSize | None:
        size = self._acceptor.size()
        return size if isinstance(size, StoreSize) else None

    def _deadline(self) -> Deadline:
        seconds = self._registry.settings.total_timeout.total_seconds()
        return Deadline(self._clock, seconds, self._registry.endpoints.chance)
