"""The newest stored verification of a datacenter, for those who only tell what it found.

It reads three columns: `photon.verification`, which reads all, takes long to import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from photon.pipeline.file import Pipeline
from photon.storage.append_table import AppendTable

_COLUMNS = pa.schema([("at", pa.timestamp("us", "UTC")), ("report", pa.string())])


@dataclass(frozen=True)
class Verified:
    """A stored verification. `report`: `photon.verification.report.DatacenterReport.as_dict`."""

    at_us: int
    report: Mapping[str, Any]

    @property
    def kinds(self) -> str:
        """Name what is broken in a few words: "3 missing"; empty if nothing is."""
        broken = self.report["violations"]
        return ", ".join(f"{one['count']:,} {one['kind'].replace('_', ' ')}" for one in broken)


def newest_verification(pipeline: Pipeline, datacenter: str) -> Verified | None:
    """The newest one; None where there is none. LakeUnavailable, FormatTooNew."""
    latest = AppendTable("verification_reports", _COLUMNS).latest(pipeline, datacenter)
    if not latest.num_rows:
        return None
    at_us = latest["at"][-1].cast(pa.int64()).as_py()
    return Verified(at_us, json.loads(latest["report"][-1].as_py()))
