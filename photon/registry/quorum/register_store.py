"""Reading and changing the register that is stored at the endpoints.

One item of the registry's own table, changed by the same prepare and accept as an id (CASPaxos): a
compare-and-set by ballots.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from photon.clock import microseconds
from photon.ledger.errors import RegistryUnavailable, no_answer
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import ABSENT, Accept, NoReply, Prepare, ReadReply, Stored
from photon.registry.consensus.decisions import ballot, majority, next_counter, recover, votes_of
from photon.registry.consensus.layout import REGISTER_KEY
from photon.registry.consensus.quorums import Enough, all_of_them, answered, count_answers, voted
from photon.registry.consensus.register import (
    EpochRecord,
    Members,
    Register,
    decode_register,
    encode_register,
    with_epoch,
    with_epoch_state,
    with_horizon,
)
from photon.registry.endpoints.deadline import Deadline
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints

Change = Callable[[Register], Register]
Reply = TypeVar("Reply")

MEMBERS_CHANGES = 3  # followed within one read of the register: a repair makes two

_MEMBERS_MOVE = "the registry's endpoints are just being changed"
_NO_REGISTER = NoReply("the table has no register; the registry is not the one that was made")
_NOT_COUNTED = NoReply("the endpoint does not count yet: it is being repaired", "not_asked")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _HalfWritten:
    """Fewer than a majority have the newest register; a ballot with this counter is above all seen."""

    counter: int


class RegisterStore:
    """The register, at a majority of endpoints.

    Methods raise RegistryUnavailable if no majority answers within `deadline`; a change may then have
    taken effect or not.
    """

    def __init__(self, endpoints: Endpoints, settings: Registry) -> None:
        self._endpoints = endpoints
        self._deadline_seconds = settings.total_timeout.total_seconds()
        self._takeover_seconds = settings.request_timeout.total_seconds()
        self._horizon_step_us = microseconds(settings.horizon_step)
        self._proposer = endpoints.new_proposer()

    # -- reading

    def read(self) -> Register:
        """The register, as a majority has it at a moment after the call began."""
        with self._endpoints.call(self._deadline_seconds) as deadline:
            while True:
                answer = self.read_once()
                if isinstance(answer, Register):
                    return answer
                if not deadline.pause():
                    raise no_answer(answer.reason)

    def read_once(self) -> Register | NoReply:
        """`read` in a single attempt: the *check* of protocol B.

        A client that finds other members than it asked goes on and asks those (B11). One that finds a change
        half written gives the other client the time of a request to end it, then ends it itself (B12).
        """
        takeover, is_patient = self._endpoints.deadline(self._takeover_seconds), True
        followed = 0
        while followed < MEMBERS_CHANGES:
            active = self._endpoints.active
            (replies,) = self._endpoints.read([REGISTER_KEY], self._agree(active))
            register = self._read_from(replies, active)
            if isinstance(register, _HalfWritten):
                if is_patient:
                    is_patient = takeover.pause()
                    continue
                register = self._end_change(register)
            if isinstance(register, NoReply):
                return register
            if register.members == active.members and self._endpoints.active is active:
                return register
            self._endpoints.follow(register.members)
            followed += 1
        return NoReply(_MEMBERS_MOVE)

    def _read_from(
        self, replies: Sequence[ReadReply], active: ActiveEndpoints
    ) -> Register | _HalfWritten | NoReply:
        """The chosen register in these replies, or one with other members, which are to be asked."""
        n = self._endpoints.n
        stored = [reply for reply in _counted(replies, active.members) if isinstance(reply, Stored)]
        newest = max(stored, key=lambda s: s.accepted, default=ABSENT)
        if len(stored) < majority(n):
            # After a repair, a client that was idle may meet too few: now it knows which members to ask.
            return _of_newer_members(newest, active.members) or _no_majority(replies)
        if newest.value is None:
            return _NO_REGISTER
        register = decode_register(newest.value)
        if register.members != active.members:
            return register
        if sum(s.accepted == newest.accepted for s in stored) >= majority(n):
            return register
        return _HalfWritten(next_counter(stored))

    def _agree(self, active: ActiveEndpoints) -> Enough:
        """Whether a majority answered and says what the register is: who differs need not be asked why."""

        def agree(replies: Sequence[Any]) -> bool:
            if count_answers(_counted(replies, active.members)) < majority(self._endpoints.n):
                return False
            return isinstance(self._read_from(replies, active), Register)

        return agree

    def _end_change(self, half_written: _HalfWritten) -> Register | NoReply:
        """Somebody died while changing it, or an endpoint missed a change and another one is down.

        A value that is not chosen may go away again, and boundary and members never go back.
        """
        answer = self._round(lambda current: current, ballot(half_written.counter, self._proposer))
        return NoReply("others change the register") if isinstance(answer, int) else answer

    # -- changing

    def create(self, register: Register) -> Register:
        """Store the first register; if there is one already, that one stays and is returned."""
        there = self.read_once()
        if isinstance(there, Register):
            return there
        return self.change(lambda current: current, first=register)

    def change(self, change: Change, first: Register | None = None) -> Register:
        """Replace the register by `change(register)`, which is called again after a conflict.

        `first`: the register where there is none.
        """
        with self._endpoints.call(self._deadline_seconds) as deadline:
            return self._change(change, first, deadline)

    def _change(self, change: Change, first: Register | None, deadline: Deadline) -> Register:
        # Above every ballot so far: a lower one would cost a round and a pause.
        (replies,) = self._endpoints.read([REGISTER_KEY], answered(majority(self._endpoints.n)))
        counter = next_counter(reply for reply in replies if isinstance(reply, Stored))
        while True:
            answer = self._round(change, ballot(counter, self._proposer), first)
            if isinstance(answer, Register):
                return answer
            if isinstance(answer, int):
                counter = max(counter + 1, answer)
                reason = "others change the register all the time"
            else:
                counter += 1
                reason = answer.reason
            if not deadline.pause():
                raise RegistryUnavailable(f"the registry's register could not be changed: {reason}")
            # Another client may have made the very change, such as the horizon's: no ballot against others.
            there = self.read_once()
            if isinstance(there, Register) and change(there) == there:
                return there

    def add_epoch(self, epoch: str, datacenter: str, table_id: str, now_us: int) -> Register:
        """Record a live epoch of a datacenter, and log which old ones go; adding it again changes nothing."""
        record = EpochRecord(datacenter, "live", table_id, now_us)
        gone: dict[str, EpochRecord] = {}

        def add(register: Register) -> Register:
            changed = with_epoch(register, epoch, record)
            gone.update((name, e) for name, e in register.epochs.items() if name not in changed.epochs)
            return changed

        register = self.change(add)
        for name, old in gone.items():
            if name not in register.epochs:
                log.info("epoch %s is over for long, and its record leaves the registry: %s", name, old)
        return register

    def revoke_epoch(self, epoch: str, now_us: int) -> Register:
        """Mark an epoch whose state was lost (protocol A13); its rows still count."""
        return self.change(lambda register: with_epoch_state(register, epoch, "revoked", now_us))

    def advance_horizon(self, now_us: int) -> Register:
        """Move the horizon on if it is less than a step ahead of `now_us`; the register after that."""
        register = self.read()
        if with_horizon(register, now_us, self._horizon_step_us) == register:
            return register
        return self.change(lambda current: with_horizon(current, now_us, self._horizon_step_us))

    def _round(self, change: Change, own: str, first: Register | None = None) -> Register | NoReply | int:
        """One classic round: the new register; or why too few replied, or the counter to go above."""
        n, active = self._endpoints.n, self._endpoints.active

        def enough(replies: Sequence[Any]) -> bool:
            # Count only slots that count under the old members too.
            return voted(n)(_counted(replies, active.members))

        if first is not None:
            enough = all_of_them  # whoever looks next looks at each of them
        (promises,) = self._endpoints.prepare([Prepare(REGISTER_KEY, own)], enough)
        promised = votes_of(_counted(promises, active.members)).promised
        if len(promised) < majority(n):
            return _failure(promises)
        text = recover(promised, n)
        current = decode_register(text) if text is not None else first
        if current is None:
            # The only store with a half-written first register may be silent now: whoever asks tries again.
            return _NO_REGISTER
        if text is not None and current.members != active.members:
            self._endpoints.follow(current.members)  # the stores that were asked no longer count (B11)
            return NoReply(_MEMBERS_MOVE)
        register = change(current)
        accept = Accept(REGISTER_KEY, own, encode_register(register))
        # Do not send the change to a slot that it takes down. A client that finds it only there would switch
        # between old and new members for ever.
        asked = {slot: [0] for slot in range(n) if slot not in _out(register.members)}
        (accepted,) = self._endpoints.accept([accept], enough, asked=asked)
        if votes_of(_counted(accepted, active.members)).accepted < majority(n):
            return _failure(accepted)
        if self._endpoints.active is not active:
            return NoReply(_MEMBERS_MOVE)
        self._endpoints.follow(register.members)
        return register


def _counted(replies: Sequence[Reply], members: Members | None) -> list[Reply | NoReply]:
    """The replies, without those of stores that do not count for the register under these members."""
    return [_NOT_COUNTED if slot in _out(members) else reply for slot, reply in enumerate(replies)]


def _out(members: Members | None) -> tuple[int, ...]:
    return () if members is None else (*members.down, *members.fresh)


def _of_newer_members(stored: Stored, members: Members | None) -> Register | None:
    register = decode_register(stored.value) if stored.value is not None else None
    is_newer = register is not None and members is not None and register.members.version > members.version
    return register if is_newer else None


def _failure(replies: Sequence[object]) -> NoReply | int:
    """Why a round failed: a counter to go above, if somebody promised a higher ballot."""
    refused = votes_of(replies).refused
    return next_counter(refused) if refused else _no_majority(replies)


def _no_majority(replies: Sequence[object]) -> NoReply:
    reasons = [reply.reason for reply in replies if isinstance(reply, NoReply)]
    return NoReply(reasons[0] if reasons else "too few endpoints answered")
