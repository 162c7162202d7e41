"""Store reports of verification in each datacenter's table `verification_reports`, and find the newest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.faults import fault_point
from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable
from photon.verification.report import TERMS, DatacenterReport, VerificationReport
from photon.verification.verified_files import store_verified_offsets

MOST_UNVERIFIED_STORED = 100  # log files named in a stored report; after that many, it is the folder
TABLE = AppendTable(
    "verification_reports",
    pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("run", pa.string()),  # who verified: a Dagster run id
            *((term, pa.int64()) for term in TERMS),
            ("rows", pa.int64()),
            ("violations", pa.int64()),  # cases, over all kinds
            ("ok", pa.bool_()),
            ("seconds", pa.float64()),
            ("report", pa.string()),  # as JSON, with the first of its unverified files
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
    """Store the report of each datacenter that was verified in its own lake. LakeUnavailable, FormatTooNew.

    `seconds`: how long the verification took. Where no promise is broken, how far logs were verified comes
    first: that is true whether the report follows or not.
    """
    for name, one in report.datacenters.items():
        if one.epoch is not None and not one.violations:
            store_verified_offsets(pipeline, name, one.epoch, one.newly_verified_offsets, at_us)
        fault_point("verify.after_files")
        TABLE.append(pipeline, name, [_row_of(one, at_us, run, seconds)])


def newest(pipeline: Pipeline, datacenters: Iterable[str]) -> dict[str, StoredReport]:
    """The newest report of each datacenter that was ever verified. LakeUnavailable, FormatTooNew."""
    found = {}
    for name in datacenters:
        with TABLE.reading(pipeline, name) as rows:
            if rows is None:
                continue
            latest_at = pc.max(rows.to_table(columns=["at"])["at"])
            latest = rows.to_table(["at", "run", "seconds", "report"], filter=pc.field("at") == latest_at)
        if latest.num_rows:
            at_us = latest_at.cast(pa.int64()).as_py()
            row = latest.drop_columns(["at"]).to_pylist()[-1]
            found[name] = StoredReport(at_us, row["run"], row["seconds"], json.loads(row["report"]))
    return found


def _row_of(report: DatacenterReport, at_us: int, run: str, seconds: float) -> dict[str, Any]:
    values = report.as_dict()
    # Foreign logs first: gc looks for them.
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
