"""The only place that builds a Spark session: its settings, its JARs, its end."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from photon.jobs.cluster import PYTHON, code_archive, is_cluster, settings_of
from photon.jobs.executors import GONE, Executors, built_in_time, lacking
from photon.join.messages import NoExecutor
from photon.pipeline.file import Pipeline
from photon.pipeline.location import S3Folder
from photon.process.environment import EnvironmentLacks, check_temporary_folders
from photon.toolchain.java import java_command
from photon.toolchain.maven import spark_jars_dir

log = logging.getLogger(__name__)

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
CREDENTIALS_PROVIDER = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
LOOK_SECONDS = 1.0  # between two looks of a program whose master, or executor, is away
# A machine that loses its power sends no word. Spark gives its executors up after two minutes; so it is told
# within 17 s, and red within 30 s. An executor that only stood still for so long is replaced by another one.
SOON_GIVEN_UP = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.network.timeoutInterval": "1s",
}
TASK_TRIES = 4  # for a task whose worker died, in all
# The JVM only schedules; records are read, joined and written in Python workers. Compiled no further than
# needed for that, a session takes 8 s of a core until it is warm, instead of 15 s, and a small job 3.9 s for
# twenty, instead of 5.0 s (runs in turn on two busy cores).
# Spark compiles classes for each query. After some verifications in one session they fill the 48 MB that the
# JVM takes by itself, and it goes on many times slower.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=192m",
    "-Xlog:disable",
)


_NOISE = b"WARNING: Using incubator modules"
_WITHOUT_CTRL_C = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
_SPARK_SHELL = "pyspark-shell"  # a word of the command line of each JVM that PySpark starts
_ALL_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def class_archive() -> Path:
    """Where a session finds its classes ready (`photon.jobs.class_archive`); may not exist."""
    return spark_jars_dir().with_name("spark-classes.jsa")


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def local_master(workers: int | None = None, jobs: int = 1) -> str:
    """Spark's name for this machine, where each of `jobs` has `workers` tasks at once; None: one a core."""
    return f"local[{jobs * (workers or usable_cores())},{TASK_TRIES}]"


def joining_master(workers: int | None = None) -> str:
    """This machine for joins: while a batch's tasks wait for the registry, others index the next batch."""
    return local_master(workers, jobs=2)


def session_for_joins(pipeline: Pipeline, name: str) -> SparkSession:
    """A session for joins, which may have no executor yet. NoExecutor where a cluster's master is away."""
    master = pipeline.spark.master or joining_master(pipeline.limits.workers)
    if not is_cluster(master):
        return build_session(name, master, pipeline.spark.settings)
    # Executors' JVMs only schedule too: a join on four of them took 5.1 s instead of 6.9 s.
    executors = {"spark.executor.extraJavaOptions": " ".join(JVM_OPTIONS), **SOON_GIVEN_UP}
    return built_in_time(master, lambda: _on_cluster(pipeline, name, master, executors))


def session_for(pipeline: Pipeline, name: str, here: str | None = None) -> SparkSession:
    """A session with the master that the pipeline names, else with `here`, on this machine.

    A cluster's master that is away, or gives no executor, is waited for. What runs when all executors are
    gone is canceled.
    """
    master, told = pipeline.spark.master or here, ""
    if master is None or not is_cluster(master):
        return build_session(name, master, pipeline.spark.settings)
    session: SparkSession | None = None
    executors: Executors | None = None
    while True:
        try:
            if session is None:
                session = built_in_time(master, lambda: _on_cluster(pipeline, name, master, SOON_GIVEN_UP))
                executors = Executors.of(session, are_missed=False)
            if executors is None or executors.are_there:
                return session
            if executors.are_gone:
                executors.refuse()
                stop_session(session)
                session = None
        except NoExecutor as error:
            if str(error) != told:
                log.warning("waits: %s", error)
            told = str(error)
        time.sleep(LOOK_SECONDS)


def _on_cluster(pipeline: Pipeline, name: str, master: str, executors: Mapping[str, str]) -> SparkSession:
    """A session on a cluster. `executors`: settings of those of it, unless the pipeline has its own."""
    code = code_archive(pipeline)
    session = build_session(name, master, {**settings_of(code), **executors, **pipeline.spark.settings})
    session.sparkContext.addFile(str(code))
    return session


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
    java_command()
    if not spark_jars_dir().is_dir():
        raise EnvironmentLacks(f"{spark_jars_dir()} lacks the JARs of Delta Lake, fetch them: photon setup")
    check_temporary_folders()
    master, settings = master or local_master(), dict(settings or {})
    python = settings.get("spark.pyspark.python", PYTHON) if is_cluster(master) else sys.executable
    # Workers here must run the driver's own Python, whatever `python3` is on the PATH.
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    jars = f"{spark_jars_dir()}/*"
    classes = f"ArchiveClassesAtExit={archive_to}" if archive_to else f"SharedArchiveFile={class_archive()}"
    java_options = (f"-Dlog4j2.configurationFile={LOG_SETTINGS}", *JVM_OPTIONS, f"-XX:{classes}")
    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        # Not spark.jars, which copies the files at every start.
        .config("spark.driver.extraClassPath", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", " ".join(java_options))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # A second attempt beside a running one would only register what the first has registered (A10).
        .config("spark.speculation", "false")
        .config("spark.python.worker.reuse", "true")
        .config("spark.python.daemon.module", "photon.jobs.worker_daemon")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.databricks.delta.snapshotPartitions", "1")
    )
    if not is_cluster(master):
        # Else Spark looks up the host's name and complains of what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {**_ALL_HERE, **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with _jvm_by_its_own_shell():
            session = builder.getOrCreate()
    except (
        BaseException
    ) as error:  # Ctrl-C as well: a JVM that nobody waits for goes on starting, and stays for a while
        said = str(error) if isinstance(error, Py4JError) else ""  # a JVM that is gone tells no error
        _kill_jvms()
        if said and is_cluster(master):
            raise lacking(master, f"did not take this driver: {_first_cause(said)}") from None
        if isinstance(error, PySparkRuntimeError) and error.getCondition() == "JAVA_GATEWAY_EXITED":
            raise EnvironmentLacks(
                f"Java ({java_command()}) ended before Spark had begun. What it said is above; it needs some"
                " 2 GB of memory, a Java of 17 or newer, and room in the folder of temporary files"
            ) from error
        raise
    # A SparkContext takes SIGINT for itself, to cancel its jobs. The earlier handler knows how to stop.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _kill_jvms() -> None:
    """End what this process has started of Spark, and have its next session start another JVM."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if _SPARK_SHELL in child.cmdline():
                started = [child, *child.children(recursive=True)]  # a shell first, and what it asks
                for process in started:
                    process.kill()
                psutil.wait_procs(started)
    _forget_jvm()


@contextmanager
def _jvm_by_its_own_shell() -> Iterator[None]:
    """Have PySpark start its JVM without Python between fork and exec, and without a warning (`_NOISE`).

    PySpark has the child ignore Ctrl-C by a function of its own, which crashed where many libraries were
    loaded: their threads hold locks at the fork. A shell does the same. No option silences the launcher:
    Spark asks for a module of the incubator, and Java says so before it reads any.
    """
    reader, writer = os.pipe()
    threading.Thread(target=_forward, args=(reader, os.dup(2)), name="jvm-stderr", daemon=True).start()

    def start(
        command: Sequence[str], preexec_fn: object, env: Mapping[str, str], **settings: Any
    ) -> subprocess.Popen[bytes]:
        # A worker runs its module by `python -m`, which else would look first into the current folder.
        env = {**env, "PYTHONSAFEPATH": "1"}
        return subprocess.Popen([*_WITHOUT_CTRL_C, *command], stderr=writer, env=env, **settings)

    launcher: Any = java_gateway
    usual, launcher.Popen = launcher.Popen, start
    try:
        yield
    finally:
        launcher.Popen = usual
        os.close(writer)


def _forward(reader: int, to: int) -> None:
    """Write lines on, until all who write them have ended."""
    with os.fdopen(reader, "rb") as lines, suppress(OSError):
        for line in lines:
            if not line.startswith(_NOISE):
                os.write(to, line)
    os.close(to)


def reach_lakes(session: SparkSession, pipeline: Pipeline) -> None:
    """Tell Spark how to reach a pipeline's lakes on S3, before it reads the first file of one."""
    settings = session.sparkContext._jsc.hadoopConfiguration()
    for place in pipeline.datacenters.values():
        if isinstance(place.lake, S3Folder):
            for key, value in s3a_settings(place.lake).items():
                settings.set(key, value)


def s3a_settings(folder: S3Folder) -> dict[str, str]:
    """Settings of Hadoop's S3A for the bucket of a folder. Credentials are those of the environment."""
    from photon.storage.s3 import endpoint_url_of, region_of  # only who uses S3 waits for its libraries

    bucket = f"fs.s3a.bucket.{folder.bucket}"
    settings = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",  # s3:// is what others call it
        f"{bucket}.endpoint.region": region_of(folder),
        f"{bucket}.aws.credentials.provider": CREDENTIALS_PROVIDER,
    }
    if (endpoint_url := endpoint_url_of(folder)) is not None:
        # A store that is not AWS has no name of its own for each bucket.
        settings |= {f"{bucket}.endpoint": endpoint_url, f"{bucket}.path.style.access": "true"}
        settings[f"{bucket}.connection.ssl.enabled"] = str(endpoint_url.startswith("https:")).lower()
    return settings


def stop_session(session: SparkSession, timeout_seconds: float = 30.0) -> None:
    """Stop a session and the JVM behind it, dead or alive; a JVM that takes longer is killed."""
    gateway = session.sparkContext._gateway
    if is_alive(session):
        with suppress(Py4JError, OSError):  # the JVM may end at this very moment: who ends all ends it too
            session.stop()
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    _forget_jvm()


def _forget_jvm() -> None:
    """Else PySpark would use the JVM that is gone for the next session of this process."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def is_alive(session: SparkSession, dying_seconds: float = 0.0) -> bool:
    """Whether the JVM behind a session runs, and goes on to for `dying_seconds`; and its master knows it."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    if process is None:
        return True
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=dying_seconds)
    return process.poll() is None and not _was_stopped(session)


def was_given_up(session: SparkSession) -> bool:
    """Whether Spark has stopped a session whose JVM lives, as it does when a cluster's master ends it."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    return process is not None and process.poll() is None and _was_stopped(session)


def _first_cause(said: str) -> str:
    """The line of an error of Java that names it."""
    lines = [line.strip() for line in said.splitlines()]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def _was_stopped(session: SparkSession) -> bool:
    """Whether Spark has given the session up, as it does when a cluster's master is away for long."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except GONE:
        return True
