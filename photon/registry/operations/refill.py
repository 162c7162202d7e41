"""Filling a new store in one slot while commits go on: the repair of protocol B, over any acceptors.

    members + 1, slot down -> new store -> each id of a majority settled there and copied
    -> members + 1, slot up -> members + 1, slot counted for the register -> compare

Each step rests on those before it being chosen; a crash at any point leaves the slot down or fully up, and
running it again begins with a new store. Why this is safe: docs/adr/0017. What a store is, and who asks for a
repair, belongs in `photon.registry.operations.repair`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from photon.clock import Clock
from photon.errors import UserError
from photon.faults import fault_point
from photon.registry.consensus.acceptor import (
    ABSENT,
    Accept,
    Acceptor,
    Done,
    NoReply,
    Page,
    Prepare,
    Promised,
    Refused,
    Scanned,
    Stored,
)
from photon.registry.consensus.decisions import ballot, majority, next_counter, recover
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey, is_collected
from photon.registry.consensus.proposer import QuorumRegistry
from photon.registry.consensus.register import (
    Members,
    Register,
    with_slot_down,
    with_slot_up,
    without_fresh_slots,
)
from photon.registry.consensus.rounds import reason_of
from photon.registry.endpoints.endpoints import ActiveEndpoints, Deadline, Endpoints
from photon.registry.interface import RegistryUnavailable

Write = TypeVar("Write")
Reply = TypeVar("Reply")
Choose = Callable[[Sequence[Stored], int], str | None]  # what to go on with, given what was promised

_BEING_REPAIRED = "the endpoint that is being repaired"
PATIENCE_SECONDS = 120.0  # without any progress; a repair that gives up begins anew, so it is worth waiting
EXTRA_SECONDS = 10.0  # the same for one that can be done without
PAGE_ITEMS = 1_000  # settled at once: bounds memory, and the ids that a slow repair holds up for a moment
SUPERSEDED = "another repair has changed the registry's endpoints meanwhile; run this one again if need be"


class RepairSuperseded(UserError):
    """Another repair has changed the members meanwhile: what this one did does not count."""


@dataclass(frozen=True, slots=True)
class Refilled:
    """What a repair did: ids copied to the new store, and ids at which endpoints differed afterwards."""

    members: Members
    copied: int
    mended: int


@dataclass(frozen=True, slots=True)
class _Settled:
    """An id as a majority has it at this ballot; without a value it is only promised."""

    item: Scanned
    ballot: str
    value: str | None


def refill(
    registry: QuorumRegistry,
    slot: int,
    incarnation: str,
    make_store: Callable[[], None],
    clock: Clock,
    page_items: int = PAGE_ITEMS,
) -> Refilled:
    """Put a new store with this incarnation, which `make_store` makes empty, into a slot.

    RegistryUnavailable if no majority of the other endpoints answers, RepairSuperseded if another repair has
    begun since. Either way the slot stays down, and the repair can be run again.
    """
    endpoints, register = registry.endpoints, registry.register
    register.change(without_fresh_slots)
    _require_others(register.read().members, slot)
    _require_answers(registry, slot, clock)
    members = register.change(lambda now: _down_once(now, slot, incarnation)).members
    fault_point("repair.after_down")
    make_store()
    fault_point("repair.after_table")
    active, store = endpoints.active, endpoints.acceptors[slot]
    if active.members != members:
        raise RepairSuperseded(SUPERSEDED)
    copied = _Copying(registry, active, clock, page_items).copy_to(store)
    fault_point("repair.before_up")
    register.change(lambda now: _up_once(now, members, slot))
    fault_point("repair.after_up")
    register.change(without_fresh_slots)
    fault_point("repair.after_counted")
    mended = _Copying(registry, endpoints.active, clock, page_items).compare()
    return Refilled(register.read().members, copied, mended)


def _require_others(members: Members, slot: int) -> None:
    n = len(members.incarnations)
    if n - len({*members.down, slot}) < majority(n):
        raise RegistryUnavailable(
            f"too many endpoints are out of use (number {[s + 1 for s in members.down]}): repair those first"
        )


def _require_answers(registry: QuorumRegistry, slot: int, clock: Clock) -> None:
    """A majority of the others answers now.

    Without them the change that takes the slot out of use would stay half-way, and nobody could go on:
    neither without the slot nor, as that change may have been chosen, with it.
    """
    endpoints = registry.endpoints
    deadline = Deadline(clock, registry.settings.total_timeout.total_seconds(), endpoints.chance)
    while True:
        (replies,) = endpoints.ask(lambda acceptor, batch: acceptor.read(batch), [REGISTER_KEY], 1)
        answers = [isinstance(reply, Stored) for other, reply in enumerate(replies) if other != slot]
        if sum(answers) >= majority(endpoints.n):
            return
        if not deadline.pause():
            raise RegistryUnavailable(
                f"too few of the other endpoints answer, so nothing was changed; is number {slot + 1} the one"
                " to repair? Bring the others back, or repair the one that is lost"
            )


def _down_once(register: Register, slot: int, incarnation: str) -> Register:
    members = register.members
    if slot in members.down and members.incarnations[slot] == incarnation:
        return register  # it was done, and the answer got lost
    if members.fresh:
        raise RepairSuperseded(SUPERSEDED)
    _require_others(members, slot)
    return with_slot_down(register, slot, incarnation)


def _up_once(register: Register, members: Members, slot: int) -> Register:
    if register.members == members:
        return with_slot_up(register, slot)
    if register.members == with_slot_up(replace(register, members=members), slot).members:
        return register  # it was done, and the answer got lost
    raise RepairSuperseded(SUPERSEDED)


def _recover_or_any(promised: Sequence[Stored], n: int) -> str | None:
    """The value to go on with; for an id that is undecided any that was proposed, as in every Paxos."""
    value = recover(promised, n)
    proposed = (stored.value for stored in promised if stored.value is not None)
    return min(proposed, default=None) if value is None else value


@dataclass
class _Scan:
    """How far one endpoint has been read."""

    source: Endpoints
    after: ItemKey | None = None
    is_complete: bool = False

    def next_page(self, limit: int) -> Page | NoReply:
        """The items after those that were read; the same ones again after an endpoint that did not answer."""
        ((page,),) = self.source.ask(lambda a, batch: [a.scan(batch[0], limit)], [self.after], 1)
        if isinstance(page, Page):
            self.after, self.is_complete = page.last, page.last is None
        return page


class _Copying:
    """Settling ids under one membership, and copying them to a store."""

    def __init__(
        self, registry: QuorumRegistry, active: ActiveEndpoints, clock: Clock, page_items: int
    ) -> None:
        self._endpoints = registry.endpoints
        self._register = registry.register
        self._known = registry.register.read()
        self._active = active
        self._clock = clock
        self._page_items = page_items
        self._proposer = registry.endpoints.new_proposer()
        self._writes = min(acceptor.writes_per_request for acceptor in registry.endpoints.acceptors)
        self._reads = min(acceptor.reads_per_request for acceptor in registry.endpoints.acceptors)

    # -- the two passes

    def copy_to(self, store: Acceptor) -> int:
        """Settle every id that a majority has and copy it to the store; how many."""
        target = self._endpoints.alone(store)
        return sum(self._copy_page(page, target) for page in self._pages())

    def compare(self) -> int:
        """Settle every id at which the endpoints differ; how many. With all up, they agree after that."""
        mended = 0
        for page in self._pages(of_all=True):
            found = self._endpoints.ask(lambda a, batch: a.read(batch), [i.key for i in page], self._reads)
            values = [{r.value for r in replies if isinstance(r, Stored)} for replies in found]
            differing = [item for item, seen in zip(page, values, strict=True) if len(seen) > 1]
            mended += sum(one.value is not None for one in self._settle(differing, _recover_or_any))
        return mended

    def _copy_page(self, page: Sequence[Scanned], target: Endpoints) -> int:
        # What is in the new store was settled before it came there: only this repair writes to it.
        there = self._until_answered(target, page)
        missing = [item for item, stored in zip(page, there, strict=True) if stored == ABSENT]
        settled = self._settle(missing)
        accepts = [Accept(s.item.key, s.ballot, s.value, s.item.time) for s in settled if s.value is not None]
        prepares = [Prepare(s.item.key, s.ballot, s.item.time) for s in settled if s.value is None]
        self._until_stored(target, lambda acceptor, batch: acceptor.accept(batch), accepts)
        self._until_stored(target, lambda acceptor, batch: acceptor.prepare(batch), prepares)
        return len(settled)

    # -- scanning

    def _pages(self, of_all: bool = False) -> Iterator[Sequence[Scanned]]:
        """All ids of a majority of the endpoints, or of all that answer, each as often as one of them has it.

        Without those that collection has passed: what it deletes must not come back (protocol C2). One that
        does not answer is asked again after the others; whose turn it is does not matter.
        """
        scans = deque(_Scan(self._endpoints.alone(a)) for a in self._active.acceptors if a is not None)
        enough = len(scans) - majority(self._endpoints.n)  # so many may be left when it ends
        deadline = self._deadline()
        while scans and (of_all or len(scans) > enough):
            scan = scans[0]
            page = scan.next_page(self._page_items)
            if isinstance(page, NoReply):
                scans.rotate(-1)
                if deadline.pause():
                    continue
                if len(scans) <= enough:
                    return
                raise RegistryUnavailable(f"no majority of endpoints could be read to its end: {page.reason}")
            if scan.is_complete:
                scans.popleft()
            deadline = self._deadline(PATIENCE_SECONDS if len(scans) > enough else EXTRA_SECONDS)
            yield [item for item in page.items if self._is_kept(item)]

    def _is_kept(self, item: Scanned) -> bool:
        return item.key != REGISTER_KEY and not is_collected(item.key, item.time, self._known)

    # -- an identity round

    def _settle(self, items: Sequence[Scanned], choose: Choose = recover) -> list[_Settled]:
        """Have a majority accept, at a new ballot, whatever value each id must go on with."""
        settled: list[_Settled] = []
        left = list(items)
        counters = {item.key: next_counter([item.stored]) for item in items}
        deadline = self._deadline()
        while left:
            done = self._settle_once(left, counters, choose)
            settled += done
            keys = {one.item.key for one in done}
            left = [item for item in left if item.key not in keys]
            if done:
                deadline.renew()
            if left and not deadline.pause():
                raise RegistryUnavailable(f"no majority answers for {len(left)} ids, such as {left[0].key}")
        return settled

    def _settle_once(
        self, items: Sequence[Scanned], counters: dict[ItemKey, int], choose: Choose
    ) -> list[_Settled]:
        ballots = {item.key: ballot(counters[item.key], self._proposer) for item in items}
        for item in items:
            counters[item.key] += 1
        prepares = [Prepare(item.key, ballots[item.key], item.time) for item in items]
        promises = self._endpoints.ask(lambda a, batch: a.prepare(batch), prepares, self._writes)
        q, n = majority(self._endpoints.n), self._endpoints.n
        settled: list[_Settled] = []
        accepts: list[tuple[_Settled, Accept]] = []
        for item, replies in zip(items, promises, strict=True):
            refused = next_counter(reply.now for reply in replies if isinstance(reply, Refused))
            counters[item.key] = max(counters[item.key], refused)
            promised = [reply.before for reply in replies if isinstance(reply, Promised)]
            if len(promised) < q:
                continue
            one = _Settled(item, ballots[item.key], choose(promised, n))
            if one.value is None:
                settled.append(one)
            else:
                accepts.append((one, Accept(item.key, one.ballot, one.value, item.time)))
        # Checked between the two, or a late accept could undo what is chosen since (B11).
        if not self._is_confirmed():
            return []
        answers = self._endpoints.ask(
            lambda a, batch: a.accept(batch), [accept for _, accept in accepts], self._writes
        )
        for (one, _), accepted in zip(accepts, answers, strict=True):
            if sum(isinstance(reply, Done) for reply in accepted) >= q:
                settled.append(one)
        return settled

    def _is_confirmed(self) -> bool:
        register = self._register.read_once()
        if isinstance(register, NoReply):
            return False
        if register.members != self._active.members or self._endpoints.active is not self._active:
            raise RepairSuperseded(SUPERSEDED)
        self._known = register
        return True

    # -- the new store

    def _until_answered(self, target: Endpoints, page: Sequence[Scanned]) -> list[Stored]:
        deadline = self._deadline()
        while True:
            replies = [r for (r,) in target.ask(lambda a, b: a.read(b), [i.key for i in page], self._reads)]
            stored = [reply for reply in replies if isinstance(reply, Stored)]
            if len(stored) == len(replies):
                return stored
            if not deadline.pause():
                raise RegistryUnavailable(f"{_BEING_REPAIRED} does not answer: {reason_of(replies)}")

    def _until_stored(
        self,
        target: Endpoints,
        send: Callable[[Acceptor, Sequence[Write]], list[Reply]],
        writes: Sequence[Write],
    ) -> None:
        deadline = self._deadline()
        left = list(writes)
        while left:
            replies = target.ask(send, left, self._writes)
            # Refused: it has our own promise already, whose answer got lost.
            left = [w for w, (reply,) in zip(left, replies, strict=True) if isinstance(reply, NoReply)]
            if left and not deadline.pause():
                reason = reason_of([reply for (reply,) in replies])
                raise RegistryUnavailable(f"{_BEING_REPAIRED} does not take what it is sent: {reason}")

    def _deadline(self, seconds: float = PATIENCE_SECONDS) -> Deadline:
        return Deadline(self._clock, seconds, self._endpoints.chance)
