"""Spark's stream-stream join of live logs, until it is killed: `python -m bench.live_spark FOLDER`.

It joins logs/one of the folder into its `table`, a batch as soon as the last one is done, from its
`checkpoint` on where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.join_peers import CORES, MEMORY, SESSION
from examples.demo.log_writer import CLICK_COLUMNS, QUERY_COLUMNS
from photon.jobs.session import build_session

WATERMARK_SECONDS, LONGEST_LAG_SECONDS = 120, 90  # no click of the traffic comes later than a minute
LOGS = {"clicks": CLICK_COLUMNS, "queries": QUERY_COLUMNS}
PREFIX = "primary_"


def declared(columns: Iterable[str], time_type: str) -> str:
    """Columns of a log or of rows with their types, in SQL."""
    kinds = {"time": time_type, "position": "BIGINT", "logged_at": "BIGINT"}
    return ", ".join(f"`{name}` {kinds.get(name.removeprefix(PREFIX), 'STRING')}" for name in columns)


def main(folder: Path) -> None:
    """Join without end."""
    session = build_session("bench live", f"local[{CORES}]", SESSION | MEMORY)

    def stream(name: str) -> DataFrame:
        schema = declared(LOGS[name], "TIMESTAMP")
        reader = session.readStream.schema(schema).option("pathGlobFilter", "*.jsonl")
        lines = reader.option("recursiveFileLookup", "true").json(str(folder / "logs" / "one" / name))
        return lines.withWatermark("time", f"{WATERMARK_SECONDS} seconds")

    clicks = stream("clicks").dropDuplicatesWithinWatermark(["click_id"])
    queries = stream("queries")
    queries = queries.select([F.col(name).alias(PREFIX + name) for name in queries.columns])
    latest = F.col("primary_time") + F.expr(f"interval {LONGEST_LAG_SECONDS} seconds")
    in_time = F.col("time").between(F.col("primary_time"), latest)
    rows = clicks.join(queries, (F.col("query_id") == F.col("primary_query_id")) & in_time)
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / "table")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
