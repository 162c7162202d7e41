"""The outcomes of a foreign record: its class, the joiner's verdict, and how the classes add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from photon.registry.entry import Claimant, Claims, Epoch
from photon.state.failing import AdapterCalls
from photon.storage.tokens import Occurrence

# A new class also has a place in `JoinVerdict` and `CLASS_OF`, in `class_of` of
# `photon.verification.classes`, in the table of ARCHITECTURE.md, and in `FINAL` of
# `photon.jobs.verification_kept` if records stay in it.
OutcomeClass = Literal[
    "joined",
    "joined_elsewhere",
    "duplicates",
    "filtered",
    "skipped",
    "unjoinable",
    "too_old",
    "dead_letters",
    "lost",  # the record waited, and its bytes are gone from its waiting segment and from its log
    "pending",
]
OUTCOME_CLASSES: tuple[OutcomeClass, ...] = get_args(OutcomeClass)


@dataclass(frozen=True)
class Counts:
    """How many foreign records this datacenter has read, and how many are in each class."""

    foreign: int = 0
    primary: int = 0
    primary_dead_letters: int = 0
    lost_bytes: int = 0  # unread bytes of files that went away or were replaced
    conflicting: int = 0  # duplicates whose content is another than that of the record that joined
    not_compared: int = 0  # duplicates of which nobody knows it
    ambiguous: int = 0  # rows that might have joined primaries of other content, too, when they joined
    reused_primaries: int = 0  # primary records with another one's id and other content: at least so many
    classes: Mapping[OutcomeClass, int] = field(default_factory=dict)

    def of(self, outcome: OutcomeClass) -> int:
        return self.classes.get(outcome, 0)

    @property
    def adds_up(self) -> bool:
        """Whether every foreign record is in exactly one class."""
        return self.foreign == sum(self.classes.values())

    def as_dict(self) -> dict[str, int]:
        """The equation's terms by name, in its order, then the primary log's, then parts of classes."""
        return {
            "foreign": self.foreign,
            **{name: self.of(name) for name in OUTCOME_CLASSES},
            "primary": self.primary,
            "primary_dead_letters": self.primary_dead_letters,
            "lost_bytes": self.lost_bytes,
            "conflicting": self.conflicting,
            "not_compared": self.not_compared,
            "ambiguous": self.ambiguous,
            "reused_primaries": self.reused_primaries,
        }

    def gained(self, left: Mapping[str, int]) -> dict[str, int]:
        """How many records ever came into each class, also those that have `left` it again."""
        return {name: count + left.get(name, 0) for name, count in self.as_dict().items()}


@dataclass(frozen=True)
class HeldRecord:
    """A record of an event that is held already, and for which a table has to say whether it has a row.

    `holder`: None where nobody holds it any more, and an earlier epoch of the datacenter has a row of it.
    `holds_at`: the record that holds it, where that one is of this very plan.
    """

    event_id: str
    occurrence: Occurrence
    holder: Claimant | None = None
    holds_at: Occurrence | None = None


class JoinVerdict(IntEnum):
    """The joiner's verdict on a record, as if all claims of its task were won."""

    OPEN = 0  # nothing yet
    JOINED = 1  # the record has the row
    JOINED_ELSEWHERE = 2
    DUPLICATE = 3
    FILTERED = 4
    SKIPPED = 5
    UNJOINABLE = 6
    TOO_OLD = 7
    RECORDED_DEAD_LETTER = 8  # an earlier run has recorded it
    LOST = 9  # the record waited, and its bytes are gone
    DEAD_LETTER = 10  # for the reason in its note
    WAITS_FOR_PRIMARY = 11
    WAITS_FOR_HOME = 12
    WAITS_FOR_CLOCK = 13
    # Another plan of this very datacenter holds the event, or another record of this one.
    HELD_HERE = 14
    # An earlier epoch of this datacenter has joined the event, and gc has passed it since.
    JOINED_EARLIER = 15
    HELD_ELSEWHERE = 16  # another datacenter holds the event, and may never join it


CLASS_OF: Mapping[JoinVerdict, OutcomeClass] = {
    JoinVerdict.JOINED: "joined",
    JoinVerdict.JOINED_ELSEWHERE: "joined_elsewhere",
    JoinVerdict.DUPLICATE: "duplicates",
    JoinVerdict.FILTERED: "filtered",
    JoinVerdict.SKIPPED: "skipped",
    JoinVerdict.UNJOINABLE: "unjoinable",
    JoinVerdict.TOO_OLD: "too_old",
    JoinVerdict.RECORDED_DEAD_LETTER: "dead_letters",
    JoinVerdict.LOST: "lost",
}
VERDICT_OF_CLASS: Mapping[str, JoinVerdict] = {name: verdict for verdict, name in CLASS_OF.items()}


@dataclass
class Verdicts:
    """The verdict on each record of a task, and what the driver has to know besides."""

    of: npt.NDArray[np.int8]  # each record's verdict, by its row
    is_ambiguous: npt.NDArray[np.bool_] = field(
        init=False
    )  # primaries of other content might have joined, too
    unread_files: set[int] = field(default_factory=set)  # numbers of primary files that were not to be read
    notes: dict[int, str] = field(default_factory=dict)  # why a record is a dead letter, by its row
    claims: Claims | None = None  # for the events whose rows are stored
    # When each new row could be joined at the earliest: the later of its two events' own times.
    joinable_since_us: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    adapter_calls: AdapterCalls = field(default_factory=AdapterCalls)
    registered_here: list[HeldRecord] = field(default_factory=list)
    held: Counter[Epoch] = field(default_factory=Counter)  # records that wait for each holder
    to_free: list[HeldRecord] = field(default_factory=list)  # ordered, and a given-up datacenter's joins
    registered_elsewhere: set[str] = field(default_factory=set)
    taken_over: Counter[str] = field(default_factory=Counter)  # records joined here in place of each home
    fresh_were_free: bool | None = None  # nobody had fresh events of the own home half; None: no news of any
    # Duplicates of records that joined in this very task, and beside them those records.
    duplicates: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    duplicates_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        self.is_ambiguous = np.zeros(len(self.of), bool)

    @property
    def ambiguous(self) -> int:
        """How many records joined although other primaries might have."""
        return int(np.count_nonzero(self.is_ambiguous & (self.of == JoinVerdict.JOINED)))

    def add_joinable_since(self, times_us: npt.NDArray[np.int64]) -> None:
        self.joinable_since_us = np.concatenate((self.joinable_since_us, times_us))

    def rows_with(self, *verdicts: JoinVerdict) -> npt.NDArray[np.int64]:
        """The records with one of these verdicts."""
        return np.flatnonzero(np.isin(self.of, verdicts))

    def counts(self) -> Counter[OutcomeClass]:
        counts = np.bincount(self.of, minlength=len(JoinVerdict)).tolist()
        return Counter({name: counts[verdict] for verdict, name in CLASS_OF.items() if counts[verdict]})
