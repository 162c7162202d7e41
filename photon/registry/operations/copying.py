"""Copy the ids of a registry to a new store, and compare all stores afterwards, several shards at once.

    a window of a shard at a majority of the other endpoints -> check (B11) -> of each id
      the same at a majority, with no later promise: copied as it is
      anything else: chosen again by a majority, at a new ballot, then copied

Why that is safe: docs/proof.md.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from photon.errors import UserError
from photon.faults import fault_point
from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus.acceptor import (
    ABSENT,
    Accept,
    Acceptor,
    Insert,
    NoReply,
    Page,
    Prepare,
    Scanned,
    Stored,
)
from photon.registry.consensus.decisions import ballot, majority, next_counter, recover, votes_of
from photon.registry.consensus.layout import ItemKey, is_below_boundary
from photon.registry.consensus.quorums import Enough, all_of_them, answered
from photon.registry.endpoints.deadline import Reply, Request, Unanswered, until_answered
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.operations.ranges import AtOnce, Ranges
from photon.registry.quorum.proposer import QuorumRegistry

PATIENCE_SECONDS = 120.0  # without any progress
EXTRA_SECONDS = 10.0  # the same for an endpoint that the comparison can do without
PAGE_ITEMS = 1_000  # of a shard, read and copied together: bounds memory
SUPERSEDED = "another repair has changed the registry's endpoints since; run this one again if need be"


class RepairSuperseded(UserError):
    """Another repair has changed the members since: what this one did does not count."""


Copies = Sequence[Scanned]  # of one id, as several endpoints have it


@dataclass(frozen=True, slots=True)
class Window:
    """All ids of a shard up to `last` (None: to its end), as each of `slots` has them."""

    slots: Sequence[int]
    ids: Sequence[Copies]
    last: ItemKey | None


def window_of(pages: Mapping[int, Page]) -> Window:
    """What pages of several endpoints, which begin behind the same key, have in common. Pure."""
    ends = [page.last for page in pages.values() if page.last is not None]
    last = min(ends, default=None)
    ids: dict[ItemKey, list[Scanned]] = {}
    for page in pages.values():
        for item in page.items:
            if last is None or item.key <= last:
                ids.setdefault(item.key, []).append(item)
    return Window(tuple(pages), tuple(ids.values()), last)


def settled(copies: Copies, n: int) -> Scanned | None:
    """A copy that may be copied as it is: a majority of n has the same, and has promised nothing later. Pure.

    A later promise may be that of an attempt under earlier members, whose accept is still on its way.
    """
    alike = Counter(
        (c.stored.value, c.stored.accepted)
        for c in copies
        if c.stored.value is not None and c.stored.promised <= c.stored.accepted
    )
    for (value, accepted), count in alike.items():
        if count >= majority(n):
            same = (c for c in copies if (c.stored.value, c.stored.accepted) == (value, accepted))
            return next(same)
    return None


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


class Copying:
    """Copying and comparing ids under one membership. Thread-safe."""

    def __init__(self, registry: QuorumRegistry, active: ActiveEndpoints, page_items: int) -> None:
        self._endpoints = registry.endpoints
        self._register = registry.register
        self._at_once = registry.settings.ranges_at_once
        self._known = registry.register.read()
        self._active = active
        self._page_items = page_items
        self._proposer = registry.endpoints.new_proposer()
        self._counting = threading.Lock()
        self._count = 0
        self._silent: set[int] = set()  # slots that the comparison does not wait for any more

    # -- the two passes

    def copy_to(self, store: Acceptor, ranges: Ranges, run: AtOnce) -> int:
        """Copy every id of these ranges that a majority may have chosen to the store; how many.

        Before the store counts. The comparison can't do this: it runs when the store is up, and an empty
        store in a majority takes a won id for a free one.
        """
        target = self._endpoints.alone(store)
        try:
            ranges.work_through(partial(self._copy_shard, target), self._at_once, run)
        except Unanswered as error:
            raise RegistryUnavailable(
                f"the endpoint that is being repaired does not answer: {error}"
            ) from error
        return self._count

    def compare(self, ranges: Ranges, run: AtOnce) -> int:
        """Choose every id again at which the endpoints differ; how many. With all up, they then agree."""
        ranges.work_through(self._compare_shard, self._at_once, run)
        return self._count

    def _copy_shard(
        self, target: Endpoints, shard: str, after: ItemKey | None
    ) -> Iterator[tuple[ItemKey | None, int]]:
        for window in self._windows(shard, after, of_all=False):
            self._add(self._copy([copies for copies in window.ids if self._is_kept(copies)], target))
            fault_point("repair.after_page")
            yield window.last, len(window.ids)

    def _compare_shard(self, shard: str, after: ItemKey | None) -> Iterator[tuple[ItemKey | None, int]]:
        for window in self._windows(shard, after, of_all=True):
            differing = [c for c in window.ids if self._is_kept(c) and _differ(c, len(window.slots))]
            self._add(sum(one.value is not None for one in self._mend(differing, len(window.slots))))
            fault_point("repair.after_compared")
            yield window.last, len(window.ids)

    def _add(self, count: int) -> None:
        with self._counting:
            self._count += count

    # -- copying

    def _copy(self, ids: Sequence[Copies], target: Endpoints) -> int:
        as_they_are, again = self._divide(ids)
        if as_they_are:
            self._confirm()
        chosen = self._choose_again(again)
        # Where there is something already, an earlier run of this repair has copied it.
        fast = [Insert(i.key, i.stored.value or "", i.time) for i in as_they_are if not i.stored.accepted]
        accepts = [
            Accept(i.key, i.stored.accepted, i.stored.value or "", i.time)
            for i in as_they_are
            if i.stored.accepted
        ]
        accepts += [Accept(c.item.key, c.ballot, c.value, c.item.time) for c in chosen if c.value is not None]
        prepares = [Prepare(c.item.key, c.ballot, c.item.time) for c in chosen if c.value is None]
        self._ask_alone(target.insert, fast)
        self._ask_alone(target.accept, accepts)
        self._ask_alone(target.prepare, prepares)
        return len(as_they_are) + len(chosen)

    def _divide(self, ids: Sequence[Copies]) -> tuple[list[Scanned], list[Copies]]:
        """The ids to copy as they are, and those to choose again."""
        as_they_are: list[Scanned] = []
        again: list[Copies] = []
        for copies in ids:
            same = settled(copies, self._endpoints.n)
            if same is None:
                again.append(copies)
            else:
                as_they_are.append(same)
        return as_they_are, again

    def _ask_alone(
        self,
        send: Callable[[Sequence[Request], Enough], Sequence[list[Reply]]],
        requests: Sequence[Request],
    ) -> None:
        """Have the new store answer all of these, whatever it says. Unanswered."""
        deadline = self._endpoints.deadline(PATIENCE_SECONDS)
        for _ in until_answered(
            lambda left: [reply for (reply,) in send(left, all_of_them)], requests, deadline
        ):
            pass

    def _is_kept(self, copies: Copies) -> bool:
        """Whether gc has not passed an id: what it deletes must not come back (protocol C2)."""
        return any(not is_below_boundary(copy.key, copy.time, self._known) for copy in copies)

    # -- reading

    def _windows(self, shard: str, after: ItemKey | None, of_all: bool) -> Iterator[Window]:
        """The rest of a shard, at a majority of the endpoints, or at all that answer."""
        while True:
            window = window_of(self._pages(shard, after, of_all))
            yield window
            if window.last is None:
                return
            after = window.last

    def _pages(self, shard: str, after: ItemKey | None, of_all: bool) -> dict[int, Page]:
        q, patience, extra = majority(self._endpoints.n), PATIENCE_SECONDS, EXTRA_SECONDS
        asked = {slot for slot, acceptor in enumerate(self._active.acceptors) if acceptor is not None}
        for_majority, for_others = self._endpoints.deadline(patience), self._endpoints.deadline(extra)

        def scan(acceptor: Acceptor, batch: Sequence[ItemKey | None]) -> list[Page | NoReply]:
            return [acceptor.scan_shard(shard, "", one, self._page_items) for one in batch]

        while True:
            (replies,) = self._endpoints.ask(scan, [after], 1, all_of_them if of_all else answered(q))
            pages = {slot: reply for slot, reply in enumerate(replies) if isinstance(reply, Page)}
            missing = asked - pages.keys() - self._silent if of_all else set[int]()
            if len(pages) >= q and not missing:
                return pages
            if len(pages) >= q and not for_others.pause():
                self._silent |= missing
                return pages
            if len(pages) < q and not for_majority.pause():
                reason = next(reply.reason for reply in replies if isinstance(reply, NoReply))
                raise RegistryUnavailable(f"no majority of endpoints could be read to its end: {reason}")

    # -- the check

    def _confirm(self) -> None:
        """Wait for the check that what was read counts: the members are the same as ever (B11)."""
        deadline = self._endpoints.deadline(PATIENCE_SECONDS)
        while not self._is_confirmed():
            if not deadline.pause():
                raise RegistryUnavailable("the register does not answer")

    def _is_confirmed(self) -> bool:
        register = self._register.read_once()
        if isinstance(register, NoReply):
            return False
        if register.members != self._active.members or self._endpoints.active is not self._active:
            raise RepairSuperseded(SUPERSEDED)
        self._known = register
        return True

    # -- an identity round

    def _mend(self, ids: Sequence[Copies], endpoints: int) -> list[_Chosen]:
        """Have so many endpoints accept what each id must go on with, or a majority, if others are slow."""
        chosen: list[_Chosen] = []
        try:
            chosen.extend(self._rounds(ids, endpoints, EXTRA_SECONDS))
        except Unanswered as error:
            left = {item.key for item in error.left}
            chosen += self._choose_again([copies for copies in ids if copies[0].key in left])
        return chosen

    def _choose_again(self, ids: Sequence[Copies]) -> list[_Chosen]:
        """Have a majority accept, at a new ballot, whatever value each id must go on with."""
        try:
            return list(self._rounds(ids, majority(self._endpoints.n), PATIENCE_SECONDS))
        except Unanswered as error:
            raise RegistryUnavailable(
                f"no majority answers for {len(error.left)} ids, such as {error.left[0].key}"
            ) from error

    def _rounds(self, ids: Sequence[Copies], wanted: int, seconds: float) -> Iterator[_Chosen]:
        """Rounds until so many endpoints have accepted each id. Unanswered."""
        counters = {copies[0].key: next_counter(c.stored for c in copies) for copies in ids}

        def ask(items: Sequence[Scanned]) -> list[_Chosen | NoReply]:
            return self._identity_round(items, counters, wanted)

        deadline = self._endpoints.deadline(seconds)
        for _, chosen in until_answered(ask, [copies[0] for copies in ids], deadline, yields=True):
            yield chosen

    def _identity_round(
        self, items: Sequence[Scanned], counters: dict[ItemKey, int], wanted: int
    ) -> list[_Chosen | NoReply]:
        q, n = majority(self._endpoints.n), self._endpoints.n
        prepares = [
            Prepare(item.key, ballot(counters[item.key], self._proposer), item.time) for item in items
        ]
        promises = self._endpoints.prepare(prepares, all_of_them)
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
        answers = self._endpoints.accept(accepts, all_of_them)
        for accept, accepted in zip(accepts, answers, strict=True):
            if votes_of(accepted).accepted < wanted:
                del chosen[accept.key]
        return [chosen.get(item.key, NoReply("too few endpoints")) for item in items]


def _differ(copies: Copies, endpoints: int) -> bool:
    """Whether so many endpoints do not all have the same value."""
    values = {copy.stored.value for copy in copies}
    return len(values | ({ABSENT.value} if len(copies) < endpoints else set())) > 1
