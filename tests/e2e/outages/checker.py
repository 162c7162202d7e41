"""Check tables against raw logs alone: no code of the product decides here.

Ids in these logs are plain texts, so that `json` alone reads each line.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

Record = dict[str, str]
# Photon reads the times of both sides: they are compared as moments by what writes the log, not here.
NOT_COMPARED = ("time", "primary_time")
TERMS = (
    "joined", "joined_elsewhere", "duplicates", "filtered", "skipped", "unjoinable", "too_old",
    "dead_letters", "pending",
)  # fmt: skip


@dataclass
class Logs:
    """One datacenter's raw logs."""

    clicks: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    queries: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0  # number of lines of clicks, with broken ones

    @property
    def joinable(self) -> set[str]:
        """Return the ids of clicks whose query is there."""
        return {click for click, records in self.clicks.items() if records[0]["query_id"] in self.queries}


def read_logs(folder: Path) -> Logs:
    """Read both logs below `folder`, which are JSON lines."""
    logs = Logs()
    for line in _lines(folder / "clicks"):
        logs.lines += 1
        record = _record(line)
        if record.get("click_id") and record.get("query_id"):
            logs.clicks[record["click_id"]].append(record)
    for line in _lines(folder / "queries"):
        record = _record(line)
        if record.get("query_id"):
            logs.queries[record["query_id"]].append(record)
    return logs


def _lines(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()):
        yield from path.read_bytes().splitlines()


def _record(line: bytes) -> Record:
    try:
        return {name: str(value) for name, value in json.loads(line).items()}
    except ValueError:
        return {}


def rows_of(folder: Path) -> list[dict[str, object]]:
    """The rows of a table of joined events; none if it was never made."""
    path = str(folder / "joined_events")
    if not DeltaTable.is_deltatable(path):
        return []
    rows: list[dict[str, object]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return rows


def faults_in(folder: Path, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Say in words what is wrong with the tables below `folder`/lake, or with the counts; empty: nothing."""
    logs = {name: read_logs(folder / "logs" / name) for name in counts}
    rows = {name: rows_of(folder / "lake" / name) for name in counts}
    found = faults_in_rows(logs, rows)
    for name, classes in counts.items():
        total = sum(classes.get(term, 0) for term in TERMS)
        if not classes["foreign"] == total == logs[name].lines:
            found.append(
                f"{name}: {logs[name].lines} lines of clicks, {classes['foreign']} foreign, "
                f"{total} in classes: {dict(classes)}"
            )
        if pending := classes.get("pending", 0):
            found.append(f"{name}: {pending} pending after all was declared complete")
    return found


def faults_in_rows(logs: Mapping[str, Logs], rows: Mapping[str, list[dict[str, object]]]) -> list[str]:
    """Clicks that were lost, joined twice, or have other values than their lines."""
    times = Counter(str(row["_event_id"]) for each in rows.values() for row in each)
    due = set[str]().union(*(one.joinable for one in logs.values()))
    found = [f"lost: {click}" for click in sorted(due - times.keys())]
    found += [f"{count} times: {click}" for click, count in times.items() if count > 1]
    found += [f"joined without its query: {click}" for click in sorted(times.keys() - due)]
    for name, each in rows.items():
        found += [
            f"{name}: another value: {row['_event_id']}" for row in each if not _has_values(row, logs[name])
        ]
    return found


def _has_values(row: Mapping[str, object], logs: Logs) -> bool:
    """Say whether a row is made of a click and a query as they are in the logs."""
    values = {name: str(value) for name, value in row.items() if value is not None}
    return any(
        _agrees(values, {**click, **{f"primary_{name}": value for name, value in query.items()}})
        for click in logs.clicks.get(values.get("click_id", ""), ())
        for query in logs.queries.get(click["query_id"], ())
    )


def _agrees(values: Record, expected: Record) -> bool:
    return all(values.get(name) == value for name, value in expected.items() if name not in NOT_COMPARED)
