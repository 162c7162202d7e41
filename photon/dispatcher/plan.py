"""A plan: what one batch is to do, as it is stored before any work (protocol A1, A2).

Data and its durable form. How a plan comes about is `planning`, how it is carried out is
`dispatcher`. The stored form is JSON with a version; offsets are of decompressed bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from photon.errors import FormatTooNew
from photon.join.messages import RetryRef
from photon.logs.files import ByteRange
from photon.tokens import Occurrence, PlanKey

PLAN_FORMAT = 1
_RANGE_FIELDS = tuple(field.name for field in fields(ByteRange))


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
    `origins`: the batches that were committed with this content and not completed: what they put into
    the side tables stays as it is (protocol A12).
    """

    primary: tuple[ByteRange, ...] = ()
    foreign: tuple[ByteRange, ...] = ()
    retries: tuple[RetryRef, ...] = ()
    final: bool = False
    quarantine: str = ""
    origins: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.primary or self.foreign or self.retries)


@dataclass(frozen=True, slots=True)
class Plan:
    """Batch N of an epoch. It never changes once stored; a re-run presents the same key."""

    key: PlanKey
    content: PlanContent
    advances: tuple[Advance, ...]
    requeue_id: int | None = None  # the requeued work that this plan takes up


def content_to_json(content: PlanContent) -> str:
    """The stored form of a content."""
    # By hand: `dataclasses.asdict` would copy 2,000 ranges one field at a time, for 0.05 s of 0.2 s.
    stored = {
        "format": PLAN_FORMAT,
        "primary": [_range_fields(item) for item in content.primary],
        "foreign": [_range_fields(item) for item in content.foreign],
        "retries": [
            [r.occurrence.file_number, r.occurrence.offset_bytes, r.spool_file, r.spool_row, r.final]
            for r in content.retries
        ],
        "final": content.final,
        "quarantine": content.quarantine,
        "origins": content.origins,
    }
    return json.dumps(stored, separators=(",", ":"))


def content_from_json(text: str) -> PlanContent:
    """The inverse of `content_to_json`; ValueError if a newer Photon wrote it."""
    data = json.loads(text)
    _check_format(data.pop("format"))
    return PlanContent(
        primary=tuple(ByteRange(*item) for item in data["primary"]),
        foreign=tuple(ByteRange(*item) for item in data["foreign"]),
        retries=tuple(RetryRef(Occurrence(*item[:2]), *item[2:]) for item in data["retries"]),
        final=data["final"],
        quarantine=data["quarantine"],
        origins=tuple(data["origins"]),
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


def _range_fields(item: ByteRange) -> list[object]:
    return [getattr(item, name) for name in _RANGE_FIELDS]


def _check_format(version: int) -> None:
    if version > PLAN_FORMAT:
        raise FormatTooNew("the stored plan", version, PLAN_FORMAT)
