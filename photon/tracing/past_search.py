"""Search an event's past: commits of its table, data files that left it, and stored verifications."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import in_us
from photon.storage.archived_log import LogEntries, info_of
from photon.storage.columns import text
from photon.storage.delta import APP_METADATA, PLAN_METADATA
from photon.storage.store import store_of
from photon.storage.tables import OutputTable
from photon.tracing.past import GoneRow, NamedBefore, first_and_last
from photon.verification.case_pages import has_event
from photon.verification.report import FindingKind
from photon.verification.stored_reports import REPORTS

# A day's commits at one each second. If a row went earlier, a trace says that nobody knows when.
MOST_COMMITS = 100_000
# Data files are read with these types, whatever type of text their writers took. A missing column is null.
_ROW = pa.schema(
    [
        ("_event_id", pa.string()),
        ("_epoch", pa.string()),
        ("_batch", pa.int64()),
        ("_plan", pa.string()),
        ("_occurrence", pa.string()),
        ("_joined_at", pa.timestamp("us", "UTC")),
    ]
)
MILLISECOND_US = 1_000


def gone_rows(table: OutputTable, event_id: str, rows: Sequence[dict[str, Any]]) -> list[GoneRow]:
    """The event's rows that other programs' commits removed, the newest removal first, unless in `rows`.

    Photon's own commits remove none, except those of a rebuild, which records them. LakeUnavailable, OSError.
    """
    there = {(row["_epoch"], row["_batch"], row["_occurrence"]) for row in rows}
    found: dict[tuple[str, int, str], GoneRow] = {}
    entries = LogEntries(table.folder)
    for version, entry in _newest_first(entries, table.load().version()):
        if b'"remove"' in entry and APP_METADATA.encode() not in entry:
            for row in _removed_by(table.folder, version, entries.actions(version), event_id):
                key = (row.epoch, row.batch, row.occurrence)
                if key not in there:
                    found.setdefault(key, row)
        for key, row in found.items():
            if row.version is None and row.plan and row.plan.encode() in entry:
                found[key] = _as_committed(row, version, info_of(entries.actions(version)))
    return list(found.values())


def _newest_first(entries: LogEntries, last: int) -> Iterator[tuple[int, bytes]]:
    """The commits from version `last` downwards, as far as the log or its archive has them."""
    for version in range(last, max(-1, last - MOST_COMMITS), -1):
        try:
            yield version, entries.read(version)
        except FileNotFoundError:
            return


def _removed_by(
    folder: Location, version: int, actions: Sequence[dict[str, Any]], event_id: str
) -> list[GoneRow]:
    """The event's rows in the files that a commit removed, without those in the files that it added."""
    changed = {
        kind: [unquote(one[kind]["path"]) for one in actions if kind in one and one[kind]["dataChange"]]
        for kind in ("remove", "add")
    }
    kept = {row["_occurrence"] for path in changed["add"] for row in _rows_in(folder, path, event_id)}
    info = info_of(actions)
    return [
        GoneRow(
            row["_epoch"],
            row["_batch"],
            row["_plan"],
            row["_occurrence"],
            None if row["_joined_at"] is None else in_us(row["_joined_at"]),
            str(folder / path),
            str(info.get("operation", "a commit")),
            version,
            _time_us(info),
        )
        for path in changed["remove"]
        for row in _rows_in(folder, path, event_id)
        if row["_occurrence"] not in kept
    ]


def _rows_in(folder: Location, path: str, event_id: str) -> list[dict[str, Any]]:
    """The event's rows in a data file; none if the file is gone, as after a vacuum."""
    try:
        with store_of(folder).open(path) as source:
            file = ds.ParquetFileFormat().make_fragment(source)
            found = file.to_table(schema=_ROW, filter=text("_event_id") == event_id)
            return list(found.to_pylist())
    except FileNotFoundError:
        return []


def _as_committed(row: GoneRow, version: int, info: dict[str, Any]) -> GoneRow:
    """The row with this commit's version and time, if its plan made the commit."""
    if info.get(PLAN_METADATA) != row.plan:
        return row
    return replace(row, version=version, committed_us=_time_us(info))


def _time_us(info: dict[str, Any]) -> int | None:
    at_ms = info.get("timestamp")
    return at_ms * MILLISECOND_US if isinstance(at_ms, int) else None


def told_of(pipeline: Pipeline, datacenter: str, event_id: str) -> list[NamedBefore]:
    """The stored verifications that named the event. LakeUnavailable, FormatTooNew."""
    report = text("report")
    may_name = pc.match_substring(report, json.dumps(event_id)) | pc.match_substring(report, '"pages"')
    with REPORTS.reading(pipeline, datacenter) as dataset:
        if dataset is None:
            return []
        rows = dataset.to_table(columns=["at", "report"], filter=may_name).to_pylist()
    named: list[tuple[FindingKind, int]] = []
    for row in rows:
        found = json.loads(row["report"])
        for finding in (*found["violations"], *found["findings"]):
            if _names_event(pipeline, datacenter, finding, event_id):
                named.append((finding["kind"], in_us(row["at"])))
    return first_and_last(named)


def _names_event(pipeline: Pipeline, datacenter: str, finding: dict[str, Any], event_id: str) -> bool:
    cases = (*finding["examples"], *finding.get("cases", ()))
    return any(case["event_id"] == event_id for case in cases) or any(
        has_event(pipeline, datacenter, page, event_id) for page in finding.get("pages", ())
    )
