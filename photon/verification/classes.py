"""Decide the class of every foreign record from evidence in raw logs, tables and the registry. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from typing import Literal

from photon.registry.lookups import Hold
from photon.state.outcomes import OutcomeClass


class Evidence(IntFlag):
    """All that logs, tables and dispatchers know of one foreign record, as flags."""

    BAD_LINE = 1  # the line is no event
    SKIPPED = 2  # the record has no key, or the adapter skips it
    DEAD_LETTER = 4  # this datacenter's table of dead letters has it, and it was not taken up again since
    JOINED = 8  # a row of this datacenter was made of it
    ROW_HERE = 16  # this datacenter has a row of its event
    ROW_ELSEWHERE = 32  # another datacenter has a row of its event
    PENDING = 64  # the dispatcher has not finished with it
    UNJOINED = 128  # this datacenter's table of unjoined events has it
    GIVEN_UP = 256  # given up when the inputs were declared complete
    TOO_OLD = 512  # this datacenter's table of events that came too late has it


def class_of(evidence: Evidence) -> OutcomeClass | None:
    """The class of a record; None: its primary and the registry decide (`classify`).

    A row comes before what was recorded earlier, and a pending record may have been given up once. Below the
    boundary a join neither sees other rows nor looks any further: if it recorded TOO_OLD, that is the class.
    A dead letter that is looked at again (docs/adr/0047) is none for as long as it waits.
    """
    if evidence & Evidence.PENDING:
        evidence &= ~(Evidence.BAD_LINE | Evidence.DEAD_LETTER)
    late: OutcomeClass | None = "too_old" if evidence & Evidence.TOO_OLD else None
    first_that_applies: tuple[tuple[Evidence, OutcomeClass], ...] = (
        (Evidence.BAD_LINE, "dead_letters"),
        (Evidence.JOINED, "joined"),
        (Evidence.DEAD_LETTER, "dead_letters"),
        (Evidence.SKIPPED, "skipped"),
        (Evidence.ROW_HERE, late or "duplicates"),
        (Evidence.ROW_ELSEWHERE, late or "joined_elsewhere"),
        (Evidence.PENDING, "pending"),
        (Evidence.UNJOINED | Evidence.GIVEN_UP, late or "unjoinable"),
    )
    return next((outcome for some, outcome in first_that_applies if evidence & some), None)


@cache
def class_table() -> tuple[OutcomeClass | None, ...]:
    """`class_of` for every combination of evidence, by its bits, so that a query engine can apply it."""
    return tuple(class_of(Evidence(bits)) for bits in range(2 * max(Evidence)))


def undecided_evidence() -> list[int]:
    """The evidence that leaves the class open: none at all, or TOO_OLD alone.

    A record of being too old could hide what is missing, so the registry is asked.
    """
    return [bits for bits, outcome in enumerate(class_table()) if outcome is None]


@dataclass(frozen=True, slots=True)
class RejoinResult:
    """The result of joining one foreign record and its primary again now."""

    outcome: Literal["joins", "drops", "fails", "no primary"]
    reason: str = ""  # why the adapter fails


@dataclass(frozen=True, slots=True)
class MissingEvent:
    """A violation: the event should be joined and is in no table. `holder`: the datacenter that joined it."""

    why: str
    holder: str | None = None


def classify(
    rejoin: RejoinResult, hold: Hold, holder: str | None = None, waits_somewhere: bool = False
) -> OutcomeClass | MissingEvent:
    """The class of a record that `class_of` leaves open.

    `hold`, `holder`: what a view that was read before the tables says of its event, and which datacenter
    holds it. So the row of a join (L9) was in a table that was read, and a hold that is not closed may still
    bring one. `waits_somewhere`: another datacenter's dispatcher has not finished with the event.
    """
    if hold == Hold.TOO_OLD:
        return "too_old"
    if rejoin.outcome == "drops":
        return "filtered"
    if hold == Hold.NOBODY and rejoin.outcome == "no primary":
        return "unjoinable"
    if waits_somewhere or hold == Hold.ELSEWHERE:
        return "pending"
    if hold == Hold.NOBODY:
        reason = f"; the adapter now fails on it: {rejoin.reason}" if rejoin.outcome == "fails" else ""
        return MissingEvent(f"its primary is in the logs and nobody has registered it{reason}")
    return MissingEvent(f"joined, and its row is gone: datacenter {holder}", holder)


def verified_until_us(
    latest_us: Mapping[int, int], unread: Container[int], pending_us: int | None
) -> int | None:
    """The event time up to which all events read have a final class; None: no event was read.

    `latest_us`: the latest event time read from each foreign file, by number. `unread`: files with more to
    read, where an event may be as old as the latest one before it. `pending_us`: the earliest pending event,
    which may be registered and not joined.
    """
    if not latest_us:
        return None
    open_ends = [time_us for number, time_us in latest_us.items() if number in unread]
    reached_us = min(open_ends) if open_ends else max(latest_us.values())
    return reached_us if pending_us is None else min(reached_us, pending_us)
