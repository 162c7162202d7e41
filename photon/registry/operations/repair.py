"""Repair one endpoint of a registry while commits go on: a store that lost its data, was restored, or is new.

    members + 1, slot down -> new store -> each id of a majority chosen again without the slot, and copied
    -> members + 1, slot up -> members + 1, slot counted for the register -> compare

Each step needs those before it to be chosen. A crash at any point leaves the slot down or fully up, and
running the repair again begins with a new store. A store is never asked again under its old name (protocol
B10). Why this is safe: docs/proof.md.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from photon.errors import UserError
from photon.faults import fault_point
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress, table_name
from photon.registry.consensus.acceptor import ABSENT, Accept, Acceptor, NoReply, Prepare, Scanned, Stored
from photon.registry.consensus.decisions import ballot, majority, next_counter, recover, votes_of
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey, is_below_boundary
from photon.registry.consensus.register import (
    Members,
    Register,
    with_slot_down,
    with_slot_up,
    without_fresh_slots,
)
from photon.registry.endpoints.deadline import Reply, Request, Unanswered, until_answered
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.registry.open import open_registry
from photon.registry.operations.directory import Directory, EndpointSilent, new_incarnation
from photon.registry.operations.init import ask_endpoint, find_registry
from photon.registry.quorum.proposer import QuorumRegistry

PATIENCE_SECONDS = 120.0  # without any progress; a repair that gives up begins anew, so it is worth waiting
EXTRA_SECONDS = 10.0  # the same for an endpoint that the repair can do without
PAGE_ITEMS = 1_000  # ids chosen again together: bounds memory and how many of them wait
SUPERSEDED = "another repair has changed the registry's endpoints since; run this one again if need be"

log = logging.getLogger(__name__)


class RepairSuperseded(UserError):
    """Another repair has changed the members since: what this one did does not count."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that has ended: `copied` ids, and `mended` ones at which endpoints still differed after it."""

    endpoint: str
    table: str
    members_version: int
    copied: int
    mended: int


def repair_endpoint(pipeline: Pipeline, url: str) -> Repair:
    """Fill a new table at the endpoint with this URL from a majority of the others.

    First take the endpoint out of use, whether or not it answers: so an operator can start a store that was
    restored from a copy after that. Can be run again after a failure: it begins anew. RegistryMismatch if
    this endpoint can't be repaired, RegistryUnavailable if it, or a majority of the others, does not answer,
    RepairSuperseded, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    slot = _slot_of(address, url)
    registry = open_registry(address)
    directory = Directory(address.endpoints[slot], registry.clock)
    incarnation = new_incarnation()
    table = table_name(pipeline.name, incarnation)
    old: list[str] = []

    def make_store() -> None:
        named = directory.table_of(pipeline.name)
        old.extend(_tables_there(directory, pipeline.name, address.tables[slot]))
        # After these were read: a later repair then keeps the name that it gave, and its table.
        if registry.register.read().members.incarnations[slot] != incarnation:
            raise RepairSuperseded(SUPERSEDED)
        _refuse_other_stores(pipeline, address, slot, directory, named)
        if not directory.replace_table_of(pipeline.name, named, table):
            raise RepairSuperseded(SUPERSEDED)

    done = refill(registry, slot, incarnation, make_store)
    for one in old:  # those of repairs that died among them
        _remove_if_possible(directory, one)
    return Repair(url, table, done.members.version, done.copied, done.mended)


def _slot_of(address: RegistryAddress, url: str) -> int:
    urls = [str(endpoint).rstrip("/") for endpoint in address.endpoints]
    if url.rstrip("/") not in urls:
        raise RegistryMismatch(f"{url} is no endpoint of {address.pipeline}; there are: {', '.join(urls)}")
    if len(urls) == 1:
        raise RegistryMismatch(
            f"{url} is the only endpoint of {address.pipeline}: there is nothing to repair it from."
            " Put its data back, or begin anew (docs/operations.md)"
        )
    return urls.index(url.rstrip("/"))


def _tables_there(directory: Directory, pipeline: str, known: str) -> list[str]:
    """All tables of a pipeline at an endpoint; without the right to list them, the one that is known."""
    try:
        return directory.tables_of(pipeline)
    except EndpointSilent:
        return [known]


def _refuse_other_stores(
    pipeline: Pipeline, address: RegistryAddress, slot: int, directory: Directory, named: str | None
) -> None:
    """Raise RegistryMismatch if this store belongs to another slot, or to another registry."""
    endpoint = address.endpoints[slot]
    others = {table for other, table in enumerate(address.tables) if other != slot}
    if any(directory.has(table) for table in sorted(others)):
        raise RegistryMismatch(
            f"{endpoint} is the store of another endpoint of this registry; name one of its own and repair it"
        )
    if named is None or not directory.has(named):
        return
    reply = ask_endpoint(pipeline.name, endpoint)
    if isinstance(reply, NoReply):
        raise RegistryUnavailable(f"{endpoint} does not answer ({reply.reason})")
    if reply.register is not None:
        known = {table_name(pipeline.name, name) for name in reply.register.members.incarnations}
        if not known & others:
            raise RegistryMismatch(
                f"{endpoint} has the data of another registry of {pipeline.name} (table {named});"
                " name a store of its own, or remove that table if nobody needs it, then repair it"
            )


def _remove_if_possible(directory: Directory, table: str) -> None:
    """Remove a table. The repair has ended: if it is protected, or the endpoint fell since, only say so."""
    try:
        directory.remove(table)
    except RegistryUnavailable as error:
        log.warning(
            "the table %s at %s is not needed any more, and could not be removed (%s); remove it by hand",
            table,
            directory.endpoint,
            error,
        )


# -- over any acceptors


@dataclass(frozen=True, slots=True)
class Refilled:
    """What a repair did: ids copied to the new store, and ids at which endpoints differed afterwards."""

    members: Members
    copied: int
    mended: int


def refill(
    registry: QuorumRegistry,
    slot: int,
    incarnation: str,
    make_store: Callable[[], None],
    page_items: int = PAGE_ITEMS,
) -> Refilled:
    """Put a new store with this incarnation, which `make_store` makes empty, into a slot.

    RegistryUnavailable if no majority of the other endpoints answers, RepairSuperseded if another repair has
    begun since. Either way the slot stays down, and the repair can be run again.
    """
    endpoints, register = registry.endpoints, registry.register
    register.change(without_fresh_slots)
    _require_others(register.read().members, slot)
    _require_answers(registry, slot)
    members = register.change(lambda now: _down_once(now, slot, incarnation)).members
    fault_point("repair.after_down")
    make_store()
    fault_point("repair.after_table")
    active, store = endpoints.active, endpoints.acceptors[slot]
    if active.members != members:
        raise RepairSuperseded(SUPERSEDED)
    copied = _Copying(registry, active, page_items).copy_to(store)
    fault_point("repair.before_up")
    register.change(lambda now: _up_once(now, members, slot))
    fault_point("repair.after_up")
    register.change(without_fresh_slots)
    fault_point("repair.after_counted")
    mended = _Copying(registry, endpoints.active, page_items).compare()
    return Refilled(register.read().members, copied, mended)


def _require_others(members: Members, slot: int) -> None:
    n = len(members.incarnations)
    if n - len({*members.down, slot}) < majority(n):
        raise RegistryUnavailable(
            f"too many endpoints are out of use (number {[s + 1 for s in members.down]}): repair those first"
        )


def _require_answers(registry: QuorumRegistry, slot: int) -> None:
    """A majority of the others answers now.

    Without them the change that takes the slot out of use would stay half-way, and nobody could go on:
    neither without the slot nor, as that change may have been chosen, with it.
    """
    endpoints = registry.endpoints

    def ask(keys: Sequence[ItemKey]) -> list[bool | NoReply]:
        (replies,) = endpoints.read(keys)
        answers = [isinstance(reply, Stored) for other, reply in enumerate(replies) if other != slot]
        return [True if sum(answers) >= majority(endpoints.n) else NoReply("too few")]

    try:
        list(until_answered(ask, [REGISTER_KEY], registry.deadline()))
    except Unanswered as error:
        raise RegistryUnavailable(
            f"too few of the other endpoints answer, so nothing was changed; is number {slot + 1} the one"
            " to repair? Bring the others back, or repair the one that is lost"
        ) from error


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


def recover_or_any(promised: Sequence[Stored], n: int) -> str | None:
    """The value to go on with; for an id that is undecided any that was proposed, as in every Paxos."""
    value = recover(promised, n)
    proposed = (stored.value for stored in promised if stored.value is not None)
    return min(proposed, default=None) if value is None else value


@dataclass(frozen=True, slots=True)
class _Chosen:
    """An id as a majority has it at this ballot; without a value it is only promised."""

    item: Scanned
    ballot: str
    value: str | None


class _Copying:
    """Choosing ids again under one membership, and copying them to a store."""

    def __init__(self, registry: QuorumRegistry, active: ActiveEndpoints, page_items: int) -> None:
        self._endpoints = registry.endpoints
        self._register = registry.register
        self._known = registry.register.read()
        self._active = active
        self._page_items = page_items
        self._proposer = registry.endpoints.new_proposer()

    # -- the two passes

    def copy_to(self, store: Acceptor) -> int:
        """Choose every id of a majority again and copy it to the store; how many.

        Before the store counts. The comparison can't do this: it runs when the store is up, and an empty
        store in a majority takes a won id for a free one.
        """
        target = self._endpoints.alone(store)
        try:
            return sum(self._copy_page(page, target) for page in self._pages())
        except Unanswered as error:
            raise RegistryUnavailable(
                f"the endpoint that is being repaired does not answer: {error}"
            ) from error

    def compare(self) -> int:
        """Choose every id again at which the endpoints differ; how many. With all up, they then agree."""
        mended = 0
        for page in self._pages(of_all=True):
            found = self._endpoints.read([item.key for item in page])
            values = [{r.value for r in replies if isinstance(r, Stored)} for replies in found]
            differing = [item for item, seen in zip(page, values, strict=True) if len(seen) > 1]
            mended += sum(one.value is not None for one in self._choose_again(differing))
        return mended

    def _copy_page(self, page: Sequence[Scanned], target: Endpoints) -> int:
        there = dict(self._ask_alone(target.read, [item.key for item in page]))
        # What is in the new store was chosen before it came there: only this repair writes to it.
        chosen = self._choose_again([item for item in page if there[item.key] == ABSENT])
        accepts = [Accept(c.item.key, c.ballot, c.value, c.item.time) for c in chosen if c.value is not None]
        prepares = [Prepare(c.item.key, c.ballot, c.item.time) for c in chosen if c.value is None]
        # Refused: it has our own promise already, whose answer got lost.
        self._ask_alone(target.accept, accepts)
        self._ask_alone(target.prepare, prepares)
        return len(chosen)

    def _ask_alone(
        self, send: Callable[[Sequence[Request]], list[list[Reply]]], requests: Sequence[Request]
    ) -> list[tuple[Request, Reply]]:
        """The replies of the new store. Unanswered."""
        deadline = self._endpoints.deadline(PATIENCE_SECONDS)
        return list(until_answered(lambda left: [reply for (reply,) in send(left)], requests, deadline))

    # -- scanning

    def _pages(self, of_all: bool = False) -> Iterator[Sequence[Scanned]]:
        """All ids of a majority of the endpoints, or of all that answer, each as often as one of them has it.

        Without those that gc has passed: what it deletes must not come back (protocol C2). An endpoint that
        does not answer is asked again after the others; their order does not matter.
        """
        scans: deque[tuple[Endpoints, ItemKey | None]] = deque(
            (self._endpoints.alone(acceptor), None) for acceptor in filter(None, self._active.acceptors)
        )
        enough = len(scans) - majority(self._endpoints.n)  # scans that need not come to their end
        deadline = self._endpoints.deadline(PATIENCE_SECONDS)
        while scans and (of_all or len(scans) > enough):
            endpoint, after = scans[0]
            ((page,),) = endpoint.ask(lambda a, batch: [a.scan(batch[0], self._page_items)], [after], 1)
            if isinstance(page, NoReply):
                scans.rotate(-1)
                if deadline.pause():
                    continue
                if len(scans) <= enough:
                    return
                raise RegistryUnavailable(f"no majority of endpoints could be read to its end: {page.reason}")
            scans.popleft()
            if page.last is not None:
                scans.appendleft((endpoint, page.last))
            seconds = PATIENCE_SECONDS if len(scans) > enough else EXTRA_SECONDS
            deadline = self._endpoints.deadline(seconds)
            yield [item for item in page.items if self._is_kept(item)]

    def _is_kept(self, item: Scanned) -> bool:
        return item.key != REGISTER_KEY and not is_below_boundary(item.key, item.time, self._known)

    # -- an identity round

    def _choose_again(self, items: Sequence[Scanned]) -> list[_Chosen]:
        """Have a majority accept, at a new ballot, whatever value each id must go on with."""
        counters = {item.key: next_counter([item.stored]) for item in items}
        rounds = until_answered(
            lambda left: self._identity_round(left, counters),
            items,
            self._endpoints.deadline(PATIENCE_SECONDS),
        )
        try:
            return [chosen for _, chosen in rounds]
        except Unanswered as error:
            raise RegistryUnavailable(
                f"no majority answers for {len(error.left)} ids, such as {error.left[0].key}"
            ) from error

    def _identity_round(
        self, items: Sequence[Scanned], counters: dict[ItemKey, int]
    ) -> list[_Chosen | NoReply]:
        q, n = majority(self._endpoints.n), self._endpoints.n
        prepares = [
            Prepare(item.key, ballot(counters[item.key], self._proposer), item.time) for item in items
        ]
        promises = self._endpoints.prepare(prepares)
        chosen: dict[ItemKey, _Chosen] = {}
        for item, prepare, replies in zip(items, prepares, promises, strict=True):
            votes = votes_of(replies)
            counters[item.key] = max(counters[item.key] + 1, next_counter(votes.refused))
            if len(votes.promised) >= q:
                chosen[item.key] = _Chosen(item, prepare.ballot, recover_or_any(votes.promised, n))
        # Check between the two, or a late accept could undo what was chosen since (B11).
        if not self._is_confirmed():
            return [NoReply("the register does not answer")] * len(items)
        accepts = [
            Accept(k, c.ballot, c.value, c.item.time) for k, c in chosen.items() if c.value is not None
        ]
        answers = self._endpoints.accept(accepts)
        for accept, accepted in zip(accepts, answers, strict=True):
            if votes_of(accepted).accepted < q:
                del chosen[accept.key]
        return [chosen.get(item.key, NoReply("no majority")) for item in items]

    def _is_confirmed(self) -> bool:
        register = self._register.read_once()
        if isinstance(register, NoReply):
            return False
        if register.members != self._active.members or self._endpoints.active is not self._active:
            raise RepairSuperseded(SUPERSEDED)
        self._known = register
        return True
