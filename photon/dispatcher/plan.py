"""A plan: what one batch is to do, as it is stored before any work (protocol A1, A2).

Data and its durable form. How a plan comes about is `planning`, how it is carried out is
`dispatcher`. The stored form is JSON with a version; offsets are of decompressed bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from photon.logs.files import ByteRange
from photon.tokens import Occurrence, PlanKey

PLAN_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RetryRef:
    """A record that waits: its occurrence, and the spool file and row that hold its raw bytes."""

    occurrence: Occurrence
    spool_file: str
    spool_row: int
    final: bool = False  # the last lookup, over the whole log: not found means unjoinable


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a file is read once the plan is completed (the fields of `TrackedFile` it moves)."""

    file_number: int
    offset_bytes: int
    tail_hash: bytes
    inside_oversized: bool


@dataclass(frozen=True, slots=True)
class PlanContent:
    """What is to be done: byte ranges of both kinds of log and due retries.

    `final`: the inputs are declared complete, so what has no primary now is unjoinable.
    `quarantine`: why the one record in it becomes a dead letter without being looked at again: alone in
    a batch, it kept the batch from ending (protocol A11).
    """

    primary: tuple[ByteRange, ...] = ()
    foreign: tuple[ByteRange, ...] = ()
    retries: tuple[RetryRef, ...] = ()
    final: bool = False
    quarantine: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.primary or self.foreign or self.retries)

    @property
    def records_at_most(self) -> int:
        """How many records it can hold: lines of its ranges, and retries."""
        lines = sum(range_.lines for range_ in (*self.primary, *self.foreign))
        return lines + len(self.retries)


@dataclass(frozen=True, slots=True)
class Plan:
    """Batch N of an epoch. It never changes once stored; a re-run presents the same key."""

    key: PlanKey
    content: PlanContent
    advances: tuple[Advance, ...]
    requeue_id: int | None = None  # the requeued work that this plan takes up


def content_to_json(content: PlanContent) -> str:
    """The stored form of a content."""
    return json.dumps({"format": PLAN_FORMAT, **asdict(content)}, separators=(",", ":"))


def content_from_json(text: str) -> PlanContent:
    """The inverse of `content_to_json`; ValueError if a newer Photon wrote it."""
    data = json.loads(text)
    _check_format(data.pop("format"))
    return PlanContent(
        primary=tuple(ByteRange(**item) for item in data["primary"]),
        foreign=tuple(ByteRange(**item) for item in data["foreign"]),
        retries=tuple(_retry(item) for item in data["retries"]),
        final=data["final"],
        quarantine=data["quarantine"],
    )


def advances_to_json(advances: tuple[Advance, ...]) -> str:
    """The stored form of how far files move."""
    items = [[a.file_number, a.offset_bytes, a.tail_hash.hex(), a.inside_oversized] for a in advances]
    return json.dumps(items, separators=(",", ":"))


def advances_from_json(text: str) -> tuple[Advance, ...]:
    """The inverse of `advances_to_json`."""
    return tuple(
        Advance(number, offset, bytes.fromhex(tail), inside)
        for number, offset, tail, inside in json.loads(text)
    )


def _retry(item: dict[str, Any]) -> RetryRef:
    return RetryRef(Occurrence(**item["occurrence"]), item["spool_file"], item["spool_row"], item["final"])


def _check_format(version: int) -> None:
    if version > PLAN_FORMAT:
        raise ValueError(
            f"the plan was stored in format {version}, this Photon knows {PLAN_FORMAT}: use the newer Photon"
        )
