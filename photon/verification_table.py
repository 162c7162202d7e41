"""Reports of verification as a Delta table of each datacenter, `verification_reports`: one row a report.

What a report says is `photon.verification_report`; here it is stored, and the newest one found again. Tables
of rows that were joined belong to `photon.output`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from photon.dispatcher.outcomes import OUTCOME_CLASSES
from photon.output import LakeUnavailable
from photon.pipeline import Pipeline
from photon.verification_report import DatacenterReport, VerificationReport

TABLE = "verification_reports"
FORMAT = 1
FORMAT_PROPERTY = "photon.format"
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


class ReportsTooNew(LakeUnavailable):
    """The table was written by a newer version of Photon."""


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

    `seconds`: how long the verification took. LakeUnavailable, ReportsTooNew.
    """
    for name, one in report.datacenters.items():
        row = _row_of(one, at_us, run, seconds)
        folder = folder_of(pipeline, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(folder),
                schema=COLUMNS,
                mode="ignore",
                name=TABLE,
                description=f"verifications of pipeline {pipeline.name}, datacenter {name}",
                configuration={FORMAT_PROPERTY: str(FORMAT)},
                raise_if_key_not_exists=False,
            )
            write_deltalake(_open(folder), pa.Table.from_pylist([row], COLUMNS), mode="append")
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot store a report in {folder}: {error}; make it writable") from error


def newest(pipeline: Pipeline, datacenters: Iterable[str]) -> dict[str, StoredReport]:
    """The newest report of each datacenter that was ever verified. LakeUnavailable, ReportsTooNew."""
    found = {}
    for name in datacenters:
        folder = folder_of(pipeline, name)
        try:
            if not DeltaTable.is_deltatable(str(folder)):
                continue
            rows = _open(folder).to_pyarrow_dataset()
            latest_at = pc.max(rows.to_table(columns=["at"])["at"])
            some = rows.to_table(filter=pc.field("at") == latest_at)
        except (OSError, DeltaError) as error:
            raise LakeUnavailable(f"cannot read the reports in {folder}: {error}") from error
        if some.num_rows:
            found[name] = _stored(some.slice(some.num_rows - 1))
    return found


def folder_of(pipeline: Pipeline, datacenter: str) -> Path:
    """Where the reports of one datacenter lie."""
    return pipeline.datacenters[datacenter].lake / TABLE


def _open(folder: Path) -> DeltaTable:
    table = DeltaTable(str(folder))
    written = int(table.metadata().configuration.get(FORMAT_PROPERTY, FORMAT))
    if written > FORMAT:
        raise ReportsTooNew(
            f"{folder} has format {written}, this version of Photon knows {FORMAT}: update it"
        )
    return table


def _row_of(report: DatacenterReport, at_us: int, run: str, seconds: float) -> dict[str, Any]:
    violations = report.violations
    told = report.as_dict()
    told["unverified"] = told["unverified"][:MOST_UNVERIFIED_STORED]
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
