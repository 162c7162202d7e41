"""The only place that builds a Spark session: its settings, its JARs, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from photon.toolchain.maven import spark_jars_dir

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
TASK_TRIES = 4  # of a task whose worker died, in all
# The JVM only schedules; records are read, joined and written in Python workers. Compiled no further than
# needed for that, a session takes 8 s of a core until it is warm, instead of 15 s, and a small job 3.9 s for
# twenty, instead of 5.0 s (runs in turn on two busy cores).
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def class_archive() -> Path:
    """Where a session finds its classes ready (`jobs.class_archive`); may not exist."""
    return spark_jars_dir().with_name("spark-classes.jsa")


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def local_master(workers: int | None = None, jobs: int = 1) -> str:
    """This machine, with so many tasks at once of each of `jobs`; None: as many as there are usable cores."""
    return f"local[{jobs * (workers or usable_cores())},{TASK_TRIES}]"


def joining_master(workers: int | None = None) -> str:
    """This machine for joins: while a batch's tasks wait for the registry, others index the next batch."""
    return local_master(workers, jobs=2)


def build_session(
    name: str,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    archive_to: Path | None = None,
) -> SparkSession:
    """A warm Spark session with Delta Lake. One a process: stop it with `stop_session`.

    `master`: None for `local_master()`. `archive_to`: at its end the JVM writes its classes there, and uses
    no archive itself.
    """
    # Workers must run the driver's own Python, whatever `python3` is on the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Else Spark looks up the host's name and complains of what it finds.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = f"{spark_jars_dir()}/*"
    classes = f"ArchiveClassesAtExit={archive_to}" if archive_to else f"SharedArchiveFile={class_archive()}"
    java_options = (f"-Dlog4j2.configurationFile={LOG_SETTINGS}", *JVM_OPTIONS, f"-XX:{classes}")
    builder = (
        SparkSession.builder.appName(name)
        .master(master or local_master())
        # Not spark.jars, which copies the files at every start.
        .config("spark.driver.extraClassPath", jars)
        .config("spark.executor.extraClassPath", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", " ".join(java_options))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # A second attempt beside a running one would only register what the first has registered (A10).
        .config("spark.speculation", "false")
        .config("spark.python.worker.reuse", "true")
        .config("spark.python.daemon.module", "jobs.worker_daemon")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.databricks.delta.snapshotPartitions", "1")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    # A SparkContext takes SIGINT for itself, to cancel its jobs. The earlier handler knows how to stop.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)
    session.sparkContext.setLogLevel("ERROR")
    return session


def stop_session(session: SparkSession, timeout_seconds: float = 30.0) -> None:
    """Stop a session and the JVM behind it, dead or alive; wait up to `timeout_seconds` for its end."""
    gateway = session.sparkContext._gateway
    if is_alive(session):
        session.stop()
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            with suppress(OSError):
                process.stdin.close()
            process.wait(timeout=timeout_seconds)
    # Else PySpark would use the JVM that is gone for the next session of this process.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def is_alive(session: SparkSession, dying_seconds: float = 0.0) -> bool:
    """Whether the JVM behind a session runs, and goes on to for `dying_seconds`."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    if process is None:
        return True
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=dying_seconds)
    return process.poll() is None
