"""One table is read alike by deltalake, polars, pandas, DuckDB and Spark, by its log or by its paths."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from photon.adapters import ROW_COLUMNS
from photon.storage.candidate_files import write_candidates
from photon.storage.compaction import compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.output_files import day_folder, write_rows_by_date
from photon.storage.tables import OutputTable, app_id
from photon.storage.tokens import PlanKey

pytestmark = [pytest.mark.spark]

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = [NEW_YEAR - timedelta(microseconds=1), NEW_YEAR, None, NEW_YEAR + timedelta(days=40)]
DAYS = ["2025-12-31", "2026-01-01", None, "2026-02-10"]
ODD = ["a=b/c%20d", "ü 'quoted' \"too\"\n", None, "\u202e_event_date=2000-01-01/"]
COLUMN = "größe.%3D'"  # no table refuses it
BATCHES = 4
Row = tuple[str, str | None, str | None]


def rows(batch: int) -> pa.Table:
    stamp = {"_datacenter": "east", "_epoch": "1", "_batch": batch, "_plan": f"p{batch}"}
    found = [
        stamp
        | {"_occurrence": f"{batch}:{n}", "_event_id": f"e{batch}-{n}", "_event_time": time, COLUMN: odd}
        for n, (time, odd) in enumerate(zip(TIMES, ODD, strict=True))
    ]
    return pa.Table.from_pylist(found, pa.schema([*ROW_COLUMNS, (COLUMN, pa.string())]))


EXPECTED: list[Row] = sorted(
    (f"e{batch}-{n}", day, odd)
    for batch in range(1, BATCHES + 1)
    for n, (day, odd) in enumerate(zip(DAYS, ODD, strict=True))
)


@pytest.fixture(scope="module", params=["live", "compacted", "compacted in part"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of four batches: of tasks' candidate files, and of files that a dispatcher wrote."""
    folder = tmp_path_factory.mktemp("lake")
    made = OutputTable(folder, "joined_events")
    made.create("clicks", "east")
    for batch in range(1, BATCHES + 1):
        plan = PlanKey("east", "1", batch, f"p{batch}")
        files = (
            write_candidates(folder, plan, 0, rows(batch))
            if batch % 2
            else write_rows_by_date(folder, "joined_events", batch, rows(batch))
        )
        made.commit(files, app_id("east", "1"), batch, batch - 1, plan.plan_id)
    if request.param != "live":
        groups = groups_of(DataFiles(made.load()).all(), {"1": BATCHES}, 2**30, 2)
        assert len(groups) == len(DAYS)
        for group in groups[: 2 if "part" in request.param else None]:
            assert compact(made, group, "photon:east:compaction") is not None
    assert isinstance(made.folder, Path)
    return made.folder


def alike(found: Any) -> list[Row]:
    """Rows as every reader is to give them: a day as it is written, whatever type the reader has for it."""
    rows = [(event, None if pd.isna(day) else str(day)[:10], odd) for event, day, odd in found]
    return sorted((event, day, None if pd.isna(odd) else odd) for event, day, odd in rows)


def files_of(table: Path) -> list[str]:
    return [str(table / path) for path in DeltaTable(str(table)).get_add_actions()["path"].to_pylist()]


# Else pyarrow makes a dictionary of the days, and pandas has none with a null.
BY_DAY = ds.partitioning(pa.schema([("_event_date", pa.date32())]), flavor="hive")
CHOSEN = ["_event_id", "_event_date", COLUMN]
SELECT = f'SELECT _event_id, _event_date, "{COLUMN}" FROM'
READERS: dict[str, Callable[[Path], Any]] = {
    "deltalake": lambda table: zip(
        *(DeltaTable(table).to_pyarrow_table()[name].to_pylist() for name in CHOSEN), strict=True
    ),
    "polars": lambda table: pl.read_delta(str(table)).select(CHOSEN).rows(),
    "polars, lazily": lambda table: pl.scan_delta(str(table)).select(CHOSEN).collect().rows(),
    "polars, by paths": lambda table: (
        pl.read_parquet(files_of(table), hive_partitioning=True, missing_columns="insert")
        .select(CHOSEN)
        .rows()
    ),
    "pandas": lambda table: DeltaTable(table).to_pandas()[CHOSEN].itertuples(index=False),
    "pandas, by paths": lambda table: pd.read_parquet(files_of(table), partitioning=BY_DAY)[
        CHOSEN
    ].itertuples(index=False),
    "DuckDB, of Arrow": lambda table: (
        duckdb.from_arrow(DeltaTable(table).to_pyarrow_dataset()).query("t", f"{SELECT} t").fetchall()
    ),
    "DuckDB, by paths": lambda table: (
        duckdb.read_parquet(files_of(table), hive_partitioning=True, union_by_name=True)
        .query("t", f"{SELECT} t")
        .fetchall()
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_has_each_row_with_its_day(table: Path, reader: str) -> None:
    assert alike(READERS[reader](table)) == EXPECTED


def test_spark_has_each_row_with_its_day(session: SparkSession, table: Path) -> None:
    quoted = [f"`{name}`" for name in CHOSEN]
    of_log = session.read.format("delta").load(str(table)).select(quoted)
    assert alike(map(tuple, of_log.collect())) == EXPECTED
    by_paths = session.read.option("basePath", str(table)).parquet(*files_of(table)).select(quoted)
    assert alike(map(tuple, by_paths.collect())) == EXPECTED


@pytest.mark.parametrize("day", DAYS)
def test_a_reader_that_asks_for_one_day_has_its_rows_alone(table: Path, day: str | None) -> None:
    wanted = [row for row in EXPECTED if row[1] == day]
    at = pl.col("_event_date")
    is_wanted = at.is_null() if day is None else at == date.fromisoformat(day)
    of_polars = pl.scan_delta(str(table)).filter(is_wanted).select(CHOSEN).collect().rows()
    assert alike(of_polars) == wanted
    folder = table / day_folder(day)
    assert sorted(folder.glob("*.parquet")), "its files lie together"
    where = "IS NULL" if day is None else f"= DATE '{day}'"
    of_files = duckdb.read_parquet(files_of(table), hive_partitioning=True)
    assert alike(of_files.query("t", f"{SELECT} t WHERE _event_date {where}").fetchall()) == wanted


def test_every_file_lies_in_the_folder_of_its_day(table: Path) -> None:
    files = DataFiles(OutputTable(table.parent, "joined_events").load()).all()
    assert all(file.path.startswith(day_folder(file.date)) for file in files)
