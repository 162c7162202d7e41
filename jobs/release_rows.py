"""The rows of one release in Spark: the same files and the same condition as every other reader has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from photon.adapters import DATE_COLUMN
from photon.releases.files import ReleaseFiles
from photon.releases.reading import OpenRelease
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.store import store_of


def release_rows(spark: SparkSession, opened: OpenRelease) -> DataFrame:
    """The joined rows of all datacenters in a release, each once. ReleaseUnreadable."""
    tables = opened.tables("joined_events")
    own = [*TABLE_COLUMNS["joined_events"], pa.field(DATE_COLUMN, pa.date32())]
    columns = pa.unify_schemas([pa.schema(own), *(each.schema for each in tables)])
    nothing = spark.createDataFrame([], from_arrow_schema(columns))
    frames = (frame for files in tables for frame in _frames(spark, files))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames, nothing)


def _frames(spark: SparkSession, files: ReleaseFiles) -> Iterator[DataFrame]:
    """One frame for each day, whose date is in no file."""
    schema = pa.schema([field for field in files.schema if field.name != DATE_COLUMN])
    found: dict[tuple[date | None, bool], list[str]] = defaultdict(list)
    for is_whole, some in ((True, files.whole), (False, files.partial)):
        for file in some:
            found[file.date, is_whole].append(f"{store_of(files.folder).url}/{file.path}")
    for (day, is_whole), paths in found.items():
        # Or Spark takes the names of folders for columns, and guesses their types.
        reader = spark.read.schema(from_arrow_schema(schema)).option("recursiveFileLookup", True)
        rows = reader.parquet(*paths)
        yield (rows if is_whole else rows.where(files.sql_condition)).withColumn(
            DATE_COLUMN, F.lit(day).cast("date")
        )
