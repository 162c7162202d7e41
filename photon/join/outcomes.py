"""What may become of a foreign record: its class, the joiner's verdict, and how the classes add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import pyarrow as pa

from photon.join.records import Record
from photon.registry.interface import Claim

OutcomeClass = Literal[
    "joined",
    "joined_elsewhere",
    "duplicates",
    "filtered",
    "skipped",
    "unjoinable",
    "too_old",
    "dead_letters",
    "lost",  # it waited, and its bytes are gone from the spool and from its log
    "pending",
    "missing",  # joined once, and its row is gone: a promise that is broken
]
OUTCOME_CLASSES: tuple[OutcomeClass, ...] = get_args(OutcomeClass)


@dataclass(frozen=True)
class Counts:
    """How many foreign records this datacenter has read, and how many are in each class."""

    foreign: int = 0
    primary: int = 0
    primary_dead_letters: int = 0
    lost_bytes: int = 0  # unread bytes of files that went away or were replaced
    classes: Mapping[OutcomeClass, int] = field(default_factory=dict)

    def of(self, outcome: OutcomeClass) -> int:
        return self.classes.get(outcome, 0)

    @property
    def adds_up(self) -> bool:
        """Whether every foreign record is in exactly one class."""
        return self.foreign == sum(self.classes.values())

    def as_dict(self) -> dict[str, int]:
        """The equation's terms by name, in its order, then the primary log's."""
        return {
            "foreign": self.foreign,
            **{name: self.of(name) for name in OUTCOME_CLASSES},
            "primary": self.primary,
            "primary_dead_letters": self.primary_dead_letters,
            "lost_bytes": self.lost_bytes,
        }


@dataclass(frozen=True, slots=True)
class Final:
    """The record is in its final class. It has a row where that is `joined`."""

    outcome: OutcomeClass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record is a dead letter, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waits:
    """The record comes again: it waits for its `primary`, its `home` datacenter or the `horizon`."""

    reason: Literal["primary", "home", "horizon"]


@dataclass(frozen=True, slots=True)
class HeldByEarlierPlan:
    """An earlier plan of this very datacenter registered the event, with this token."""

    token: str


@dataclass(frozen=True, slots=True)
class AlreadyJoinedHere:
    """This very datacenter has joined the event. Only the row may say by which record.

    Its id was cleared, or an earlier epoch joined it and gc has passed it since.
    """

    token: None = None  # gone with the clearing


Verdict = Final | DeadLetter | Waits | HeldByEarlierPlan | AlreadyJoinedHere


@dataclass
class Verdicts:
    """The verdict on each record of a task, and the rows of the winners."""

    of: dict[Record, Verdict] = field(default_factory=dict)
    rows: pa.Table | None = None
    # When each row could be joined at the earliest: the later of its two events' own times.
    joinable_since_us: list[int] = field(default_factory=list)
    to_release: list[Claim] = field(default_factory=list)
    registered_elsewhere: set[str] = field(default_factory=set)
    fresh_were_free: bool | None = None  # nobody had fresh events of the own home half; None: no news of any

    def counts(self) -> Counter[OutcomeClass]:
        return Counter(verdict.outcome for verdict in self.of.values() if isinstance(verdict, Final))
