"""What the rounds mean for the claims of a call: outcomes, and those of claims for one id twice. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from photon.registry.consensus.columns import Indices, Mask, fenced, too_old
from photon.registry.consensus.layout import Held, fenced_epoch, holder_of, is_too_old
from photon.registry.consensus.register import Register
from photon.registry.interface import (
    ClaimColumns,
    CommitOutcome,
    Fenced,
    Lost,
    Outcomes,
    Released,
    ReleaseOutcome,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.contender import Contender

Outcome = TypeVar("Outcome")

_OPEN = -1


class Settling(Generic[Outcome]):
    """The outcomes of a call, as they come."""

    def __init__(self, count: int) -> None:
        self._codes = np.full(count, _OPEN, np.intp)
        self._distinct: list[Outcome] = []

    def settle(self, where: Mask | Indices | int, outcome: Outcome) -> None:
        """Give all of these the same outcome."""
        self._codes[where] = len(self._distinct)
        self._distinct.append(outcome)

    def settle_each(self, indices: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """Give each of these an outcome of its own."""
        self._codes[list(indices)] = np.arange(len(outcomes)) + len(self._distinct)
        self._distinct += outcomes

    def open(self) -> Indices:
        """The indices of those that have none yet."""
        return np.flatnonzero(self._codes == _OPEN)

    def __getitem__(self, index: int) -> Outcome:
        code = int(self._codes[index])
        assert code != _OPEN, f"claim {index} has no outcome yet"
        return self._distinct[code]

    def outcomes(self) -> Outcomes[Outcome]:
        """All outcomes."""
        assert not len(self.open()), "every claim has an outcome in the end"
        return Outcomes(self._codes, self._distinct)


def settle_winners(
    settling: Settling[CommitOutcome],
    indices: Indices,
    claims: ClaimColumns,
    won: Mask,
    register: Register,
    of_rows: bool = False,
) -> None:
    """Settle the claims that have `won`: boundary and epoch count after the win (protocol C1, B18).

    `indices` are those of the claims in the call; `register` was read since. Claims `of_rows` win though
    their epoch is over (B19).
    """
    settling.settle(indices[won], Won())
    settling.settle(indices[won & too_old(claims.keys, register)], TooOld())
    if of_rows:
        return
    for index, epoch in fenced(claims.tokens, register).items():
        if won[index]:
            settling.settle(int(indices[index]), Fenced(epoch))


def outcome_of_commit(contender: Contender, of_rows: bool = False) -> CommitOutcome:
    """Return the outcome of the rounds. Boundary and epoch count after the win (protocol C1, B18).

    A claim `of_rows` wins though its epoch is over (B19).
    """
    register = contender.confirmed_by
    if register is not None:
        epoch = None if of_rows else fenced_epoch(contender.claim.token, register)
        if epoch is not None:
            return Fenced(epoch)
        if is_too_old(contender.claim.key, register):
            return TooOld()
    return Unknown(contender.reason) if contender.verdict is None else contender.verdict


def outcome_of_release(contender: Contender) -> ReleaseOutcome:
    """What the rounds came to for a token to be released."""
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


def same_token_only(leader: str, outcome: ReleaseOutcome, token: str) -> ReleaseOutcome | None:
    """What a release of `token` gets after one of `leader` for the same id; None: it must ask itself."""
    return outcome if token == leader else None
