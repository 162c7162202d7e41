"""The IdRegistry over 1, 3 or 5 endpoints: calls made of rounds, with conflicts within a call and retries."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

import numpy as np

from photon.clock import Clock, microseconds
from photon.ledger.errors import RegistryUnavailable, no_answer
from photon.measures import Meter
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.columns import (
    Indices,
    ItemColumn,
    beyond_horizon,
    distinct_in_order,
    fenced,
    first_of_each,
    item_column,
    too_old,
)
from photon.registry.consensus.decisions import fast_quorum, value_to_commit, value_to_release
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.register import Members, Register
from photon.registry.endpoints.channel import Channel, Threads
from photon.registry.endpoints.deadline import MACHINE_CHANCE, Deadline
from photon.registry.endpoints.endpoints import Endpoints, Reopen
from photon.registry.endpoints.health import Health
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    ClaimColumns,
    CommitOutcome,
    Fenced,
    Free,
    Joined,
    KeyColumns,
    LookupOutcome,
    Outcomes,
    ReleaseOutcome,
    TooOld,
    Unknown,
)
from photon.registry.quorum.clearing import Clearing
from photon.registry.quorum.contender import Contender, one_of_each, undecided
from photon.registry.quorum.mark_store import MarkStore
from photon.registry.quorum.measuring import measuring
from photon.registry.quorum.outcomes import (
    Settling,
    outcome_of_commit,
    outcome_of_follower,
    outcome_of_release,
    same_token_only,
    settle_winners,
)
from photon.registry.quorum.reading import Reading, holders_of, possible_holders_of, tokens_of
from photon.registry.quorum.register_store import RegisterStore
from photon.registry.quorum.rounds import Rounds

Outcome = TypeVar("Outcome")
Found = TypeVar("Found")
Judge = Callable[[Contender], CommitOutcome]  # what the rounds came to for a claim

log = logging.getLogger(__name__)


class QuorumRegistry:
    """An IdRegistry (see `photon.registry.interface`). Thread-safe."""

    def __init__(
        self,
        acceptors: Sequence[Acceptor],
        settings: Registry,
        clock: Clock,
        channel: Channel | None = None,
        chance: random.Random = MACHINE_CHANCE,
        members: Members | None = None,
        reopen: Reopen | None = None,
    ) -> None:
        self.health = Health(len(acceptors), clock)
        channel = channel or Threads(settings.concurrent_requests)
        self.endpoints = Endpoints(acceptors, channel, clock, chance, self.health, members, reopen)
        self.settings = settings
        self.clock = clock
        self.register = RegisterStore(self.endpoints, settings)
        self.marks = MarkStore(self.endpoints, self.register, settings)
        self._rounds = Rounds(self.endpoints, self.register)
        self._clearing = Clearing(self._rounds)
        self._moves_horizon = threading.Lock()  # held while it is moved in the background
        self._horizon_lead_us = self._draw_lead()

    def close(self) -> None:
        """End the threads; the registry can't be used afterwards."""
        self.endpoints.close()

    def deadline(self) -> Deadline:
        """The end of work that begins now, unless it gets on."""
        return self.endpoints.deadline(self.settings.total_timeout.total_seconds())

    def _call(self) -> AbstractContextManager[Deadline]:
        """A call of the interface, which nothing outlives that is asked in it."""
        return self.endpoints.call(self.settings.total_timeout.total_seconds())

    @property
    def meter(self) -> Meter:
        """What is counted and timed of calls and requests."""
        return self.health.meter

    # -- the interface

    def lookup(self, keys: Sequence[EventKey]) -> Outcomes[LookupOutcome]:
        keys = KeyColumns.of(keys)
        if not keys:
            return Outcomes.of([])  # nobody is asked
        with self._call() as deadline, measuring(self.meter, self.clock, "lookup", len(keys)):
            return self._lookup(keys, deadline)

    def _lookup(self, keys: KeyColumns, deadline: Deadline) -> Outcomes[LookupOutcome]:
        settling: Settling[LookupOutcome] = Settling(len(keys))
        register = self._register_for(keys)
        settling.settle(too_old(keys, register), TooOld())
        settling.settle(beyond_horizon(keys, register), BeyondHorizon())
        asked = settling.open()
        if len(asked):
            items = item_column(keys.take(asked), register.configs)
            reading, place = _reading_of(items, holders_of)
            register = self._until_read(reading, deadline)
            settling.settle(asked, Free())
            joined = {i: Joined(holder) for i, holder in reading.found.items() if holder is not None}
            there = np.isin(place, list(joined))
            settling.settle_each(asked[there].tolist(), [joined[index] for index in place[there].tolist()])
            settling.settle(asked[too_old(keys, register)[asked]], TooOld())
        return settling.outcomes()

    def commit(self, claims: Sequence[Claim]) -> Outcomes[CommitOutcome]:
        claims = ClaimColumns.of(claims)
        if not claims:
            return Outcomes.of([])  # nobody is asked
        with self._call() as deadline, measuring(self.meter, self.clock, "commit", len(claims)):
            outcomes = self._commit(claims, deadline)
            self.meter.count("registry_unanswered_ids", "commit", by=int(outcomes.are(Unknown).sum()))
            return outcomes

    def put_back(self, claims: Sequence[Claim]) -> Outcomes[CommitOutcome]:
        """Register ids of rows that a table has, each for its row's token, as `commit` does (protocol B19).

        Their epochs may be over, and their times beyond the horizon, which is moved on. RegistryUnavailable.
        """
        claims = ClaimColumns.of(claims)
        known = self._register_for(claims.keys)
        if beyond_horizon(claims.keys, known).any():
            latest_us = max(key.event_us or 0 for key in claims.keys)
            self._rounds.known = self.register.advance_horizon(latest_us)
        with self._call() as deadline:
            return self._commit(claims, deadline, of_rows=True)

    def _commit(
        self, claims: ClaimColumns, deadline: Deadline, of_rows: bool = False
    ) -> Outcomes[CommitOutcome]:
        settling: Settling[CommitOutcome] = Settling(len(claims))
        try:
            register = self._register_for_claims(claims)
        except RegistryUnavailable as error:
            settling.settle(settling.open(), Unknown(str(error)))
            return settling.outcomes()
        settling.settle(too_old(claims.keys, register), TooOld())
        settling.settle(beyond_horizon(claims.keys, register), BeyondHorizon())
        for index, epoch in fenced(claims.tokens, register).items() if not of_rows else ():
            settling.settle(index, Fenced(epoch))
        asked = settling.open()
        if len(asked):
            items = item_column(claims.keys.take(asked), register.configs)
            leaders = first_of_each(items)
            firsts = distinct_in_order(items, leaders)
            outcome = partial(outcome_of_commit, of_rows=of_rows)
            self._commit_distinct(
                settling, asked[firsts], claims, items.take(firsts), deadline, outcome, of_rows
            )
            self._commit_followers(settling, asked, leaders, claims, items, deadline, outcome)
        return settling.outcomes()

    def _commit_distinct(
        self,
        settling: Settling[CommitOutcome],
        indices: Indices,
        claims: ClaimColumns,
        items: ItemColumn,
        deadline: Deadline,
        outcome: Judge,
        of_rows: bool,
    ) -> None:
        """Settle the claims with these indices, each for another item."""
        own = claims.take(indices)
        attempt = self._rounds.fast(own, items, self._needs_promises())
        if attempt.confirmed_by is not None:
            settle_winners(settling, indices, own, attempt.won, attempt.confirmed_by, of_rows)
        if attempt.won.any():
            deadline.renew()
        contenders = list(attempt.others.values())
        self._classic_where_needed(contenders)
        self._until_decided(contenders, self._try_commit, deadline)
        for index, contender in attempt.others.items():
            settling.settle(int(indices[index]), outcome(contender))

    def _commit_followers(
        self,
        settling: Settling[CommitOutcome],
        asked: Indices,
        leaders: Indices,
        claims: ClaimColumns,
        items: ItemColumn,
        deadline: Deadline,
        outcome: Judge,
    ) -> None:
        """Settle the claims for items that another claim of the call was made for before (protocol B7)."""
        waiting: dict[int, Contender] = {}
        for place in np.flatnonzero(leaders != np.arange(len(leaders))).tolist():
            index, leader = int(asked[place]), int(asked[leaders[place]])
            claim, led_by = claims[index], claims.tokens[leader].as_py()
            followed = outcome_of_follower(led_by, settling[leader], claim.token)
            if followed is None:
                waiting[index] = Contender(claim, items[place])
            else:
                settling.settle(index, followed)
        attempt, follow = self._try_commit, outcome_of_follower
        for index, settled in self._in_waves(waiting, attempt, outcome, follow, deadline).items():
            settling.settle(index, settled)

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        try:
            items = self._items([claim.key for claim in claims])
        except RegistryUnavailable as error:
            return [Unknown(str(error))] * len(claims)
        return self.release_items(items, claims)

    def release_items(self, items: Sequence[ItemKey], claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        """Release tokens of items that a scan has found: not every item's key tells its event's id."""
        with self._call() as deadline:
            both = zip(items, claims, strict=True)
            contenders = {
                i: Contender(claim, item, needs_ballot=True) for i, (item, claim) in enumerate(both)
            }
            attempt, follow = self._try_release, same_token_only
            outcomes = self._in_waves(contenders, attempt, outcome_of_release, follow, deadline)
            return [outcomes[index] for index in range(len(claims))]

    def tokens_anywhere(self, keys: Sequence[EventKey]) -> list[frozenset[str]]:
        """The tokens that any endpoint has for each id, chosen or not: the caller knows which has a row.

        An endpoint that was down when an id was cleared still has its token. RegistryUnavailable if no
        majority answers for all of them.
        """
        if not keys:
            return []
        with self._call() as deadline:
            reading, place = _reading_of(ItemColumn.of(self._items(keys)), tokens_of)
            self._until_read(reading, deadline)
        return [reading.found.get(index, frozenset()) for index in place.tolist()]

    def lookup_surely(self, keys: Sequence[EventKey]) -> Sequence[LookupOutcome]:
        """`lookup`, in which an id is free only if certainly nobody holds it (protocol A23).

        While an endpoint is silent `lookup` calls an id free that it can't prove to be held.
        """
        keys = KeyColumns.of(keys)
        if not keys:
            return []
        with self._call() as deadline:
            outcomes = list(self._lookup(keys, deadline))
            free = np.flatnonzero([isinstance(outcome, Free) for outcome in outcomes])
            if len(free):
                reading, place = _reading_of(ItemColumn.of(self._items(keys.take(free))), possible_holders_of)
                self._until_read(reading, deadline)
                for index, found in zip(free.tolist(), map(reading.found.get, place.tolist()), strict=True):
                    outcomes[index] = Free() if found is None else Joined(found)
        return outcomes

    def clear(self, claims: Sequence[Claim]) -> int:
        """Also raises RegistryUnavailable if some got no answer: clearing can be repeated."""
        changed: set[ItemKey] = set()  # an id may change at one endpoint after the other
        with self._call() as deadline:
            waiting = self._contenders(claims)
            while waiting:
                wave, waiting = one_of_each(waiting)
                left = list(wave.values())
                while left:
                    pending = left
                    cleared, left = self._clearing.clear(pending)
                    changed |= cleared
                    if cleared or len(left) < len(pending):
                        deadline.renew()
                    if left and not deadline.pause():
                        raise RegistryUnavailable(f"{len(left)} ids could not be cleared: {left[0].reason}")
        return len(changed)

    # -- attempts until all is decided or the time is up

    def _in_waves(
        self,
        contenders: Mapping[int, Contender],
        attempt: Callable[[list[Contender]], None],
        outcome: Callable[[Contender], Outcome],
        follow: Callable[[str, Outcome, str], Outcome | None],
        deadline: Deadline,
    ) -> dict[int, Outcome]:
        """Outcomes by index. Claims for one id go in turn: a request that names it twice is refused (B7)."""
        outcomes: dict[int, Outcome] = {}
        waiting = dict(contenders)
        while waiting:
            wave, rest = one_of_each(waiting)
            those = list(wave.values())
            attempt(those)
            self._until_decided(those, attempt, deadline)
            leaders: dict[ItemKey, tuple[str, Outcome]] = {}
            for index, contender in wave.items():
                outcomes[index] = outcome(contender)
                leaders[contender.item] = (contender.claim.token, outcomes[index])
            waiting = {}
            for index, contender in rest.items():
                followed = follow(*leaders[contender.item], contender.claim.token)
                if followed is None:
                    waiting[index] = contender
                else:
                    outcomes[index] = followed
        return outcomes

    def _until_decided(
        self, contenders: list[Contender], attempt: Callable[[list[Contender]], None], deadline: Deadline
    ) -> None:
        """Try again what the first attempt left undecided, until the time is up."""
        before = len(contenders)
        while True:
            left = undecided(contenders)
            if len(left) < before:
                deadline.renew()
            if not left or not deadline.pause(outbid=any(contender.is_outbid for contender in left)):
                return
            before = len(left)
            attempt(left)

    def _try_commit(self, contenders: list[Contender]) -> None:
        fast = [contender for contender in contenders if not contender.needs_ballot]
        if fast:
            self._rounds.fast_again(fast, self._needs_promises())
        self._classic_where_needed(contenders)

    def _needs_promises(self) -> bool:
        """Whether fewer endpoints will answer in time than a fast round needs."""
        return self.endpoints.prompt() < fast_quorum(self.endpoints.n)

    def _classic_where_needed(self, contenders: list[Contender]) -> None:
        classic = [contender for contender in undecided(contenders) if contender.needs_ballot]
        if classic:
            self._rounds.classic(classic, value_to_commit)

    def _try_release(self, contenders: list[Contender]) -> None:
        self._rounds.classic(contenders, value_to_release)

    def _until_read(self, reading: Reading[Found], deadline: Deadline) -> Register:
        """The register that confirms all that was found. RegistryUnavailable if that can't be had."""
        before = len(reading.left())
        while True:
            register = self._rounds.read(reading)
            if register is not None:
                return register
            left = len(reading.left())
            if left < before:
                deadline.renew()
            before = left
            if not deadline.pause():
                raise no_answer(reading.reason)

    # -- where events lie

    def _register_for(self, keys: KeyColumns) -> Register:
        """A register whose horizon, if it has one, is ahead of all keys that are not too far ahead (C3)."""
        known = self._rounds.known
        if known is None:
            known = self._rounds.known = self.register.read()
        horizon_us, now_us = known.horizon_us, self.clock.now_us()
        if horizon_us is None:
            return known
        if beyond_horizon(keys, known).any():
            known = self._rounds.known = self.register.advance_horizon(now_us)
        elif now_us + self._horizon_lead_us > horizon_us:
            self._move_horizon_in_background()
        return known

    def _register_for_claims(self, claims: ClaimColumns) -> Register:
        register = self._register_for(claims.keys)
        if any(epoch not in register.epochs for epoch in fenced(claims.tokens, register).values()):
            # Pruned, or begun since the register was read.
            register = self._rounds.known = self.register.read()
        return register

    def _move_horizon_in_background(self) -> None:
        """Have the horizon moved on, without waiting for it (protocol B12)."""
        if not self._moves_horizon.acquire(blocking=False):
            return

        def move() -> None:
            try:
                self._rounds.known = self.register.advance_horizon(self.clock.now_us())
            except RegistryUnavailable as error:
                log.info("the horizon was not moved on: %s", error)
            finally:
                self._horizon_lead_us = self._draw_lead()
                self._moves_horizon.release()

        self.endpoints.in_background(move)

    def _draw_lead(self) -> int:
        """How far ahead of its end to move the horizon: clients differ, or all would do it at once (B12)."""
        return round(microseconds(self.settings.horizon_step) * self.endpoints.chance.uniform(0.5, 1.0))

    def _items(self, keys: Sequence[EventKey]) -> list[ItemKey]:
        """The item of each event, wherever boundary and horizon are: it was registered once."""
        if not keys:
            return []
        columns = KeyColumns.of(keys)
        return list(item_column(columns, self._register_for(columns).configs))

    def _contenders(self, claims: Sequence[Claim]) -> dict[int, Contender]:
        items = self._items([claim.key for claim in claims])
        return {
            index: Contender(claim, item)
            for index, (claim, item) in enumerate(zip(claims, items, strict=True))
        }


def _reading_of(
    items: ItemColumn, kind: Callable[[ItemColumn], Reading[Found]]
) -> tuple[Reading[Found], Indices]:
    """A read of each item once, and by index of `items` its index in the read."""
    leaders = first_of_each(items)
    firsts = distinct_in_order(items, leaders)
    place = np.empty(len(items), np.intp)
    place[firsts] = np.arange(len(firsts))
    return kind(items.take(firsts)), place[leaders]
