"""How long SQL over a release takes: a day beside DuckDB on that day's bare files, and a slice of minutes.

Each day has a million rows in one file, whose bytes are the same for all; the last one has ten million, in
ten. The view is made before. Each turn asks both for another day, once this and once that first, so that both
meet the same machine and the same caches: the median of the turns' ratios counts.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from bench.timing import Spent, timed
from photon import read
from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import Location
from photon.releases import copies
from photon.releases.release import Part, Place, Release
from photon.storage.output_files import OutputFile, day_folder, write_parquet
from photon.storage.tables import OutputTable, app_id

ROWS_A_FILE, LAST_DAY_FILES = 1_000_000, 10
DAY_TURNS, SLICE_TURNS = 100, 7
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
    """The medians of a day by the view and by its bare files, and of their ratios."""

    days: int
    day: Spent
    bare: Spent
    ratio: Spent
    slice_seconds: float  # of the last day's ten million rows
    all_seconds: float  # four columns of them all

    def __str__(self) -> str:
        return (
            f"{self.days} days: one of them grouped {self.day.seconds * 1e3:.1f} ms, CPU "
            f"{self.day.cpu_seconds * 1e3:.1f} ms; bare files {self.bare.seconds * 1e3:.1f} ms, CPU "
            f"{self.bare.cpu_seconds * 1e3:.1f} ms; ratio {self.ratio.seconds:.2f}, CPU "
            f"{self.ratio.cpu_seconds:.2f}; of ten million rows five minutes {self.slice_seconds:.3f} s, all "
            f"{self.all_seconds:.3f} s"
        )


def measure(folder: Path, days: int, say: Callable[[str], None]) -> SqlFigures:
    """Make the table in an empty folder, and ask."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(folder / "pipeline.yaml")
    table = _made(pipeline.datacenters["here"].lake, days)
    say(f"{days} days are written")

    view, bare = read.duckdb(pipeline), duckdb.connect()
    by_view: list[Spent] = []
    of_files: list[Spent] = []
    ratios: list[Spent] = []
    for turn in range(DAY_TURNS):
        day = (FIRST + timedelta(days=turn % (days - 1))).date()
        asked = [
            (view, by_view, GROUPED.format(rows="joined", where=f"WHERE _event_date = '{day}'")),
            (bare, of_files, GROUPED.format(rows=f"'{table.folder}/{day_folder(day)}*.parquet'", where="")),
        ]
        for connection, spent, query in asked if turn % 2 else reversed(asked):
            spent.append(_spent(connection, query))
        ratios.append(_ratio(by_view[-1], of_files[-1]))
    last = FIRST + timedelta(days=days - 1)
    slice_seconds, all_seconds = (
        statistics.median(
            _spent(view, SLICE.format(since=since, day=last.date())).seconds for _ in range(SLICE_TURNS)
        )
        for since in (last + timedelta(hours=24, minutes=-5), last)
    )
    return SqlFigures(days, _median(by_view), _median(of_files), _median(ratios), slice_seconds, all_seconds)


def _made(lake: Location, days: int) -> OutputTable:
    """A table of so many days, with a release."""
    table = OutputTable(lake, "joined_events")
    table.create("clicks", "here")
    first, last = _write(table, FIRST, 1, 0, 1), FIRST + timedelta(days=days - 1)
    files = [
        first,
        *(_copied(table, first, FIRST + timedelta(days=n)) for n in range(1, days - 1)),
        *(_write(table, last, 2 + part, part, LAST_DAY_FILES) for part in range(LAST_DAY_FILES)),
    ]
    batch = 1 + LAST_DAY_FILES
    table.commit(files, app_id("here", "1"), batch, None)
    part = Part(Place(1, batch), table.table_id(), len(files) * ROWS_A_FILE, table.load().version())
    copies.put(lake, [Release(1, int(time.time() * 1e6), "here", {"here": part})])
    return table


def _spent(connection: duckdb.DuckDBPyConnection, query: str) -> Spent:
    with timed() as spent:
        connection.execute(query).fetchall()
    return spent


def _median(taken: list[Spent]) -> Spent:
    return Spent(
        statistics.median(each.seconds for each in taken),
        statistics.median(each.cpu_seconds for each in taken),
    )


def _ratio(view: Spent, bare: Spent) -> Spent:
    return Spent(view.seconds / bare.seconds, view.cpu_seconds / bare.cpu_seconds)


def _copied(table: OutputTable, file: OutputFile, day: datetime) -> OutputFile:
    """The same file for another day. Its rows keep their times, which no query of that day asks for."""
    path = f"{day_folder(day.date())}{Path(file.path).name}"
    target = Path(str(table.folder / path))
    target.parent.mkdir()
    shutil.copyfile(str(table.folder / file.path), target)
    return replace(file, path=path, date=day.date().isoformat())


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
