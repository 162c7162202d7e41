"""Positions over one, three or five stores: `photon.registry.positions`, made of rounds and reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from photon.pipeline.sections import Registry
from photon.process.measures import Meter
from photon.registry.entry import Epoch, LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.positions import Change, Chosen, EntryLost, Offer, Tail, Unconfirmed, Undecided
from photon.registry.register import Register
from photon.registry.stores.asking import ActiveStores, Stores
from photon.registry.stores.copies import (
    REGISTER_KEY,
    Key,
    NoReply,
    Store,
    beat_key,
    ledger_key,
)
from photon.registry.stores.deadline import Deadline, request_timeout
from photon.registry.stores.decisions import count_answers, majority, reason_of
from photon.registry.stores.reading import JudgedPage, Walk, judged, judged_page, walk
from photon.registry.stores.register_store import RegisterStore, register_at, register_said
from photon.registry.stores.rounds import Reservations, Reserved, Rounds

log = logging.getLogger(__name__)

R = TypeVar("R")


class StorePositions:
    """See `photon.registry.positions.Positions`."""

    def __init__(self, stores: Stores, settings: Registry) -> None:
        self.stores = stores
        self.register = RegisterStore(self.stores, request_timeout(settings).total_seconds())
        self._deadline_seconds = settings.total_timeout.total_seconds()
        self.reservations = Reservations()
        self._incarnation: int | None = None  # the ledgers' one, as it was last read
        self._lock = threading.Lock()

    @property
    def meter(self) -> Meter:
        """The measures of requests."""
        return self.stores.health.meter

    def attempt(self) -> StoreAttempt:
        """Begin an attempt. The first one of a process reads the register: RegistryUnavailable."""
        active, incarnation = self.stores.active, self._incarnation
        if incarnation is None:
            incarnation = self.read_register().incarnation
            active = self.stores.active
        return StoreAttempt(self, active, incarnation)

    def attempt_at(self, incarnation: int, told: Change) -> StoreAttempt:
        """Begin an attempt at the ledgers of an incarnation that is being filled."""
        return StoreAttempt(self, self.stores.active, incarnation, told)

    def change(self, change: Change) -> Register:
        """Replace the register by `change(register)`, which may be called again; the register after it."""
        return self.known(self.register.change(change, self.deadline()))

    def create(self, register: Register) -> Register:
        """Store the first register; if there is one already, that one stays and is returned."""
        return self.known(self.register.create(register, self.deadline()))

    def read_register(self) -> Register:
        """The register, as a majority has it at a moment after the call began; RegistryUnavailable."""
        self.meter.count("registry_round_trips")
        return self.known(self.register.read(self.deadline()))

    def forget(self, ledgers: Sequence[LedgerId], incarnation: int | None = None) -> None:
        """Delete all items of dropped ledgers, at every store that answers; late inserts may come back."""
        register = self.read_register()
        require_forgettable(register, ledgers, incarnation)
        incarnation = incarnation or register.incarnation
        left, deadline = [ledger_key(incarnation, ledger) for ledger in ledgers], self.deadline()
        while left:  # a request to each store deletes some items of a ledger
            answers = self.stores.ask(
                self.stores.active,
                lambda store, ledger: store.forget(ledger),
                left,
                lambda *_: False,
                deadline,
                is_write=True,
            )
            left = [one for one, replies in zip(left, answers, strict=True) if any(map(_has_more, replies))]
            if any(_has_deleted(reply) for replies in answers for reply in replies):
                deadline.renew()
            elif left and not deadline.pause():
                return  # a store that throttles on and on keeps them: nobody reads them any more

    def beat(self, epoch: Epoch, number: int) -> None:
        """Have a majority keep this number for the epoch, or a greater one. RegistryUnavailable."""
        self._ask_majority(lambda store, key: store.beat(key, number), [epoch], is_write=True)

    def beats(self, epochs: Sequence[Epoch]) -> Mapping[Epoch, int]:
        """The greatest number of each epoch that a majority has, 0 without one. RegistryUnavailable."""
        found = self._ask_majority(lambda store, key: store.last_beat(key), epochs)
        return {epoch: max(numbers) for epoch, numbers in zip(epochs, found, strict=True)}

    def _ask_majority(
        self, call: Callable[[Store, Key], R | NoReply], epochs: Sequence[Epoch], is_write: bool = False
    ) -> list[list[R]]:
        """The answers of the stores that count to each epoch's request, of which there are a majority."""
        active, deadline = self.stores.active, self.deadline()
        slots = [slot for slot in active.slots if slot not in active.out]
        wanted = majority(active.n)
        replies = self.stores.ask(
            active,
            call,
            [beat_key(epoch) for epoch in epochs],
            lambda _, some: count_answers(some) >= wanted,
            deadline,
            slots=slots,
            is_write=is_write,
        )
        for some in replies:
            if count_answers(some) < wanted:
                self.register.read_once(deadline)  # who slept through repairs learns whom to ask next time
                raise RegistryUnavailable(
                    f"too few stores of the registry answer for signs of life: {reason_of(some)}"
                )
        return [[one for one in some if not isinstance(one, NoReply)] for some in replies]

    def close(self) -> None:
        """Stop, once all requests that are under way are answered."""
        self.stores.close()

    # -- of an attempt

    def deadline(self) -> Deadline:
        """The end of one call."""
        return self.stores.deadline(self._deadline_seconds)

    def known(self, register: Register) -> Register:
        """The register, whose incarnation later attempts go by."""
        with self._lock:
            self._incarnation = max(register.incarnation, self._incarnation or 0)
        return register


def _has_deleted(reply: int | NoReply) -> bool:
    return not isinstance(reply, NoReply) and reply > 0


def _has_more(reply: int | NoReply) -> bool:
    return reply.kind == "throttled" if isinstance(reply, NoReply) else reply > 0


def require_forgettable(register: Register, ledgers: Sequence[LedgerId], incarnation: int | None) -> None:
    """ValueError if their generation counts. RegistryUnavailable if a copy brought their incarnation back."""
    if incarnation is not None and incarnation in (register.incarnation, register.filling):
        raise RegistryUnavailable(
            f"ledgers of {register.pipeline} that were to be deleted are in use by now: another command has "
            "changed the registry, or it was put back to a copy of before; run this one again"
        )
    for ledger in ledgers if incarnation is None else ():
        if not register.generations[ledger.generation].is_dropped:
            raise ValueError(f"the register does not call the generation of ledger {ledger} dropped")


class StoreAttempt:
    """See `photon.registry.positions.Attempt`. It keeps to the stores that were active when it began."""

    def __init__(
        self,
        positions: StorePositions,
        active: ActiveStores,
        incarnation: int,
        told: Change = lambda register: register,
    ) -> None:
        self._told = told
        self._positions = positions
        self._active = active
        self._incarnation = incarnation
        self._reserved: list[Reserved] = []  # they count once a check has confirmed them

    def offer(self, offers: Mapping[LedgerId, Offer]) -> Mapping[LedgerId, Chosen | Undecided]:
        """Offer one value to each of these ledgers, in parallel."""
        positions = self._positions
        contenders = {
            ledger: positions.reservations.contender(
                self._key(ledger, offer.position), offer.value, positions.stores.new_proposer(), self._active
            )
            for ledger, offer in offers.items()
        }
        positions.meter.count("registry_round_trips")
        rounds = Rounds(positions.stores, positions.register, judged, self._active, positions.deadline())
        rounds.offer(list(contenders.values()))
        for ledger, one in contenders.items():
            self._reserved += [] if one.next is None else [one.next]
            if one.chosen is not None:
                is_own = one.chosen == offers[ledger].value
                positions.reservations.ended(one.key.ledger, is_own)
                positions.meter.count("registry_appends", "own" if is_own else "outrun")
        return {
            ledger: Undecided(one.reason) if one.chosen is None else Chosen(one.chosen)
            for ledger, one in contenders.items()
        }

    def check(self, last: Mapping[LedgerId, tuple[int, bytes]]) -> tuple[Register, set[LedgerId]]:
        """`confirm`, and the ledgers that lack their last entry; both in one round trip, if all is well."""
        register, lacking = self._ask_for_last(last)
        if register is None or register.members != self._active.members or lacking:
            _, lacking = self._ask_for_last(last)  # an answer counts only if it came before the check
            return self.confirm(), lacking
        return self._confirmed(self._positions.known(register)), lacking

    def _ask_for_last(
        self, last: Mapping[LedgerId, tuple[int, bytes]]
    ) -> tuple[Register | None, set[LedgerId]]:
        """The register, where it is plain; and the ledgers of which a majority has not the value with this
        checksum at this position.
        """
        ledgers, quorum, active = list(last), majority(self._active.n), self._active
        self._positions.meter.count("registry_round_trips")

        def others(number: int, replies: Sequence[bytes | NoReply]) -> int:
            expected = last[ledgers[number]][1]
            return sum(not isinstance(reply, NoReply) and reply != expected for reply in replies)

        def is_settled(number: int, replies: Sequence[Any]) -> bool:
            if number == len(ledgers):
                return register_said(replies, active) is not None
            kept = replies.count(last[ledgers[number]][1])
            return kept > active.n - quorum or others(number, replies) >= quorum

        keys = [self._key(ledger, position) for ledger, (position, _) in last.items()]
        replies: list[Any] = self._positions.stores.ask(
            active,
            lambda store, key: register_at(store) if key == REGISTER_KEY else store.ending(key),
            [*keys, REGISTER_KEY],
            is_settled,
            self._positions.deadline(),
        )
        lacking = {ledger for n, ledger in enumerate(ledgers) if others(n, replies[n]) >= quorum}
        return register_said(replies[-1], active), lacking

    def read(self, first: Mapping[LedgerId, int]) -> Mapping[LedgerId, Tail]:
        """The decided values of each ledger from a position on; some of them where there are many."""
        deadline = self._positions.deadline()
        reads = {ledger: _Read(self._key(ledger, at), self._active.n) for ledger, at in first.items()}
        nearest = self._positions.stores.nearest(self._active)
        self._read(list(reads.values()), [nearest], deadline)
        while left := [read for read in reads.values() if not read.is_enough]:
            self._read(left, [slot for slot in self._active.slots if slot != nearest], deadline)
            left = [read for read in left if not read.says_something]
            if not left:
                break
            # Who slept through repairs asks too few: now he knows whom to ask, in another attempt.
            self._positions.register.read_once(deadline)
            if self._positions.stores.active is not self._active or not deadline.pause():
                raise left[0].problem(self._active.slots)
            for read in left:
                read.pages.clear()
            nearest = -1  # all of them
        return {ledger: read.tail for ledger, read in reads.items()}

    def confirm(self) -> Register:
        """The register, read at a majority after all replies so far (L8)."""
        return self._confirmed(self._positions.read_register())

    def _confirmed(self, found: Register) -> Register:
        register = self._told(found)
        if register.members != self._active.members or self._positions.stores.active is not self._active:
            raise Unconfirmed("the registry's stores have changed since")
        if register.incarnation != self._incarnation:
            raise Unconfirmed("the registry was made anew since")
        self._positions.reservations.keep(self._reserved)
        self._reserved = []
        return register

    def _key(self, ledger: LedgerId, position: int) -> Key:
        return Key(ledger_key(self._incarnation, ledger), position)

    def _read(self, reads: Sequence[_Read], slots: Sequence[int], deadline: Deadline) -> None:
        """Ask these stores for what each read has not proved yet, until it needs no more."""
        self._positions.meter.count("registry_round_trips")
        answers = self._positions.stores.ask(
            self._active,
            judged_page,
            [read.next for read in reads],
            lambda number, replies: reads[number].with_replies(replies).is_enough,
            deadline,
            slots=slots,
        )
        for read, replies in zip(reads, answers, strict=True):
            read.hear(replies)


class _Read:
    """All that is known of one ledger from a position on, by the pages of the stores that answered."""

    def __init__(self, first: Key, n: int) -> None:
        self.first = first
        self.n = n
        self.pages: dict[int, JudgedPage] = {}
        self.walk = Walk([], "silent")
        self.reason = ""

    @property
    def next(self) -> Key:
        """The first position that is not proved."""
        return Key(self.first.ledger, self.first.position + len(self.walk.values))

    @property
    def is_enough(self) -> bool:
        """Whether nobody need be asked: all is known, or there is something to go on with and much behind."""
        has_more = bool(self.walk.values) and any(
            page.page.through is not None for page in self.pages.values()
        )
        return self.walk.ending == "nothing" or has_more

    @property
    def tail(self) -> Tail:
        """The decided values, once there is an answer."""
        ending = self.walk.ending
        return Tail(self.walk.values, ending if ending in ("nothing", "undecided") else "more")

    @property
    def says_something(self) -> bool:
        """Whether there is an answer once all have been asked: with too few replies none says "nothing"."""
        return bool(self.walk.values) or self.walk.ending in ("nothing", "undecided")

    def problem(self, slots: Sequence[int]) -> RegistryUnavailable:
        """Why there is no answer of these stores, all that are in use."""
        if self.walk.ending != "lacking":
            return RegistryUnavailable(
                f"too few stores of the registry answer for position {self.next}: {self.reason}"
            )
        said = f"no store that answers has the right copy of position {self.next}, which is decided"
        pages = (self.pages.get(slot) for slot in slots)
        tell_of_it = all(page is not None and page.at(self.next.position) is not None for page in pages)
        return EntryLost(said) if tell_of_it else RegistryUnavailable(said)

    def with_replies(self, replies: Sequence[JudgedPage | NoReply]) -> _Read:
        """The read as it is with these replies too."""
        other = _Read(self.first, self.n)
        other.pages.update(self.pages)
        other.hear(replies)
        return other

    def hear(self, replies: Sequence[JudgedPage | NoReply]) -> None:
        """Take note of what the stores say."""
        self.pages.update(
            (slot, reply) for slot, reply in enumerate(replies) if not isinstance(reply, NoReply)
        )
        self.reason = reason_of(replies)
        self.walk = walk(self.first.position, self.pages.values(), self.n)
