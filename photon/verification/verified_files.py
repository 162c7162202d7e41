"""How far each foreign log was verified: the rule, and the table `verified_files`.

Events that were read may be registered without a row, and only their log tells which. So a log that can't be
read again holds gc, unless all that was read of it was verified before (docs/adr/0020).

Offsets are by file number: up to which byte a file is verified.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable
from photon.verification.report import Unverified, VerifiedEarlier

TABLE = AppendTable(
    "verified_files",
    pa.schema(
        [
            ("epoch", pa.string()),  # files are numbered anew in each
            ("file", pa.int32()),
            ("offset_bytes", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    ),
)


def newly_verified_offsets(
    files: Iterable[TrackedFile],
    first_undecided: Mapping[int, int],
    unreadable: Container[int],
    before: Mapping[int, int],
) -> dict[int, int]:
    """The verified offsets of files that are verified further than `before`.

    `first_undecided`: the offset of a file's first record without a final class. `unreadable`: files that
    were not read again to the end.
    """
    offsets = {}
    for tracked in files:
        number = tracked.file.number
        end = first_undecided.get(number, tracked.offset_bytes)
        if number not in unreadable and end > before.get(number, tracked.file.header_bytes):
            offsets[number] = end
    return offsets


def is_fully_verified(tracked: TrackedFile, verified: Mapping[int, int]) -> bool:
    """Whether all that was read of a file was verified."""
    number = tracked.file.number
    return number in verified and tracked.offset_bytes <= verified[number]


def summarize_unreadable(
    unreadable: Mapping[int, Unverified], files: Mapping[int, TrackedFile], verified: Mapping[int, int]
) -> tuple[tuple[Unverified, ...], VerifiedEarlier]:
    """Split a datacenter's unreadable files: those read further than verified, and the sum of the others."""
    unverified = []
    earlier = VerifiedEarlier()
    for number, file in unreadable.items():
        tracked = files[number]
        if is_fully_verified(tracked, verified):
            example = earlier.example or file.path
            earlier = VerifiedEarlier(earlier.files + 1, earlier.bytes + file.bytes, example)
        else:
            left_bytes = tracked.offset_bytes - verified.get(number, tracked.file.header_bytes)
            unverified.append(replace(file, bytes=min(file.bytes, left_bytes)))
    return tuple(unverified), earlier


def store_verified_offsets(
    pipeline: Pipeline, datacenter: str, epoch: str, offsets: Mapping[int, int], at_us: int
) -> None:
    """Remember how far files of an epoch are verified. LakeUnavailable, FormatTooNew."""
    rows = [
        {"epoch": epoch, "file": number, "offset_bytes": end, "at": at_us}
        for number, end in sorted(offsets.items())
    ]
    if rows:
        TABLE.append(pipeline, datacenter, rows)


def read_verified_offsets(pipeline: Pipeline, datacenter: str, epoch: str) -> dict[int, int]:
    """How far files of an epoch were ever verified. LakeUnavailable, FormatTooNew.

    The largest offset counts: what was verified stays so, whichever verification is stored last.
    """
    with TABLE.reading(pipeline, datacenter) as dataset:
        if dataset is None:
            return {}
        rows = dataset.to_table(columns=["file", "offset_bytes"], filter=pc.field("epoch") == epoch)
    furthest = rows.group_by("file").aggregate([("offset_bytes", "max")])
    return dict(zip(furthest["file"].to_pylist(), furthest["offset_bytes_max"].to_pylist(), strict=True))
