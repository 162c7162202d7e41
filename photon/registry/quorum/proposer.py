"""The IdRegistry over 1, 3 or 5 endpoints: calls made of rounds, with conflicts within a call and retries."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from photon.clock import Clock, microseconds
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Registry
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.decisions import value_to_commit, value_to_release
from photon.registry.consensus.layout import (
    Held,
    ItemKey,
    fenced_epoch,
    holder_of,
    is_too_old,
    item_key,
)
from photon.registry.consensus.register import Members, Register
from photon.registry.endpoints.breaker import Breaker
from photon.registry.endpoints.deadline import MACHINE_CHANCE, Deadline
from photon.registry.endpoints.endpoints import Channel, Endpoints, Reopen, Threads
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    CommitOutcome,
    Fenced,
    Free,
    Joined,
    LookupOutcome,
    Lost,
    RegistryUnavailable,
    Released,
    ReleaseOutcome,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.register_store import RegisterStore
from photon.registry.quorum.rounds import Contender, Reading, Rounds, holders_of, tokens_of

Outcome = TypeVar("Outcome")
Found = TypeVar("Found")

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
        breaker = Breaker(len(acceptors), clock)
        channel = channel or Threads(settings.concurrent_requests)
        self.endpoints = Endpoints(acceptors, channel, clock, chance, breaker, members, reopen)
        self.settings = settings
        self.clock = clock
        self.register = RegisterStore(self.endpoints, settings)
        self._rounds = Rounds(self.endpoints, self.register)
        self._moves_horizon = threading.Lock()  # held while it is moved in the background
        self._horizon_lead_us = self._draw_lead()

    def close(self) -> None:
        """End the threads; the registry can't be used afterwards."""
        self.endpoints.close()

    def deadline(self) -> Deadline:
        """The end of a call that begins now, unless it gets on."""
        return self.endpoints.deadline(self.settings.total_timeout.total_seconds())

    # -- the interface

    def lookup(self, keys: Sequence[EventKey]) -> list[LookupOutcome]:
        places = self._places(keys)
        wanted = list(dict.fromkeys(place for place in places if isinstance(place, ItemKey)))
        reading = holders_of(wanted)
        register = self._until_read(reading) if wanted else None
        outcomes: list[LookupOutcome] = []
        for key, place in zip(keys, places, strict=True):
            if not isinstance(place, ItemKey):
                outcomes.append(place)
            elif register is not None and is_too_old(key, register):
                outcomes.append(TooOld())
            else:
                holder = reading.found[place]
                outcomes.append(Free() if holder is None else Joined(holder))
        return outcomes

    def commit(self, claims: Sequence[Claim]) -> list[CommitOutcome]:
        try:
            places = self._places_to_commit(claims)
        except RegistryUnavailable as error:
            return [Unknown(str(error))] * len(claims)
        contenders = {
            index: Contender(claim, place)
            for index, (claim, place) in enumerate(zip(claims, places, strict=True))
            if isinstance(place, ItemKey)
        }
        outcomes = self._in_waves(contenders, self._try_commit, _outcome_of_commit, outcome_of_follower)
        return [
            outcomes[index] if isinstance(place, ItemKey) else place for index, place in enumerate(places)
        ]

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        try:
            contenders = self._contenders(claims, needs_ballot=True)
        except RegistryUnavailable as error:
            return [Unknown(str(error))] * len(claims)
        outcomes = self._in_waves(contenders, self._try_release, _outcome_of_release, _same_token_only)
        return [outcomes[index] for index in range(len(claims))]

    def tokens_anywhere(self, keys: Sequence[EventKey]) -> list[frozenset[str]]:
        """The tokens that any endpoint has for each id, chosen or not: the caller knows which has a row.

        An endpoint that was down when an id was cleared still has its token. RegistryUnavailable if no
        majority answers for all of them.
        """
        items = self._items(keys)
        reading = tokens_of(list(dict.fromkeys(items)))
        if items:
            self._until_read(reading)
        return [reading.found[item] for item in items]

    def clear(self, claims: Sequence[Claim]) -> int:
        """Also raises RegistryUnavailable if some got no answer: clearing can be repeated."""
        waiting = self._contenders(claims)
        changed: set[ItemKey] = set()  # an id may change at one endpoint after the other
        while waiting:
            wave, waiting = _one_of_each(waiting)
            left = list(wave.values())
            deadline = self.deadline()
            while left:
                pending = left
                cleared, left = self._rounds.clear(pending)
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
    ) -> dict[int, Outcome]:
        """Outcomes by index. Claims for one id go in turn: a request that names it twice is refused (B7)."""
        outcomes: dict[int, Outcome] = {}
        waiting = dict(contenders)
        while waiting:
            wave, rest = _one_of_each(waiting)
            self._until_decided(list(wave.values()), attempt)
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

    def _until_decided(self, contenders: list[Contender], attempt: Callable[[list[Contender]], None]) -> None:
        deadline = self.deadline()
        pending = contenders
        while pending:
            attempt(pending)
            left = [contender for contender in pending if contender.verdict is None]
            if len(left) < len(pending):
                deadline.renew()
            pending = left
            if pending and not deadline.pause():
                return

    def _try_commit(self, contenders: list[Contender]) -> None:
        fast = [contender for contender in contenders if not contender.needs_ballot]
        if fast:
            self._rounds.fast(fast)
        classic = [c for c in contenders if c.needs_ballot and c.verdict is None]
        if classic:
            self._rounds.classic(classic, value_to_commit)

    def _try_release(self, contenders: list[Contender]) -> None:
        self._rounds.classic(contenders, value_to_release)

    def _until_read(self, reading: Reading[Found]) -> Register:
        """The register that confirms all that was found. RegistryUnavailable if that can't be had."""
        deadline, known = self.deadline(), 0
        while True:
            register = self._rounds.read(reading)
            if register is not None:
                return register
            if len(reading.found) > known:
                deadline.renew()
            known = len(reading.found)
            if not deadline.pause():
                raise RegistryUnavailable(f"the registry does not answer: {reading.reason}")

    # -- where events lie

    def _register_for(self, keys: Sequence[EventKey]) -> Register:
        """A register whose horizon, if it has one, is ahead of all keys that are not too far ahead (C3)."""
        known = self._rounds.known
        if known is None:
            known = self._rounds.known = self.register.read()
        horizon_us, now_us = known.horizon_us, self.clock.now_us()
        if horizon_us is None:
            return known
        if any(key.time_us is not None and key.time_us >= horizon_us for key in keys):
            known = self._rounds.known = self.register.advance_horizon(now_us)
        elif now_us + self._horizon_lead_us > horizon_us:
            self._move_horizon_in_background()
        return known

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

    def _places(self, keys: Sequence[EventKey]) -> list[ItemKey | TooOld | BeyondHorizon]:
        """The item of each event, or why it has none. RegistryUnavailable if the register is not there."""
        if not keys:
            return []  # nobody is asked
        register = self._register_for(keys)
        return [_place(key, register) for key in keys]

    def _places_to_commit(self, claims: Sequence[Claim]) -> list[ItemKey | TooOld | BeyondHorizon | Fenced]:
        if not claims:
            return []  # nobody is asked
        register = self._register_for([claim.key for claim in claims])
        epochs = (fenced_epoch(claim.token, register) for claim in claims)
        return [
            _place(claim.key, register) if epoch is None else Fenced(epoch)
            for claim, epoch in zip(claims, epochs, strict=True)
        ]

    def _items(self, keys: Sequence[EventKey]) -> list[ItemKey]:
        """The item of each event, wherever boundary and horizon are: it was registered once."""
        if not keys:
            return []
        configs = self._register_for(keys).configs
        return [item_key(key, configs) for key in keys]

    def _contenders(self, claims: Sequence[Claim], needs_ballot: bool = False) -> dict[int, Contender]:
        items = self._items([claim.key for claim in claims])
        return {
            index: Contender(claim, item, needs_ballot)
            for index, (claim, item) in enumerate(zip(claims, items, strict=True))
        }


def _place(key: EventKey, register: Register) -> ItemKey | TooOld | BeyondHorizon:
    if key.time_us is not None and register.horizon_us is not None and key.time_us >= register.horizon_us:
        return BeyondHorizon()
    return TooOld() if is_too_old(key, register) else item_key(key, register.configs)


def _one_of_each(
    contenders: Mapping[int, Contender],
) -> tuple[dict[int, Contender], dict[int, Contender]]:
    """The first contender for each item, in the order of items, and the others.

    Requests are cut from that order: one that writes neighbours touches one page of the store's tree, where
    100 scattered ids touch dozens. dynoxide commits 1.3 times as many.
    """
    first: dict[ItemKey, int] = {}
    for index, contender in contenders.items():
        first.setdefault(contender.item, index)
    indices = set(first.values())
    rest = {index: contender for index, contender in contenders.items() if index not in indices}
    return {first[item]: contenders[first[item]] for item in sorted(first)}, rest


def _outcome_of_commit(contender: Contender) -> CommitOutcome:
    register = contender.confirmed_by
    if register is not None:  # boundary and epoch are checked after the win (protocol C1, B18)
        epoch = fenced_epoch(contender.claim.token, register)
        if epoch is not None:
            return Fenced(epoch)
        if is_too_old(contender.claim.key, register):
            return TooOld()
    return Unknown(contender.reason) if contender.verdict is None else contender.verdict


def _outcome_of_release(contender: Contender) -> ReleaseOutcome:
    match contender.verdict:
        case Released() | Lost() as outcome:
            return outcome
    return Unknown(contender.reason)


def outcome_of_follower(leader: str, outcome: CommitOutcome, token: str) -> CommitOutcome | None:
    """What a claim with `token` gets after one with `leader` for the same id; None: it must ask itself."""
    if token == leader:
        return outcome
    match outcome:
        case Won():
            return Lost(holder_of(Held(leader)))
        case Lost(holder) if holder.token != token:
            return outcome
        case Unknown():
            return outcome
    # It may be the holder itself (protocol B16), or its record may say another time than the leader's.
    return None


def _same_token_only(leader: str, outcome: ReleaseOutcome, token: str) -> ReleaseOutcome | None:
    return outcome if token == leader else None
