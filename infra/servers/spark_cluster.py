"""A standalone Spark cluster on one machine, for tests and measurements: a master and its workers.

A worker may have folders hidden from it, as if it were another machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from infra.servers.process import ServerProcess, family_of, free_steady_port, kill_all, start_process
from infra.servers.slow_cores import SlowCore

SPARK_HOME = Path(pyspark.__file__).parent
REGISTRATION_SECONDS = 300.0  # two seconds on a machine that does nothing else
POLL_SECONDS = 0.1
_SPARK_CLASS = str(SPARK_HOME / "bin" / "spark-class")
_DEPLOY = "org.apache.spark.deploy"
# An empty folder over each one hides it from the process and from all that it starts.
_HIDING = 'for each in $HIDDEN; do mount -t tmpfs none "$each" || exit 1; done; exec "$@"'


class Master(ServerProcess):
    """Knows the workers, and gives them to applications."""

    start_seconds = REGISTRATION_SECONDS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._page_port = free_steady_port()
        self.spark_url = f"spark://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        ports = ["--port", str(self.port), "--webui-port", str(self._page_port)]
        return [
            str(SPARK_HOME / "bin/spark-class"),
            f"{_DEPLOY}.master.Master",
            "--host",
            "127.0.0.1",
            *ports,
        ]

    def environment(self) -> Mapping[str, str]:
        return _environment(self.folder)

    def answers(self) -> bool:
        with suppress(OSError, ValueError):
            return bool(self.state()["status"] == "ALIVE")
        return False

    def state(self) -> dict[str, Any]:
        """The master's words on itself, its workers and applications."""
        page = f"http://127.0.0.1:{self._page_port}/json/"
        with urllib.request.urlopen(page, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


class Worker:
    """One worker with its executors."""

    def __init__(
        self,
        folder: Path,
        master: Master,
        cores: int,
        hidden: Sequence[Path],
        more: Mapping[str, str],
        core: SlowCore | None = None,
    ) -> None:
        """`hidden`: folders that it can't see. `more`: of its environment. `core`: all of it runs there."""
        folder.mkdir(parents=True)
        ports = ["--host", "127.0.0.1", "--webui-port", "0"]
        room = ["--cores", str(cores), "--memory", "2g", "--work-dir", str(folder / "work")]
        command = [_SPARK_CLASS, f"{_DEPLOY}.worker.Worker", *ports, *room]
        if hidden:
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _HIDING, "sh", *command]
        command.append(master.spark_url)
        if core is not None:
            command = core.command(command)
        environment = {**os.environ, **_environment(folder), **more, "HIDDEN": " ".join(map(str, hidden))}
        self._process = start_process(command, folder / "worker.log", cwd=folder, env=environment)

    @property
    def pid(self) -> int:
        """The id of the process that all others of the worker are below."""
        return self._process.pid

    def stand_still(self) -> None:
        """Stop it and all that it started: nobody is told, as when a machine loses power."""
        for each in family_of(self._process.pid):
            each.suspend()

    def kill(self) -> None:
        """End it and all that it started at once; the system closes its connections."""
        kill_all(reversed(family_of(self._process.pid)))
        self._process.wait()


class SparkCluster:
    """A master and workers, which come and go."""

    def __init__(self, folder: Path, cores: int = 1, hidden: Sequence[Path] = (), **more: str) -> None:
        """`cores` of each worker; the rest as for `Worker`."""
        self._folder, self._cores, self._hidden, self._more = folder, cores, hidden, more
        self.master = Master(folder / "master")
        self.workers: list[Worker] = []
        self._started = 0

    def add_worker(self, core: SlowCore | None = None) -> Worker:
        """Start a worker, and wait until the master knows it."""
        self._started += 1
        known = self._alive()
        folder = self._folder / f"worker-{self._started}"
        worker = Worker(folder, self.master, self._cores, self._hidden, self._more, core)
        self.workers.append(worker)
        deadline = time.monotonic() + REGISTRATION_SECONDS
        while not self._alive() - known:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the worker did not register; see {folder / 'worker.log'}")
            time.sleep(POLL_SECONDS)
        return worker

    def _alive(self) -> set[str]:
        """The ids of the workers that the master takes for alive; it notices a death a little later."""
        return {each["id"] for each in self.master.state()["workers"] if each["state"] == "ALIVE"}


@contextmanager
def spark_cluster(
    folder: Path, workers: int, cores: int = 1, hidden: Sequence[Path] = (), **more: str
) -> Iterator[SparkCluster]:
    """Run a cluster; all of it is killed at the end."""
    cluster = SparkCluster(folder, cores, hidden, **more)
    try:
        cluster.master.start()
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for worker in cluster.workers:
            worker.kill()
        cluster.master.kill()


def can_hide() -> bool:
    """Whether this user may hide folders from a process."""
    tried = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _environment(folder: Path) -> dict[str, str]:
    own = folder / "tmp"
    own.mkdir(parents=True, exist_ok=True)
    # Each has its own temporary files, and so its own copies of segments.
    return {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(own),
        "PYTHONPATH": "",
        # Both only schedule.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
