"""Spark's own joins of the logs of `join_logs`, each in a process of its own: `python -m bench.join_peers`.

Each gives what Photon gives: one row for each click, with all columns of both. The process makes a session,
joins the logs in `warm_up` once, says that it is ready, waits for a line, and joins the logs in `measured`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bench.join_logs import FOREIGN_INTEGERS, LONGEST_LAG_MS, PREFIX, PRIMARY_INTEGERS, JoinLogs
from photon.jobs.session import build_session, stop_session

READY = "ready"
CORES = os.cpu_count() or 1  # all, as Photon
WATERMARK = "10 minutes"  # twice the longest way from a query to its click
_LAG = f"interval {LONGEST_LAG_MS // 1_000} seconds"
_STATE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"

# Over those of the session builder. Its JVM options are for Photon, whose JVM only schedules.
SESSION: dict[str, str] = {
    "spark.driver.memory": "8g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.shuffle.partitions": str(CORES),
}
MEMORY = {
    f"{_STATE}.providerClass": f"{_PROVIDERS}.HDFSBackedStateStoreProvider",
}
ROCKSDB = {
    f"{_STATE}.providerClass": f"{_PROVIDERS}.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
}
STREAM = {
    "trigger": "availableNow",
    "watermark of both logs": WATERMARK,
    "join": f"query.time <= click.time <= query.time + {_LAG}",
    "duplicates": "dropDuplicatesWithinWatermark(click_id)",
}
BATCH = {"join": "broadcast of the clicks", "duplicates": "dropDuplicates(click_id)"}


def stream_join(session: SparkSession, logs: Path, table: Path, checkpoint: Path, at_once: int) -> None:
    """Join two streams of files by id and time, until all files are read."""

    def stream(name: str) -> DataFrame:
        reader = session.readStream.schema(_schema(name)).option("maxFilesPerTrigger", at_once)
        lines = reader.json(str(logs / f"{name}-*.jsonl"))
        timed = lines.withColumn(f"{name}_time", F.timestamp_millis("time"))
        return timed.withWatermark(f"{name}_time", WATERMARK)

    clicks = stream("clicks").dropDuplicatesWithinWatermark(["click_id"])
    queries = _prefixed(stream("queries"))
    clicked, asked = F.col("clicks_time"), F.col(f"{PREFIX}queries_time")
    in_time = (clicked >= asked) & (clicked <= asked + F.expr(_LAG))
    rows = clicks.join(queries, _same_query(clicks, queries) & in_time)
    writer = rows.drop("clicks_time", f"{PREFIX}queries_time").writeStream.format("delta")
    options = {"checkpointLocation": str(checkpoint)}
    writer.options(**options).trigger(availableNow=True).start(str(table)).awaitTermination()


def batch_join(session: SparkSession, logs: Path, table: Path, checkpoint: Path, at_once: int) -> None:
    """Join all files at once, without a checkpoint."""

    def lines(name: str) -> DataFrame:
        return session.read.schema(_schema(name)).json(str(logs / f"{name}-*.jsonl"))

    clicks, queries = lines("clicks").dropDuplicates(["click_id"]), _prefixed(lines("queries"))
    rows = queries.join(F.broadcast(clicks), _same_query(clicks, queries))
    rows.select(*clicks.columns, *queries.columns).write.format("delta").mode("append").save(str(table))


Join = Callable[[SparkSession, Path, Path, Path, int], None]
# name -> (its join, settings of its session, what else it is told)
PEERS: dict[str, tuple[Join, dict[str, str], dict[str, str]]] = {
    "stream_memory": (stream_join, SESSION | MEMORY, STREAM),
    "stream_rocksdb": (stream_join, SESSION | ROCKSDB, STREAM),
    "batch": (batch_join, SESSION, BATCH),
}


def settings_of(peer: str, files_per_trigger: int) -> dict[str, str]:
    """All that a reader has to know to run the same join."""
    join, session, told = PEERS[peer]
    at_once = {"maxFilesPerTrigger": str(files_per_trigger)} if join is stream_join else {}
    return {"master": f"local[{CORES}]", **session, **told, **at_once}


def main() -> None:
    """Join the logs of a folder, once warm and told to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files_per_trigger", type=int)
    parser.add_argument("--again", action="store_true", help="begin at once, after a crash")
    arguments = parser.parse_args()
    join, settings, _ = PEERS[arguments.peer]
    folder: Path = arguments.folder
    session = build_session(f"bench {arguments.peer}", f"local[{CORES}]", settings)

    def run(logs: str, table: str, checkpoint: str) -> None:
        join(session, folder / logs, folder / table, folder / checkpoint, arguments.files_per_trigger)

    if not arguments.again:
        run("warm_up", "warm_up_table", "warm_up_checkpoint")
        print(READY, flush=True)
        sys.stdin.readline()
    run("measured", "table", "checkpoint")
    stop_session(session)


def _schema(name: str) -> StructType:
    none, nothing = JoinLogs(primary=1, foreign=0), np.arange(0)
    table = none.queries(nothing) if name == "queries" else none.clicks(nothing)
    integers = PRIMARY_INTEGERS if name == "queries" else FOREIGN_INTEGERS
    types = {column: LongType() if column in integers else StringType() for column in table.column_names}
    return StructType([StructField(column, kind) for column, kind in types.items()])


def _prefixed(table: DataFrame) -> DataFrame:
    return table.select([F.col(name).alias(PREFIX + name) for name in table.columns])


def _same_query(clicks: DataFrame, queries: DataFrame) -> Column:
    return clicks["query_id"] == queries[f"{PREFIX}query_id"]


if __name__ == "__main__":
    main()
