"""What may become of a foreign record, as types: the joiner's verdicts.

How they come about is `photon.join.joiner`; what is stored of them is `photon.join.tasks`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from photon.join.outcomes import OutcomeClass
from photon.registry.interface import Claim


@dataclass(frozen=True, slots=True)
class Final:
    """The record is in its final class (a row is written where that is `joined`)."""

    outcome: OutcomeClass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record is a dead letter, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waits:
    """The record is to come again: `primary` not there yet, left to its `home`, beyond the `horizon`."""

    reason: str


@dataclass(frozen=True, slots=True)
class HeldByEarlierPlan:
    """An earlier plan of this very datacenter registered the event, with this token."""

    token: str


@dataclass(frozen=True, slots=True)
class AlreadyJoinedHere:
    """This very datacenter has joined the event, by which record only its row may say.

    Its id was cleared, or an earlier epoch joined it and collection has passed it since.
    """


Verdict = Final | DeadLetter | Waits | HeldByEarlierPlan | AlreadyJoinedHere


@dataclass
class Verdicts:
    """The verdict on every record so far, by its index; rows of the winners."""

    of: dict[int, Verdict] = field(default_factory=dict)
    rows: pa.Table | None = None
    # Of each row, the later of its two events' own times: from then on it could be joined.
    joinable_since_us: list[int] = field(default_factory=list)
    to_release: list[Claim] = field(default_factory=list)
    registered_elsewhere: set[str] = field(default_factory=set)


def count_classes(verdicts: Verdicts) -> Counter[OutcomeClass]:
    """How many records ended in each class."""
    return Counter(verdict.outcome for verdict in verdicts.of.values() if isinstance(verdict, Final))
