"""How far each foreign log was verified, for when it is gone: the rule, and the table `verified_files`.

Events of a log that was read may be registered without a row, and only its records can tell which. So a log
that can't be read again holds collection, unless all that was read of it was verified before (docs/adr/0020).
Who reads the logs is `jobs.verification`; what becomes of the boundary, `photon.upkeep.gc`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class LostFile:
    """A log file, by its number, of which not all that was read can be read again."""

    datacenter: str
    number: int
    file: Unverified


def verified_further(
    files: Iterable[TrackedFile],
    undecided: Mapping[int, int],
    unreadable: Container[int],
    before: Mapping[int, int],
) -> dict[int, int]:
    """Up to which byte files are verified now, by number, where that is further than `before`.

    `undecided`: where the first record of a file begins that has no final class; what is behind it does not
    count. `unreadable`: files of which not all that was read could be read again. `before`: as the result.
    """
    further = {}
    for tracked in files:
        number = tracked.file.number
        end = undecided.get(number, tracked.offset_bytes)
        if number not in unreadable and end > before.get(number, tracked.file.header_bytes):
            further[number] = end
    return further


def was_verified(tracked: TrackedFile, verified: Mapping[int, int]) -> bool:
    """Whether all that was read of a file was verified; `verified`: up to which byte, by number."""
    number = tracked.file.number
    return number in verified and tracked.offset_bytes <= verified[number]


def tell_lost(
    lost: Iterable[LostFile], files: Mapping[int, TrackedFile], verified: Mapping[int, int]
) -> tuple[tuple[Unverified, ...], VerifiedEarlier]:
    """Of one datacenter's lost files those that were read further than verified, and the sum of the others.

    `files`: by number, as far as they were read; `verified`: up to which byte they were verified before.
    """
    unverified = []
    earlier = VerifiedEarlier()
    for item in lost:
        tracked, file = files[item.number], item.file
        if was_verified(tracked, verified):
            earlier = VerifiedEarlier(
                earlier.files + 1, earlier.bytes + file.bytes, earlier.example or file.path
            )
        else:
            left_bytes = tracked.offset_bytes - verified.get(item.number, tracked.file.header_bytes)
            unverified.append(replace(file, bytes=min(file.bytes, left_bytes)))
    return tuple(unverified), earlier


def store(pipeline: Pipeline, datacenter: str, epoch: str, verified: Mapping[int, int], at_us: int) -> None:
    """Remember up to which byte files of an epoch are verified. LakeUnavailable, FormatTooNew."""
    rows = [
        {"epoch": epoch, "file": number, "offset_bytes": end, "at": at_us}
        for number, end in sorted(verified.items())
    ]
    if rows:
        TABLE.append(pipeline, datacenter, rows)


def stored(pipeline: Pipeline, datacenter: str, epoch: str) -> dict[int, int]:
    """Up to which byte files of an epoch were ever verified, by number. LakeUnavailable, FormatTooNew.

    The furthest counts: what was verified stays so, whichever verification is stored last.
    """
    with TABLE.reading(pipeline, datacenter) as dataset:
        if dataset is None:
            return {}
        rows = dataset.to_table(columns=["file", "offset_bytes"], filter=pc.field("epoch") == epoch)
    furthest = rows.group_by("file").aggregate([("offset_bytes", "max")])
    return dict(zip(furthest["file"].to_pylist(), furthest["offset_bytes_max"].to_pylist(), strict=True))
