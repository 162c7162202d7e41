"""The IdRegistry's interface: what every backend promises, and the outcomes as types.

Rules: protocol B and C; paper, section 3.2 (`PaxosDB: lookup, insert if absent`). `tests/contract` holds
every backend to these docstrings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from photon.errors import UserError
from photon.pipeline.event_key import EventKey


@dataclass(frozen=True, slots=True)
class Claim:
    """Asks to register an event for a record: the event's key and the record's own token."""

    key: EventKey
    token: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Who registered an id. After clearing only the datacenter is known, and `token` is None."""

    datacenter: str
    token: str | None


@dataclass(frozen=True, slots=True)
class Won:
    """The token holds the id: chosen, and checked against boundary and members afterwards."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another value is chosen for the id (protocol B3), so that a release has nothing to release."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class TooOld:
    """The id is below the boundary of gc: it may have been joined and forgotten."""


@dataclass(frozen=True, slots=True)
class BeyondHorizon:
    """The id's time is at or after the horizon (protocol C3): not to be committed yet."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The token's epoch is revoked or retired (protocol B18): its process must stop."""

    epoch: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer within the deadline: the token may or may not hold the id (protocol A5, B2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A value is chosen for the id."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the id: absent, undecided, or released (a tombstone)."""


@dataclass(frozen=True, slots=True)
class Released:
    """The token does not hold the id and never will (protocol B5): only a zombie still commits it."""


CommitOutcome = Won | Lost | Released | TooOld | BeyondHorizon | Fenced | Unknown
LookupOutcome = Joined | Free | TooOld | BeyondHorizon
ReleaseOutcome = Released | Lost | Unknown


class RegistryUnavailable(UserError):
    """The registry does not answer now: wait and ask again."""


class RegistryMismatch(UserError):
    """Registry and pipeline do not belong together (protocol B9); the message has the remedy."""


class IdRegistry(Protocol):
    """Ids of joined foreign events, each with the token of its one winner.

    Results come in the order of the arguments, as if claims came one after the other. An empty call asks
    nobody.
    """

    def lookup(self, keys: Sequence[EventKey]) -> list[LookupOutcome]:
        """Who holds each id now. RegistryUnavailable if that can't be known for all of them."""
        ...

    def commit(self, claims: Sequence[Claim]) -> list[CommitOutcome]:
        """Register each id for its token, if nobody holds it.

        Repeatable: a token that holds the id wins again. Once released, it never wins again: `Released`.
        Tokens of an epoch that is revoked or retired are `Fenced`.
        A claim without an answer is `Unknown`: there is no RegistryUnavailable.
        """
        ...

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        """Make sure that each token does not hold its id, by a tombstone, never by a delete."""
        ...

    def clear(self, claims: Sequence[Claim]) -> int:
        """Shrink the value of ids whose row is in the output to the owner's name; how many changed.

        Each token must have a row for good. A token that was released is left alone, but a release at the
        same time as the clearing would not be seen.
        """
        ...
