"""Past of an event: rows that went from its table, verifications that named it, orders of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from photon.process.clock import in_utc
from photon.verification.report import MEANINGS, WITHOUT_ROWS, FindingKind

NOT_KNOWN = "Whether and when a row of it went is not known any more: what leaves a table is kept for a week"


@dataclass(frozen=True, slots=True)
class GoneRow:
    """A row that is not in its table any more, and the commit of others that took it out.

    `version` of the commit that brought it, None: its entry of the log is gone. Times in microseconds since
    1970 UTC, None where commits or the row do not tell.
    """

    epoch: str
    batch: int
    plan: str | None
    occurrence: str
    joined_us: int | None
    file: str  # data file that has it still
    removed_by: str  # operation
    removed_version: int
    removed_us: int | None
    version: int | None = None
    committed_us: int | None = None

    @property
    def joined(self) -> str:
        version = "" if self.version is None else f", committed in version {self.version}"
        when = "" if self.joined_us is None else f", joined{at_time(self.joined_us)}"
        return f"batch {self.batch} of epoch {self.epoch}{when}{version}"

    @property
    def removed(self) -> str:
        return f"{self.removed_by} in version {self.removed_version} of the table"


@dataclass(frozen=True, slots=True)
class NamedBefore:
    """Verifications that named the event, all with one kind of finding: the first and the last of them."""

    kind: FindingKind
    first_us: int
    last_us: int

    @property
    def says(self) -> str:
        return f"among {MEANINGS[self.kind].says}"


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A record of the event that a work order had looked at again; `batch`: the last one completed then."""

    epoch: str
    occurrence: str
    batch: int


@dataclass
class Past:
    """A datacenter's past of the event, as far as its stores still show it.

    `is_known` False: a row is or was missing, and nothing tells whether it was ever there.
    """

    gone: list[GoneRow] = field(default_factory=list)  # the newest removal first
    told: list[NamedBefore] = field(default_factory=list)
    taken_up: list[TakenUp] = field(default_factory=list)
    is_known: bool = True

    @property
    def was_missing(self) -> bool:
        return any(one.kind in WITHOUT_ROWS for one in self.told)

    def order_behind(self, row: Mapping[str, Any]) -> TakenUp | None:
        """The work order that brought a row of the table; None: no order did."""
        for one in self.taken_up:
            is_of_record = (one.epoch, one.occurrence) == (row["_epoch"], row["_occurrence"])
            if is_of_record and one.batch < row["_batch"]:
                return one
        return None

    @property
    def sentences(self) -> list[str]:
        """Sentences for the verdict."""
        said = [
            f"A row of {row.joined}, went{at_time(row.removed_us)}: {row.removed}." for row in self.gone[::-1]
        ]
        missing = [one for one in self.told if one.kind in WITHOUT_ROWS]
        said += [f"A verification found it missing{at_time(one.first_us)}." for one in missing]
        said += [] if self.is_known else [f"{NOT_KNOWN}."]
        batches = sorted({one.batch for one in self.taken_up})
        return said + [f"A work order had it looked at again after batch {batch}." for batch in batches]


def first_and_last(named: Sequence[tuple[FindingKind, int]]) -> list[NamedBefore]:
    """One for each kind of finding, from the times of verifications that named the event."""
    times: dict[FindingKind, list[int]] = {}
    for kind, at_us in named:
        times.setdefault(kind, []).append(at_us)
    return [NamedBefore(kind, min(at), max(at)) for kind, at in times.items()]


def at_time(time_us: int | None) -> str:
    """The end of a sentence that tells when; empty where nobody knows."""
    return "" if time_us is None else f" at {in_utc(time_us, 'milliseconds')}"
