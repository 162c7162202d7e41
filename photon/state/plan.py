"""A plan: what one batch is to do, as it is stored before any work (protocol A1, A2).

The stored form is JSON with a version. Offsets count decompressed bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from photon.logs.files import ByteRange
from photon.process.errors import FormatTooNew
from photon.state.lifecycle import Attempts
from photon.state.waiting.retries import Retries
from photon.storage.tokens import PlanKey

PLAN_FORMAT = 1
_range_fields = attrgetter(*(field.name for field in fields(ByteRange)))


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a file is read once the plan is completed: the fields of `TrackedFile` that change."""

    file_number: int
    offset_bytes: int
    tail_hash: bytes
    inside_oversized: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """An earlier plan of the same work, which may have written some of its rows."""

    batch: int
    plan_id: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """Earlier plans of the same work."""

    origins: tuple[Origin, ...] = ()  # their rows stay, and are not written again (A12)
    abandoned: str = ""  # why the last origin was; this plan has a piece of its work (A11)
    is_one_record: bool = False  # the piece is a single record, and can't be split

    @property
    def quarantine(self) -> str:
        """Why the single record becomes a dead letter, without being read; empty: it does not."""
        return f"it kept its batch from ending: {self.abandoned}" if self.is_one_record else ""

    def after(self, origin: Origin, abandoned: str = "") -> Lineage:
        """The lineage of work that the plan `origin` had, and that is queued again."""
        return replace(self, origins=(*self.origins, origin), abandoned=abandoned or self.abandoned)


@dataclass(frozen=True, slots=True)
class PlanContent:
    """Byte ranges of both logs and due retries."""

    primary: tuple[ByteRange, ...] = ()
    foreign: tuple[ByteRange, ...] = ()
    retries: tuple[Retries, ...] = ()
    final: bool = False  # the logs are declared complete: a record without a primary is unjoinable
    lineage: Lineage = Lineage()
    attempts: Attempts = field(default_factory=Attempts)  # earlier plans of its work have lost some

    @property
    def empty(self) -> bool:
        return not (self.primary or self.foreign or self.retries)


@dataclass(frozen=True, slots=True)
class Plan:
    """Batch N of an epoch. It never changes once stored; a re-run presents the same key."""

    key: PlanKey
    content: PlanContent
    advances: tuple[Advance, ...]
    requeue_id: int | None = None  # the requeued work that this plan takes up

    @property
    def as_origin(self) -> Origin:
        return Origin(self.key.batch, self.key.plan_id)


def content_to_json(content: PlanContent) -> str:
    """The stored form of a plan's content."""
    # Written field by field: `dataclasses.asdict` copies 2,000 ranges one at a time, for 0.05 s of 0.2 s.
    stored = {
        "format": PLAN_FORMAT,
        "primary": [_range_fields(item) for item in content.primary],
        "foreign": [_range_fields(item) for item in content.foreign],
        "retries": [_retries_to_stored(retries) for retries in content.retries],
        "final": content.final,
        "origins": [[origin.batch, origin.plan_id] for origin in content.lineage.origins],
        "abandoned": content.lineage.abandoned,
        "is_one_record": content.lineage.is_one_record,
        "attempts": asdict(content.attempts),
    }
    return json.dumps(stored, separators=(",", ":"))


def content_from_json(text: str) -> PlanContent:
    """The inverse of `content_to_json`; FormatTooNew if a newer Photon wrote it."""
    data = json.loads(text)
    if data["format"] > PLAN_FORMAT:
        raise FormatTooNew("the stored plan", data["format"], PLAN_FORMAT)
    return PlanContent(
        primary=tuple(ByteRange(*item) for item in data["primary"]),
        foreign=tuple(ByteRange(*item) for item in data["foreign"]),
        retries=tuple(_retries_from_stored(*stored) for stored in data["retries"]),
        final=data["final"],
        lineage=Lineage(
            tuple(Origin(*item) for item in data["origins"]), data["abandoned"], data["is_one_record"]
        ),
        attempts=Attempts(**data.get("attempts", {})),
    )


def _retries_to_stored(retries: Retries) -> list[Any]:
    finals = np.flatnonzero(retries.finals.to_numpy(zero_copy_only=False)).tolist()
    columns = (retries.rows, retries.files, retries.offsets_bytes)
    return [retries.segment, *(column.to_pylist() for column in columns), finals]


def _retries_from_stored(
    segment: str, rows: list[int], files: list[int], offsets_bytes: list[int], finals: list[int]
) -> Retries:
    return Retries.of(segment, rows, files, offsets_bytes, np.isin(np.arange(len(rows)), finals))


def advances_to_json(advances: tuple[Advance, ...]) -> str:
    """The stored form of advances."""
    items = [[a.file_number, a.offset_bytes, a.tail_hash.hex(), a.inside_oversized] for a in advances]
    return json.dumps(items, separators=(",", ":"))


def advances_from_json(text: str) -> tuple[Advance, ...]:
    """The inverse of `advances_to_json`."""
    return tuple(
        Advance(number, offset, bytes.fromhex(tail), inside)
        for number, offset, tail, inside in json.loads(text)
    )
