"""The classes in which every foreign record ends, and their equation (design, section 2).

Names and arithmetic only: who decides on a class is `photon.join.joiner` and `dispatcher.settling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

OutcomeClass = Literal[
    "joined",
    "joined_elsewhere",
    "duplicates",
    "filtered",
    "skipped",
    "unjoinable",
    "too_old",
    "dead_letters",
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
        """How many foreign records are in the class `outcome`."""
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
