"""Make the class archive of Spark's JVM, from which a session maps its classes instead of loading them.

`photon setup` and `make setup` make it once. The JVM ignores an archive that does not fit it. With it a
session begins in 3.2 s instead of 5.7 s, and takes 4.9 s of a core instead of 8.1 s (medians of runs in turn
on two busy cores).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from photon.jobs.batch_job import SparkRunner
from photon.jobs.session import build_session, class_archive, stop_session
from photon.toolchain.fetched import STAMP
from photon.toolchain.maven import spark_jars_dir

# The JVM writes the archive as it ends, in 8 s on two cores; a busy machine may take many times as long.
WRITE_SECONDS = 240.0


def is_there() -> bool:
    """Whether there is an archive that was made since Delta's JARs were fetched."""
    archive, fetched = class_archive(), spark_jars_dir() / STAMP
    return archive.exists() and archive.stat().st_mtime >= fetched.stat().st_mtime


def make() -> Path:
    """Have a session do what sessions do, store the classes that it loaded, and return where."""
    archive = class_archive()
    unfinished = archive.with_suffix(".unfinished")
    session = build_session("photon class archive", archive_to=unfinished)
    try:
        exercise(session)
    finally:
        stop_session(session, timeout_seconds=WRITE_SECONDS)
    unfinished.replace(archive)
    return archive


def exercise(session: SparkSession) -> None:
    """Give Spark the kinds of work that this package's programs give it: a batch job, and queries."""
    SparkRunner(lambda: session).warm_up()
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    numbers = session.range(0, 100, numPartitions=2).mapInArrow(lambda batches: batches, "id long").persist()
    groups = numbers.groupBy((F.col("id") % 7).alias("group")).agg(F.count("*").alias("n"), F.max("id"))
    joined = numbers.join(groups, numbers["id"] == groups["group"], "left").where("n is not null")
    joined.orderBy("id").limit(5).collect()
    numbers.unpersist()


def main() -> None:
    """Make the archive. Without one everything works, only slower, so a failure is no error."""
    print("making the class archive of Spark's JVM (half a minute)", file=sys.stderr, flush=True)
    try:
        make()
    except Exception as error:
        print(f"the class archive could not be made, sessions begin slower: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
