"""Spark's stream-stream join of two topics, until it is killed: `python -m bench.landing_spark FOLDER URL`.

It joins the topics `queries` and `clicks` that the folder is named for into its `table`, from its
`checkpoint` on where there is one, a batch as soon as the last one is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.join_peers import CORES, MEMORY, SESSION
from photon.jobs.session import build_session
from photon.toolchain.fetched import share_dir
from photon.toolchain.maven import SCALA_SERIES, Artifact, Jars, artifact_names, spark_jars_dir

SPARK_VERSION = "4.2.0"
WATERMARK, LONGEST_LAG = "2 minutes", "90 seconds"
COLUMNS = {"queries": "query_id STRING, at DOUBLE", "clicks": "click_id STRING, query_id STRING, at DOUBLE"}


def spark_kafka() -> Jars:
    """Spark's source of Kafka, beside what pyspark brings."""
    import pyspark

    brought = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    return Jars(
        f"Spark's source of Kafka {SPARK_VERSION}",
        share_dir() / "spark-kafka",
        (Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_SERIES}", SPARK_VERSION),),
        artifact_names(path.name for path in brought),
    )


def main(folder: Path, url: str) -> None:
    """Join without end."""
    jars = {"spark.driver.extraClassPath": f"{spark_jars_dir()}/*:{spark_kafka().folder}/*"}
    session = build_session("bench landing", f"local[{CORES}]", SESSION | MEMORY | jars)

    def stream(name: str) -> DataFrame:
        reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", url)
        reader = reader.option("subscribe", f"{folder.name}-{name}").option("startingOffsets", "earliest")
        parsed = reader.load().select(F.from_json(F.col("value").cast("string"), COLUMNS[name]).alias("v"))
        timed = parsed.select("v.*").withColumn("time", F.timestamp_seconds("at"))
        return timed.withWatermark("time", WATERMARK)

    clicks = stream("clicks").dropDuplicatesWithinWatermark(["click_id"])
    queries = stream("queries").select(F.col("query_id").alias("id"), F.col("time").alias("asked"))
    in_time = F.col("time").between(F.col("asked"), F.col("asked") + F.expr(f"interval {LONGEST_LAG}"))
    rows = clicks.join(queries, (F.col("query_id") == F.col("id")) & in_time)
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / "table")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
