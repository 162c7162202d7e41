"""The only place that builds a Spark session: its settings, its JARs, its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from photon.toolchain.maven import spark_jars_dir

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOCAL_MASTER = "local[2,4]"  # two tasks at once; a task whose worker died is tried four times in all
# The JVM only schedules; records are read, joined and written in Python workers. Compiled no further than
# needed for that, a session takes 8 s of a core until it is warm, instead of 15 s, and a small job 3.9 s for
# twenty, instead of 5.0 s (runs in turn on two busy cores).
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def class_archive() -> Path:
    """Where a session finds its classes ready (`jobs.class_archive`); may not exist."""
    return spark_jars_dir().with_name("spark-classes.jsa")


def build_session(
    name: str,
    master: str = LOCAL_MASTER,
    settings: Mapping[str, str] | None = None,
    archive_to: Path | None = None,
) -> SparkSession:
    """A warm Spark session with Delta Lake. One a process: stop it with `stop_session`.

    `archive_to`: at its end the JVM writes its classes there, and uses no archive itself.
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
        .master(master)
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
    """Stop a session and the JVM behind it; wait up to `timeout_seconds` for its end."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=timeout_seconds)
    # Else PySpark would use the JVM that is gone for the next session of this process.
    SparkContext._gateway = SparkContext._jvm = None
