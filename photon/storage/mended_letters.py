"""Dead letters that were looked at again, with the lines that people have put in their places.

The dispatcher adds a row before it takes a letter up (docs/adr/0047). Verification and repairs read a record
as it is here: the log keeps the line that was wrong. Rows of an epoch name its files by number. They stay for
ever (protocol D14): a person orders each, at most 10,000 at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable
from photon.storage.columns import text
from photon.storage.tokens import Occurrence

MENDED_LETTERS = AppendTable(
    "mended_letters",
    pa.schema(
        [
            ("_datacenter", pa.string()),
            ("_epoch", pa.string()),
            ("_batch", pa.int64()),  # the last one completed then; a later one looks at the letter again
            ("_occurrence", pa.string()),
            ("event_id", pa.string()),
            ("raw", pa.binary()),  # null: the line as the log has it, for what it failed on was mended
            ("at", pa.timestamp("us", "UTC")),
        ]
    ),
)


@dataclass(frozen=True, slots=True)
class MendedLetter:
    """A dead letter as it was taken up last: a dead letter of a later batch has failed again."""

    epoch: str
    occurrence: Occurrence
    event_id: str
    batch: int
    raw: bytes | None = None


def add_mended(pipeline: Pipeline, datacenter: str, letters: Iterable[MendedLetter], now_us: int) -> None:
    """Add letters that are about to be taken up, and put them on disk. LakeUnavailable, FormatTooNew."""
    rows = [
        {
            "_datacenter": datacenter,
            "_epoch": each.epoch,
            "_batch": each.batch,
            "_occurrence": str(each.occurrence),
            "event_id": each.event_id,
            "raw": each.raw,
            "at": now_us,
        }
        for each in letters
    ]
    if rows:
        MENDED_LETTERS.append(pipeline, datacenter, rows, synced=True)


def mended_letters(
    pipeline: Pipeline, datacenter: str, epoch: str, completed: int | None = None
) -> Mapping[Occurrence, MendedLetter]:
    """The letters of an epoch, each as it was taken up last.

    `completed`: leave out those that a later batch than this one looks at. LakeUnavailable, FormatTooNew.
    """
    wanted = text("_epoch") == epoch
    if completed is not None:
        wanted &= ds.field("_batch") < completed
    return {each.occurrence: each for each in _read(pipeline, datacenter, wanted)}


def mended_of_event(
    pipeline: Pipeline, datacenter: str, event_id: str, occurrences: Iterable[str]
) -> list[MendedLetter]:
    """The letters of all epochs that are of the event or at these places, as they were taken up last.

    LakeUnavailable, FormatTooNew.
    """
    at_places = text("_occurrence").isin([*occurrences])
    return _last_of_each(_read(pipeline, datacenter, at_places | (text("event_id") == event_id)))


def mended_before(pipeline: Pipeline, datacenter: str, epoch: str) -> list[MendedLetter]:
    """The letters of earlier epochs that were taken up, as they were last. LakeUnavailable, FormatTooNew."""
    return _last_of_each(_read(pipeline, datacenter, text("_epoch") != epoch))


def _last_of_each(found: Iterable[MendedLetter]) -> list[MendedLetter]:
    return list({(each.epoch, each.occurrence): each for each in found}.values())


def _read(pipeline: Pipeline, datacenter: str, wanted: ds.Expression) -> list[MendedLetter]:
    """These letters, the newest last."""
    with MENDED_LETTERS.reading(pipeline, datacenter) as rows:
        if rows is None:
            return []
        found = rows.to_table(filter=wanted).sort_by([("_batch", "ascending"), ("at", "ascending")])
    return [
        MendedLetter(
            row["_epoch"], Occurrence.parse(row["_occurrence"]), row["event_id"], row["_batch"], row["raw"]
        )
        for row in found.to_pylist()
    ]
