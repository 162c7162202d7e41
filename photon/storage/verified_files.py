"""How far verifications have seen each foreign log file: a table in each datacenter's lake.

A verification adds to it, and reads it. So does a dispatcher that forgets files (protocol D13). A row that is
gone makes its file unverified, and no more (D14).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable
from photon.storage.columns import text

VERIFIED_FILES = AppendTable(
    "verified_files",
    pa.schema(
        [
            ("epoch", pa.string()),  # each epoch numbers files anew
            ("file", pa.int32()),
            ("offset_bytes", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    ),
)


def store_verified_offsets(
    pipeline: Pipeline, datacenter: str, epoch: str, offsets: Mapping[int, int], at_us: int
) -> None:
    """Remember how far files of an epoch are verified. LakeUnavailable, FormatTooNew."""
    rows = [
        {"epoch": epoch, "file": number, "offset_bytes": end, "at": at_us}
        for number, end in sorted(offsets.items())
    ]
    if rows:
        VERIFIED_FILES.append(pipeline, datacenter, rows)


def read_verified_offsets(pipeline: Pipeline, datacenter: str, epoch: str) -> dict[int, int]:
    """How far files of an epoch were ever verified. LakeUnavailable, FormatTooNew.

    The largest offset counts: what was verified stays so, whichever verification is stored last.
    """
    with VERIFIED_FILES.reading(pipeline, datacenter) as dataset:
        if dataset is None:
            return {}
        rows = dataset.to_table(columns=["file", "offset_bytes"], filter=text("epoch") == epoch)
    furthest = rows.group_by("file").aggregate([("offset_bytes", "max")])
    return dict(zip(furthest["file"].to_pylist(), furthest["offset_bytes_max"].to_pylist(), strict=True))
