"""What verification decides: the class of every foreign record, and what is wrong (design, sections 2 and 5).

Pure. Facts about a record come from the raw logs, from the tables of all datacenters and, for what still
waits, from the dispatchers; who gathers them with Spark is `jobs.verification`, what its tasks do
`photon.verification.tasks`. The report that comes of it is `photon.verification.report`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Literal

from photon.join.outcomes import OutcomeClass
from photon.registry.consensus.register import EpochState
from photon.registry.interface import BeyondHorizon, Free, Joined, LookupOutcome, TooOld
from photon.tokens import Token


class Fact(IntFlag):
    """What is known of one foreign record before its primary and the registry are looked at."""

    BAD_LINE = 1  # the line is no event
    SKIPPED = 2  # it has no key, or the adapter passes over it
    DEAD_LETTER = 4  # this datacenter's table of dead letters has it
    JOINED = 8  # it is the record of a row of this datacenter
    ROW_HERE = 16  # this datacenter has a row of its event
    ROW_ELSEWHERE = 32  # another datacenter has a row of its event
    PENDING = 64  # the dispatcher still has to deal with it
    UNJOINED = 128  # this datacenter's table of unjoined events has it
    GIVEN_UP = 256  # given up when the inputs were declared complete
    TOO_OLD = 512  # this datacenter's table of what came too late has it


FACT_COMBINATIONS = 2 * int(max(Fact))


def class_of(facts: Fact) -> OutcomeClass | None:
    """The class of a record; None: its primary and the registry decide (`classify`).

    A row counts before what was recorded earlier, and what waits may have been given up once. Below the
    boundary the join could not know of other rows, nor look any further: what it recorded then is the class.
    """
    late: OutcomeClass | None = "too_old" if facts & Fact.TOO_OLD else None
    order: tuple[tuple[Fact, OutcomeClass], ...] = (
        (Fact.BAD_LINE, "dead_letters"),
        (Fact.JOINED, "joined"),
        (Fact.DEAD_LETTER, "dead_letters"),
        (Fact.SKIPPED, "skipped"),
        (Fact.ROW_HERE, late or "duplicates"),
        (Fact.ROW_ELSEWHERE, late or "joined_elsewhere"),
        (Fact.PENDING, "pending"),
        (Fact.UNJOINED | Fact.GIVEN_UP, late or "unjoinable"),
    )
    return next((outcome for fact, outcome in order if facts & fact), None)


def class_table() -> list[OutcomeClass | None]:
    """`class_of` for every combination of facts, so that a query engine can apply it."""
    return [class_of(Fact(bits)) for bits in range(FACT_COMBINATIONS)]


def open_facts() -> list[int]:
    """The combinations of facts that leave the class open: none, or a record of being too old alone.

    Of that one the registry is asked, so that it can't hide what is missing.
    """
    return [bits for bits, outcome in enumerate(class_table()) if outcome is None]


# What a join made afresh from the raw logs comes to.
Fresh = Literal["joins", "drops", "fails", "no primary"]


@dataclass(frozen=True, slots=True)
class FreshJoin:
    """What comes of one foreign record and its primary now; `reason` where the adapter fails."""

    outcome: Fresh
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EpochStatus:
    """An epoch, and the last batch of it in the table that is verified."""

    datacenter: str
    state: EpochState
    table_version: int


Standing = Literal[
    "free", "too old", "beyond horizon", "in flight", "held without a row", "cleared without a row"
]


@dataclass(frozen=True, slots=True)
class Registered:
    """How an id without a row stands in the registry, and who holds it, in words."""

    standing: Standing
    by: str = ""


def registered(
    outcome: LookupOutcome, epochs: Mapping[str, EpochStatus], joined_since: bool = False
) -> Registered:
    """What the registry's answer means for an id that no table had when the tables were looked at.

    A batch beyond the table's version may have been committed since; one that is not beyond it has no row
    and never will. A lost epoch is fenced, so all of its batches are over. An id that was cleared names no
    batch: `joined_since` says whether its owner's table has a row of it by now.
    """
    match outcome:
        case Free():
            return Registered("free")
        case TooOld():
            return Registered("too old")
        case BeyondHorizon():
            return Registered("beyond horizon")
        case Joined(holder) if holder.token is None and joined_since:
            return Registered("in flight", f"datacenter {holder.datacenter}, cleared")
        case Joined(holder) if holder.token is None:
            return Registered("cleared without a row", f"datacenter {holder.datacenter}, cleared")
        case Joined(holder):
            return _held(Token.parse(holder.token or ""), epochs)


def _held(token: Token, epochs: Mapping[str, EpochStatus]) -> Registered:
    plan, epoch = token.plan, epochs.get(token.plan.epoch)
    state = epoch.state if epoch is not None else "unknown"
    by = f"datacenter {plan.datacenter}, batch {plan.batch} of its {state} epoch {plan.epoch}, token {token}"
    if epoch is not None and epoch.state == "live" and plan.batch > epoch.table_version:
        return Registered("in flight", by)
    return Registered("held without a row", by)


@dataclass(frozen=True, slots=True)
class Missing:
    """A violation: the event should be joined, and is nowhere. Why, in words.

    One whose id is cleared can't be made good by reading it again, for the id can't be released.
    """

    why: str
    kind: Literal["missing", "missing_and_cleared"] = "missing"


def classify(fresh: FreshJoin, registry: Registered, waits_somewhere: bool) -> OutcomeClass | Missing:
    """The class of an open record: its datacenter knows nothing of it, or only that it is too old.

    `waits_somewhere`: another datacenter's dispatcher still has to deal with the event.
    """
    if fresh.outcome == "drops":
        return "too_old" if registry.standing == "too old" else "filtered"
    match registry.standing:
        case "too old":
            return "too_old"
        case "in flight":
            return "pending"
        case "held without a row":
            return "pending" if waits_somewhere else Missing(f"registered without a row: {registry.by}")
        case "cleared without a row":
            why = f"joined, and its row is gone: {registry.by}"
            return "pending" if waits_somewhere else Missing(why, "missing_and_cleared")
        case "free" | "beyond horizon" if fresh.outcome == "no primary":
            return "unjoinable"
        case "beyond horizon":
            return Missing(
                "its time lies beyond the registry's horizon, and it neither waits nor is recorded"
            )
    if waits_somewhere:
        return "pending"
    reason = f"; the adapter now fails on it: {fresh.reason}" if fresh.outcome == "fails" else ""
    return Missing(f"its primary is in the logs and nobody has registered it{reason}")


def verified_until_us(
    latest_us: Mapping[int, int], unread: Container[int], pending_us: int | None
) -> int | None:
    """The time up to which the events of a window are verified (docs/adr/0020); None: no event was read.

    `latest_us`: the latest event time read from each foreign file, by number. `unread`: files that go on
    behind the window; what follows there may be as old as the latest event before it. `pending_us`: the
    earliest event that still waits, for it may be registered and not joined.
    """
    if not latest_us:
        return None
    open_ends = [time_us for number, time_us in latest_us.items() if number in unread]
    reached_us = min(open_ends) if open_ends else max(latest_us.values())
    return reached_us if pending_us is None else min(reached_us, pending_us)
