"""Flink in an environment of its own, made on demand: `python -m bench.flink_environment` (`make flink`).

Its packages pin other versions than Photon's, so they never share one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from photon.process.errors import UserError
from photon.toolchain.fetched import Fetched, FetchFailed
from photon.toolchain.java import java_command
from photon.toolchain.maven import Artifact, Jars

FLINK_VERSION = "2.3.0"
INSTALL_SECONDS = 600
JVM_OPTIONS = "-Xmx8g -XX:+UseParallelGC"  # the heap of Spark's streams, and their collector
# With hashes, and nothing beside: Beam and pandas serve functions in Python alone.
REQUIREMENTS = Path(__file__).with_name("flink-requirements.txt")
PARQUET = Artifact("org.apache.flink", "flink-sql-parquet", FLINK_VERSION)


class FlinkMissing(UserError):
    """Flink cannot be had here; the message says why."""


@dataclass(frozen=True)
class FlinkEnvironment(Fetched):
    """A virtual environment with Flink, and with what it needs to write Parquet."""

    def stamp(self) -> str:
        """See `Fetched`."""
        wanted = " ".join([REQUIREMENTS.read_text(), str(PARQUET), sys.version.split()[0]])
        return hashlib.sha256(wanted.encode()).hexdigest()

    def fill(self, files: Path, work: Path) -> None:
        """See `Fetched`. JavaMissing if there is no Java."""
        _run([sys.executable, "-m", "venv", str(files)])
        install = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"]
        _run([str(files / "bin" / "python"), *install, "-r", str(REQUIREMENTS)])
        jars = Jars(title=f"Parquet for Flink {FLINK_VERSION}", folder=work / "jars", artifacts=(PARQUET,))
        jars.fetch()
        [library] = files.glob("lib/python*/site-packages/pyflink/lib")
        shutil.copy(jars.folder / f"{PARQUET.name}-{FLINK_VERSION}.jar", library)

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"


def flink() -> FlinkEnvironment:
    """The environment of this user, in one place for all checkouts: 400 MB."""
    folder = Path.home() / ".cache" / "photon" / f"flink-{FLINK_VERSION}"
    return FlinkEnvironment(title=f"Flink {FLINK_VERSION}", folder=folder)


def flink_python() -> Path:
    """Flink's interpreter, made where it is missing. Raises FlinkMissing, the second time at once."""
    if reason := _why_it_is_missing():
        raise FlinkMissing(reason)
    return flink().python


def process_environment(logs: Path) -> dict[str, str]:
    """The variables of a process of Flink's, which writes its own logs into a folder."""
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, hadoop)),  # Flink's Parquet format uses Hadoop's classes
        "JVM_ARGS": JVM_OPTIONS,
        "FLINK_LOG_DIR": str(logs),
        "_python_worker_execution_mode": "process",  # no server for functions in Python: there are none
    }


@functools.cache
def _why_it_is_missing() -> str | None:
    try:
        java_command()
        if not flink().is_there():
            flink().fetch()
    except (FetchFailed, UserError, OSError) as error:
        return f"Flink {FLINK_VERSION} cannot be had: {error}"
    return None


def _run(command: list[str]) -> None:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise FetchFailed(f"{command[2]} was not done after {INSTALL_SECONDS} s") from None
    if run.returncode != 0:
        raise FetchFailed((run.stderr.strip().splitlines() or ["pip said nothing"])[-1])


def main() -> int:
    """Make the environment: 1 if it cannot be had."""
    try:
        print(f"Flink {FLINK_VERSION} is there: {flink_python()}")
    except FlinkMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
