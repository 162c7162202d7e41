"""Spark's Delta source, with rows that `foreachBatch` copies to PostgreSQL: `python -m bench.feed_peer URL`.

Each line of standard input is an order. A batch may come again, so its rows and its number are stored in one
transaction. Tasks would need one each: so its rows come to the driver, as Arrow, and are copied as Photon's
follower copies a step.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import psycopg2
from pyspark.sql import DataFrame

from bench.join_peers import CORES, SESSION
from photon.adapters import DATE_COLUMN
from photon.feed.postgres_rows import columns_of, csv_of
from photon.jobs.session import build_session, stop_session

FILES_PER_TRIGGER = 100
BATCHES = "CREATE TABLE IF NOT EXISTS spark_batches (stream text PRIMARY KEY, batch bigint NOT NULL)"
IS_NEW = """
INSERT INTO spark_batches AS known VALUES (%s, %s)
ON CONFLICT (stream) DO UPDATE SET batch = excluded.batch WHERE known.batch < excluded.batch
"""


class Copying:
    """The function that a stream calls with each batch; it copies to a table that is there."""

    def __init__(self, url: str, into: str, stream: str) -> None:
        self._connection: Any = psycopg2.connect(url)
        self._into, self._stream = into, stream

    def __call__(self, rows: DataFrame, batch: int) -> None:
        page = rows.drop(DATE_COLUMN).toArrow()
        kinds = columns_of(page.schema)
        names = ", ".join(f'"{name}"' for name in kinds)
        with self._connection as connection, connection.cursor() as run:
            run.execute(IS_NEW, (self._stream, batch))
            if run.rowcount:
                copy = f"COPY {self._into} ({names}) FROM STDIN (FORMAT csv)"
                run.copy_expert(copy, io.BytesIO(csv_of(page, kinds)))


def main(url: str) -> None:
    """Start a stream of each table that is ordered, and say when those that end have ended."""
    session = build_session("bench feed", f"local[{CORES}]", SESSION)
    with psycopg2.connect(url) as connection, connection.cursor() as run:
        run.execute(BATCHES)
    for line in sys.stdin:
        into, tables, checkpoints, options, is_live = json.loads(line)
        streams = []
        for number, table in enumerate(tables):
            name = f"{into}-{number}"
            reader = session.readStream.format("delta").options(**options)
            rows = reader.option("maxFilesPerTrigger", FILES_PER_TRIGGER).load(table)
            writer = rows.writeStream.foreachBatch(Copying(url, into, name))
            writer = writer.option("checkpointLocation", f"{checkpoints}/{name}")
            streams.append((writer if is_live else writer.trigger(availableNow=True)).start())
        if not is_live:
            for stream in streams:
                stream.awaitTermination()
            print("done", flush=True)
    stop_session(session)


if __name__ == "__main__":
    main(sys.argv[1])
