"""Store in each datacenter's lake what verifications found, and how far they verified each foreign log.

An event that was read may hold its id without a row, and only its log shows that. So gc forgets no id while a
foreign log can't be read again, unless all that was read of it was verified before (docs/proof.md,
Collection). Verified offsets are in bytes, by file number.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.faults import fault_point
from photon.storage.append_table import AppendTable
from photon.storage.verified_files import store_verified_offsets
from photon.verification.report import (
    TERMS,
    DatacenterReport,
    Unverified,
    VerificationReport,
    VerifiedEarlier,
)

MOST_UNVERIFIED_STORED = 100  # log files in a stored report: where more are gone, their folder is the matter
REPORTS = AppendTable(
    "verification_reports",
    pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("run", pa.string()),  # Dagster's run that verified, or "photon verify"
            *((term, pa.int64()) for term in TERMS),
            ("rows", pa.int64()),
            ("violations", pa.int64()),  # cases, over all kinds
            ("ok", pa.bool_()),
            ("seconds", pa.float64()),
            ("report", pa.string()),  # `DatacenterReport.as_dict`, as JSON
        ]
    ),
)


@dataclass(frozen=True)
class StoredReport:
    """A stored report of one datacenter. `report`: `DatacenterReport.as_dict`."""

    at_us: int
    run: str
    seconds: float
    report: Mapping[str, Any]

    @property
    def equation(self) -> dict[str, int]:
        return {term: self.report[term] for term in TERMS}

    @property
    def ok(self) -> bool:
        """Whether no promise is broken."""
        return not self.report["violations"]

    @property
    def adds_up(self) -> bool:
        """Whether the classes make up all foreign records."""
        foreign, *classes = self.equation.values()
        return foreign == sum(classes)


def append(pipeline: Pipeline, report: VerificationReport, at_us: int, run: str, seconds: float) -> None:
    """Store each verified datacenter's report in its lake. LakeUnavailable, FormatTooNew.

    `seconds`: how long the verification took. Where no promise is broken, verified offsets are stored first:
    they are true even if a crash keeps the report from following.
    """
    for name, one in report.datacenters.items():
        if one.epoch is not None and not one.violations:
            store_verified_offsets(pipeline, name, one.epoch, one.newly_verified_offsets, at_us)
        fault_point("verify.after_files")
        REPORTS.append(pipeline, name, [_row_of(one, at_us, run, seconds)])


def newest(pipeline: Pipeline, datacenters: Iterable[str]) -> dict[str, StoredReport]:
    """The newest report of each datacenter that was ever verified. LakeUnavailable, FormatTooNew."""
    found = {}
    for name in datacenters:
        latest = REPORTS.latest(pipeline, name).select(["at", "run", "seconds", "report"])
        if latest.num_rows:
            at_us = latest["at"][-1].cast(pa.int64()).as_py()
            row = latest.drop_columns(["at"]).to_pylist()[-1]
            found[name] = StoredReport(at_us, row["run"], row["seconds"], json.loads(row["report"]))
    return found


def _row_of(report: DatacenterReport, at_us: int, run: str, seconds: float) -> dict[str, Any]:
    values = report.as_dict()
    # Foreign logs come first, so that the limit hides none from gc while it names others.
    values["unverified"].sort(key=lambda file: file["side"] != "foreign")
    del values["unverified"][MOST_UNVERIFIED_STORED:]
    return {
        "at": at_us,
        "run": run,
        **report.equation(),
        "rows": report.rows,
        "violations": sum(finding.count for finding in report.violations),
        "ok": not report.violations,
        "seconds": seconds,
        "report": json.dumps(values),
    }


# -- how far logs were verified


def newly_verified_offsets(
    files: Iterable[TrackedFile],
    first_undecided: Mapping[int, int],
    unreadable: Container[int],
    before: Mapping[int, int],
) -> dict[int, int]:
    """How far files are verified now, for those that are verified further than `before`.

    `first_undecided`: by file the offset of its first record without a final class. `unreadable`: files that
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
    """Name the unreadable files that were read further than verified, and add up the others."""
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
