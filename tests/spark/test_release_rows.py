"""Two reports of one release, one in DuckDB and one in Spark, agree: decimals and integers exactly."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from photon import read
from photon.jobs.release_rows import release_rows
from photon.releases.reading import open_release
from photon.storage.output_files import write_rows_by_date
from photon.storage.tables import app_id
from tests.releases.lakes import Lakes, Place, Row, new_lakes, stored

pytestmark = [pytest.mark.spark]

REPORT = """
SELECT _event_date, _datacenter, count(*) AS events, sum(value) AS numbers,
       sum(price) AS paid, max(price) AS most
FROM joined GROUP BY _event_date, _datacenter ORDER BY _event_date, _datacenter
"""


def append_prices(lakes: Lakes, name: str, prices: list[str]) -> None:
    """A batch whose rows have a column more, of decimals."""
    place = Place(lakes.last[name].epoch, lakes.last[name].batch + 1)
    rows = [Row(f"p{len(lakes.rows[name])}{name}{n}", place, n) for n in range(len(prices))]
    values = pa.array([Decimal(price) for price in prices], pa.decimal128(38, 6))
    table = stored(name, rows).append_column("price", values)
    files = write_rows_by_date(lakes.lake(name), "joined_events", place.batch, table)
    lakes.table(name).commit(files, app_id(name, str(place.epoch)), place.batch, place.batch - 1)
    lakes.rows[name] += rows
    lakes.last[name] = place


def test_reports_of_one_release_agree_in_both_engines(session: SparkSession, tmp_path: Path) -> None:
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    for name in ("east", "west"):
        lakes.append(name, 5)
        append_prices(lakes, name, ["0.000001", "12345678901234567890.123456", "-7.1"])
        lakes.append(name, 3)
    lakes.begin_epoch("west")
    append_prices(lakes, "west", ["0.2", "0.1"])
    number = lakes.release(lags=1).release.number
    lakes.compact("east")
    append_prices(lakes, "east", ["99"])  # later than the release
    in_duckdb = read.duckdb(lakes.pipeline, release=number).execute(REPORT).fetchall()
    release_rows(session, open_release(lakes.pipeline, number)).createOrReplaceTempView("joined")
    in_spark = [tuple(row) for row in session.sql(REPORT).collect()]
    assert in_spark == in_duckdb
    assert sum(row[2] for row in in_duckdb) == len(lakes.made[-1].joined)
