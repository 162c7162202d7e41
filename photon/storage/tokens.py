"""Tokens name a joined row by its plan and record, occurrences a record alone (protocol A1)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

PASSED_PLAN = "passed"  # the name of whoever commits a batch for a process that is silent (protocol A25)


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """One foreign record at one place in one log file of one datacenter."""

    file_number: int
    offset_bytes: int

    def __str__(self) -> str:
        return f"{self.file_number}:{self.offset_bytes}"

    @staticmethod
    def parse(text: str) -> Occurrence:
        """The inverse of `str`; ValueError if `text` is not of the form `file number:offset`."""
        file_number, offset_bytes = text.split(":")
        return Occurrence(int(file_number), int(offset_bytes))


@dataclass(frozen=True, slots=True)
class PlanKey:
    """The identity of a plan: only its own runs present it (protocol A1)."""

    datacenter: str
    epoch: str
    batch: int
    plan_id: str

    def __str__(self) -> str:
        return f"{self.datacenter}:{self.epoch}:{self.batch}#{self.plan_id}"

    def token(self, occurrence: Occurrence) -> str:
        """The token of the row that this plan makes of the record `occurrence`."""
        return f"{self}:{occurrence}"


@dataclass(frozen=True, slots=True)
class Token:
    """A token taken apart: `datacenter:epoch:batch#plan id:file number:offset`."""

    plan: PlanKey
    occurrence: Occurrence

    def __str__(self) -> str:
        return self.plan.token(self.occurrence)

    @staticmethod
    def parse(text: str) -> Token:
        """The inverse of `str`; ValueError if `text` is not a token."""
        try:
            left, right = text.split("#")
            datacenter, epoch, batch = left.split(":")
            plan_id, file_number, offset_bytes = right.split(":")
            plan = PlanKey(datacenter, epoch, int(batch), plan_id)
            return Token(plan, Occurrence(int(file_number), int(offset_bytes)))
        except ValueError:
            raise ValueError(
                f"{text!r} is not a token; expected datacenter:epoch:batch#plan id:file number:offset"
            ) from None


def new_id() -> str:
    """A random id for an epoch or a plan (64 bits: two never meet)."""
    return secrets.token_hex(8)
