"""The register at the stores: one item, changed by the same prepare and accept as a position (CASPaxos)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from photon.registry.errors import RegistryUnavailable
from photon.registry.positions import Change
from photon.registry.register import Register, decode_register, encode_register
from photon.registry.stores.asking import ActiveStores, Stores
from photon.registry.stores.copies import (
    ABSENT,
    REGISTER_KEY,
    Accept,
    Copy,
    NoReply,
    Prepare,
    Promised,
    Refused,
    Store,
)
from photon.registry.stores.deadline import Deadline
from photon.registry.stores.decisions import (
    ballot,
    count_answers,
    count_done,
    counter_above,
    is_voted,
    majority,
    reason_of,
    recover,
)

R = TypeVar("R")

MEMBERS_CHANGES = 3  # followed within one read of the register: a repair makes two
MEMBERS_MOVED = "the registry's stores are just being changed"

_NO_REGISTER = NoReply("the table has no register; the registry is not the one that was made")
_NOT_COUNTED = NoReply("the store does not count yet: it is being repaired", "not_asked")


@dataclass(frozen=True, slots=True)
class _HalfWritten:
    """Fewer than a majority have the newest register; a ballot with this counter is above all seen."""

    counter: int


class RegisterStore:
    """The register, at a majority of the stores. `takeover_seconds`: for others to end their own change."""

    def __init__(self, stores: Stores, takeover_seconds: float) -> None:
        self._stores = stores
        self._takeover_seconds = takeover_seconds

    def read(self, deadline: Deadline) -> Register:
        """The register, as a majority has it at a moment after the call began; RegistryUnavailable."""
        while True:
            answer = self.read_once(deadline)
            if isinstance(answer, Register):
                return answer
            if not deadline.pause():
                raise RegistryUnavailable(f"no answer from the registry: {answer.reason}")

    def read_once(self, deadline: Deadline) -> Register | NoReply:
        """`read` in a single attempt, which follows the members that it finds (B11).

        Who finds a change half written gives its author the time of a request, then ends it itself: a value
        that is not chosen may go away again, and numbers in the register never go back.
        """
        takeover, is_patient = self._stores.deadline(self._takeover_seconds), True
        followed = 0
        while followed < MEMBERS_CHANGES:
            active = self._stores.active
            replies = self._ask_all(active, deadline)
            register = _register_in(replies, active)
            if isinstance(register, _HalfWritten):
                if is_patient:
                    is_patient = takeover.pause() and deadline.left_seconds() > 0
                    continue
                own = ballot(register.counter, self._stores.new_proposer())
                ended = self._round(lambda current: current, own, deadline)
                register = NoReply("others change the register") if isinstance(ended, int) else ended
            if isinstance(register, NoReply):
                return register
            if register.members == active.members and self._stores.active is active:
                return register
            self._stores.follow(register.members)
            followed += 1
        return NoReply(MEMBERS_MOVED)

    def create(self, register: Register, deadline: Deadline) -> Register:
        """Store the first register; if there is one already, that one stays and is returned."""
        there = self.read_once(deadline)
        if isinstance(there, Register):
            return there
        return self.change(lambda current: current, deadline, first=register)

    def change(self, change: Change, deadline: Deadline, first: Register | None = None) -> Register:
        """Replace the register by `change(register)`, called again after a conflict; `first`: where none is.

        RegistryUnavailable: it may have taken effect or not.
        """
        active, counter = self._stores.active, 1
        replies = self._ask_all(active, deadline)
        counter = counter_above(reply for reply in replies if isinstance(reply, Copy))
        while True:
            answer = self._round(change, ballot(counter, self._stores.new_proposer()), deadline, first)
            if isinstance(answer, Register):
                return answer
            if isinstance(answer, int):
                counter, reason = max(counter + 1, answer), "others change the register all the time"
            else:
                counter, reason = counter + 1, answer.reason
            if not deadline.pause(outbid=isinstance(answer, int)):
                raise RegistryUnavailable(f"the registry's register could not be changed: {reason}")
            there = self.read_once(deadline)  # somebody else may have made the very change
            if isinstance(there, Register) and change(there) == there:
                return there

    def _ask_all(self, active: ActiveStores, deadline: Deadline) -> list[Copy | NoReply]:
        (replies,) = self._stores.ask(
            active,
            lambda store, _: register_at(store),
            [REGISTER_KEY],
            lambda _, some: isinstance(register_said(some, active), Register),
            deadline,
        )
        return replies

    def _round(
        self, change: Change, own: str, deadline: Deadline, first: Register | None = None
    ) -> Register | NoReply | int:
        """One classic round: the new register; or why too few replied, or the counter to go above."""
        active = self._stores.active

        def enough(_: int, replies: Sequence[Any]) -> bool:
            # The first register goes to every store: whoever looks next looks at each of them.
            return first is None and is_voted(_counted(replies, active), active.n)

        (promises,) = self._stores.ask(
            active,
            lambda store, prepare: _readable(store.prepare(prepare)),
            [Prepare(REGISTER_KEY, own)],
            enough,
            deadline,
            is_write=True,
        )
        promised = [reply.before for reply in _counted(promises, active) if isinstance(reply, Promised)]
        if len(promised) < majority(active.n):
            return _failure(promises)
        value = recover(promised, active.n)
        current = first if value is None else decode_register(value)
        if current is None:
            # The only store with a half-written first register may be silent now: whoever asks tries again.
            return _NO_REGISTER
        if value is not None and current.members != active.members:
            self._stores.follow(current.members)  # the stores that were asked no longer count (B11)
            return NoReply(MEMBERS_MOVED)
        register = change(current)
        # A slot that the change takes down does not get it: a client that finds it only there would switch
        # between old and new members for ever.
        out = (*register.members.down, *register.members.fresh)
        (accepted,) = self._stores.ask(
            active,
            lambda store, accept: store.accept(accept),
            [Accept(REGISTER_KEY, own, encode_register(register))],
            enough,
            deadline,
            slots=[slot for slot in range(active.n) if slot not in out],
            is_write=True,
        )
        if count_done(_counted(accepted, active)) < majority(active.n):
            return _failure(accepted)
        if self._stores.active is not active:
            return NoReply(MEMBERS_MOVED)
        self._stores.follow(register.members)
        return register


def register_at(store: Store) -> Copy | NoReply:
    """Read one store's copy of the register."""
    return _readable(store.get(REGISTER_KEY))


def register_said(replies: Sequence[Any], active: ActiveStores) -> Register | None:
    """The register, if a majority says which it is; or one with other members, which are to be asked."""
    if count_answers(_counted(replies, active)) < majority(active.n):
        return None
    register = _register_in(replies, active)
    return register if isinstance(register, Register) else None


def _register_in(
    replies: Sequence[Copy | NoReply], active: ActiveStores
) -> Register | _HalfWritten | NoReply:
    """The chosen register in these replies, or one with other members, which are to be asked."""
    copies = [reply for reply in _counted(replies, active) if isinstance(reply, Copy)]
    newest = max(copies, key=lambda copy: copy.accepted, default=ABSENT)
    register = None if newest.value is None else decode_register(newest.value)
    if len(copies) < majority(active.n):
        # After a repair, a client that was idle may meet too few: now it knows which members to ask.
        if register is not None and register.members.version > active.members.version:
            return register
        return NoReply(reason_of(replies))
    if register is None:
        return _NO_REGISTER
    agreeing = sum(copy.accepted == newest.accepted for copy in copies)
    if register.members != active.members or agreeing >= majority(active.n):
        return register
    return _HalfWritten(counter_above(copies))


def _readable(reply: R) -> R | NoReply:
    """The reply, unless it has a damaged register in it: then it is none (L2)."""
    copy = reply.before if isinstance(reply, Promised) else reply
    if isinstance(copy, Copy) and copy.value is not None:
        try:
            decode_register(copy.value)
        except (ValueError, LookupError, TypeError) as error:
            return NoReply(f"its copy of the register is damaged: {error!r}", "not_asked")
    return reply


def _counted(replies: Sequence[R], active: ActiveStores) -> list[R | NoReply]:
    """The replies, without those of stores that do not count for the register under these members."""
    return [_NOT_COUNTED if slot in active.out else reply for slot, reply in enumerate(replies)]


def _failure(replies: Sequence[Any]) -> NoReply | int:
    """Why a round failed: a counter to go above, if somebody promised a higher ballot."""
    refused = [reply.now for reply in replies if isinstance(reply, Refused)]
    return counter_above(refused) if refused else NoReply(reason_of(replies))
