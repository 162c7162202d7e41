"""Reports of verification as a Delta table of each datacenter, `verification_reports`: one row a report.

What a report says is `photon.verification.report`; here it is stored, with how far it has verified each log
(`photon.verification.verified_files`), and the newest one found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.faults import fault_point
from photon.join.outcomes import OUTCOME_CLASSES
from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable
from photon.verification import verified_files
from photon.verification.report import DatacenterReport, VerificationReport

MOST_UNVERIFIED_STORED = 100  # log files named in a stored report; after that many, it is the folder
TERMS = ("foreign", *OUTCOME_CLASSES)  # of the equation, each a column
COLUMNS = pa.schema(
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
)
TABLE = AppendTable("verification_reports", COLUMNS)


@dataclass(frozen=True)
class StoredReport:
    """One report of one datacenter, as it was stored."""

    at_us: int
    run: str
    equation: Mapping[str, int]  # the terms by name, in their order
    rows: int
    violations: int
    ok: bool
    seconds: float
    report: Mapping[str, Any]  # `DatacenterReport.as_dict`

    @property
    def adds_up(self) -> bool:
        """Whether the classes make up all foreign records."""
        return self.equation["foreign"] == sum(n for term, n in self.equation.items() if term != "foreign")


def append(pipeline: Pipeline, report: VerificationReport, at_us: int, run: str, seconds: float) -> None:
    """Store the reports of all datacenters that were verified, each in its own lake.

    `seconds`: how long the verification took. Where no promise is broken, how far logs were verified comes
    first: that is true whether the report follows or not. LakeUnavailable, FormatTooNew.
    """
    for name, one in report.datacenters.items():
        if one.epoch is not None and not one.violations:
            verified_files.store(pipeline, name, one.epoch, one.verified_further, at_us)
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
            some = rows.to_table(filter=pc.field("at") == latest_at)
        if some.num_rows:
            found[name] = _stored(some.slice(some.num_rows - 1))
    return found


def _row_of(report: DatacenterReport, at_us: int, run: str, seconds: float) -> dict[str, Any]:
    violations = report.violations
    told = report.as_dict()
    # Foreign logs first: collection looks for them.
    told["unverified"].sort(key=lambda file: file["side"] != "foreign")
    del told["unverified"][MOST_UNVERIFIED_STORED:]
    return {
        "at": at_us,
        "run": run,
        **report.equation(),
        "rows": report.rows,
        "violations": sum(finding.count for finding in violations),
        "ok": not violations,
        "seconds": seconds,
        "report": json.dumps(told),
    }


def _stored(row: pa.Table) -> StoredReport:
    at_us = row["at"].cast(pa.int64())[0].as_py()
    (values,) = row.drop_columns(["at"]).to_pylist()
    return StoredReport(
        at_us,
        values["run"],
        {term: values[term] for term in TERMS},
        values["rows"],
        values["violations"],
        values["ok"],
        values["seconds"],
        json.loads(values["report"]),
    )
