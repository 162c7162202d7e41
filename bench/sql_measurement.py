"""How long SQL over a release takes: a day beside DuckDB on that day's bare files, and a slice of minutes.

Each day has a million rows in one file; the last one has ten million, in ten. The view is made before, and
every query is run several times in turn: the medians are compared, so that both meet the same machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from photon import read
from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import load_pipeline
from photon.releases import copies
from photon.releases.release import Part, Place, Release
from photon.storage.output_files import OutputFile, day_folder, write_parquet
from photon.storage.tables import OutputTable, app_id

ROWS_A_FILE, LAST_DAY_FILES, TURNS = 1_000_000, 10, 7
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = """
name: clicks
datacenters: {here: {logs: logs}}
primary: {files: "q.csv", format: csv, id: id, time: at}
foreign: {files: "c.csv", format: csv, id: id, key: key, time: at}
"""
GROUPED = "SELECT country, count(*), sum(price) FROM {rows} {where} GROUP BY country ORDER BY country"
SLICE = """
SELECT country, device, count(*), sum(price) FROM joined
WHERE _event_time >= TIMESTAMPTZ '{since}' AND _event_date >= DATE '{day}' GROUP BY country, device
"""


@dataclass(frozen=True)
class SqlFigures:
    """Seconds of the median query."""

    days: int
    day_seconds: float
    bare_seconds: float
    slice_seconds: float
    all_seconds: float  # four columns of all ten million rows of the last day

    def __str__(self) -> str:
        return (
            f"{self.days} days: one of them grouped {self.day_seconds:.3f} s, bare files "
            f"{self.bare_seconds:.3f} s, ratio {self.day_seconds / self.bare_seconds:.2f}; "
            f"of ten million rows five minutes "
            f"{self.slice_seconds:.3f} s, all {self.all_seconds:.3f} s"
        )


def measure(folder: Path, days: int, say: Callable[[str], None]) -> SqlFigures:
    """Make the table in an empty folder, and ask."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(folder / "pipeline.yaml")
    table = OutputTable(pipeline.datacenters["here"].lake, "joined_events")
    table.create("clicks", "here")
    batch = 0
    for day in range(days):
        parts = LAST_DAY_FILES if day == days - 1 else 1
        for part in range(parts):
            batch += 1
            file = _write(table, FIRST + timedelta(days=day), batch, part, parts)
            table.commit([file], app_id("here", "1"), batch, batch - 1)
        say(f"{day + 1} of {days} days are written")
    rows = (days - 1 + LAST_DAY_FILES) * ROWS_A_FILE
    part_of = Part(Place(1, batch), table.table_id(), rows, table.load().version())
    copies.put(
        pipeline.datacenters["here"].lake, [Release(1, int(time.time() * 1e6), "here", {"here": part_of})]
    )

    view, bare = read.duckdb(pipeline), duckdb.connect()
    asked, last = (FIRST + timedelta(days=n) for n in (days // 2, days - 1))
    files = f"'{table.folder}/{day_folder(asked.date())}*.parquet'"
    since = last + timedelta(hours=24, minutes=-5)
    day_seconds, bare_seconds, slice_seconds, all_seconds = _medians(
        [
            lambda: view.execute(
                GROUPED.format(rows="joined", where=f"WHERE _event_date = '{asked.date()}'")
            ),
            lambda: bare.execute(GROUPED.format(rows=files, where="")),
            lambda: view.execute(SLICE.format(since=since, day=last.date())),
            lambda: view.execute(SLICE.format(since=last, day=last.date())),
        ]
    )
    return SqlFigures(days, day_seconds, bare_seconds, slice_seconds, all_seconds)


def _medians(queries: Sequence[Callable[[], duckdb.DuckDBPyConnection]]) -> list[float]:
    taken: list[list[float]] = [[] for _ in queries]
    for _ in range(TURNS):
        for seconds, query in zip(taken, queries, strict=True):
            began = time.perf_counter()
            query().fetchall()
            seconds.append(time.perf_counter() - began)
    return [statistics.median(seconds) for seconds in taken]


def _write(table: OutputTable, day: datetime, batch: int, part: int, parts: int) -> OutputFile:
    """A file of a day as a compaction leaves it; its events come one after the other."""
    rng, count = np.random.default_rng(batch), ROWS_A_FILE
    step_us = 86_400_000_000 // parts // count
    at = int(day.timestamp() * 1e6) + (part * count + np.arange(count)) * step_us
    same = {"_datacenter": "here", "_epoch": "1", "_batch": batch, "_plan": "p"}
    names = pa.array(np.arange(count) + batch * count).cast(pa.string())
    columns = {
        **{
            name: pa.repeat(pa.scalar(value, ROW_COLUMNS.field(name).type), count)
            for name, value in same.items()
        },
        **{name: names for name in ("_occurrence", "_event_id", "_primary_occurrence")},
        **{name: pa.array(at, pa.timestamp("us", "UTC")) for name in ("_joined_at", "_event_time")},
        "country": pa.array(["de", "jp", "us", "fr"]).take(pa.array(rng.integers(0, 4, count))),
        "device": pa.array(["phone", "desk"]).take(pa.array(rng.integers(0, 2, count))),
        "price": pa.array(rng.integers(0, 10_000, count)),
    }
    rows = pa.table(columns)
    path = f"{day_folder(day.date())}compacted-{batch}.parquet"
    size_bytes = write_parquet(table.folder, path, rows)
    file = OutputFile("joined_events", path, size_bytes, count, rows.schema)
    return replace(file, date=day.date().isoformat())
