"""The processes whose joins are compared: Photon as a user runs it, and the joins of Spark and Flink.

All are warm before the logs are there: each has joined other logs in the same process. Then the logs appear
at once, and the tables are watched from outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import psutil
import yaml

from bench.flink_environment import JVM_OPTIONS, FlinkMissing, flink_python, process_environment
from bench.join_flink import STATES, configuration_of, plan_of, told
from bench.join_logs import FOREIGN_INTEGERS, PRIMARY_INTEGERS, JoinLogs
from bench.join_peers import READY, settings_of
from infra.servers.process import cpu_seconds_of, end_process, family_of, kill_all, start_process

PHOTON = (sys.executable, "-m", "photon.cli.main")
WARM_SECONDS = 240.0  # a session takes 18 s alone on a busy machine
STOP_SECONDS = 120.0

Place = Callable[[Path], None]  # makes a folder with the logs to be joined


class JoinFailed(Exception):
    """A join ended, or did not begin; the message has the end of its log."""


@dataclass
class Contender(ABC):
    """A join in a new `folder`, from its first process to its last."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    has_warm_up_in_tables: ClassVar[bool] = False

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings that it is given beyond its defaults."""

    @abstractmethod
    def tables(self) -> list[Path]:
        """Where its rows come."""

    @abstractmethod
    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        """Start it, warm it up, show it the logs; when they were there, in seconds since 1970."""

    @abstractmethod
    def begin_again(self) -> None:
        """Start it after its death, on what it has left."""

    @abstractmethod
    def finish(self, records: int) -> None:
        """Wait until it is through with so many foreign records, in case more rows come."""

    def has_ended(self) -> bool:
        """Whether it says by itself that all is done. JoinFailed if it died."""
        assert self.process is not None
        status = self.process.poll()
        if status not in (None, 0):
            raise JoinFailed(f"{self.name} ended with status {status}; {self._last_words()}")
        return status == 0

    def cpu_seconds(self) -> float | None:
        """CPU of all its processes, ended ones too; None if it has ended itself."""
        return cpu_seconds_of(self._processes()) or None

    def kill(self) -> None:
        """kill -9 of all its processes, as when the machine goes down."""
        kill_all(self._processes())
        if self.process is not None:
            self.process.wait()

    def stop(self) -> None:
        """Have it end in order, or kill it."""
        if self.process is not None:
            end_process(self.process, STOP_SECONDS)

    def _processes(self) -> list[psutil.Process]:
        if self.process is None or self.process.poll() is not None:
            return []
        return family_of(self.process.pid)

    def _environment(self) -> dict[str, str] | None:
        """The variables of its processes, if not those of this one."""
        return None

    def _last_words(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()[-3:]
        return f"the end of its log: {' / '.join(lines)}"

    def _start(self, command: Sequence[str | Path], **pipes: Any) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return start_process(command, self.folder / "log", env=self._environment(), **pipes)


class Photon(Contender):
    """`photon join`, which follows the logs of one datacenter or more."""

    has_warm_up_in_tables = True

    def __init__(self, name: str, folder: Path, datacenters: Sequence[str], cores: int | None = None) -> None:
        super().__init__(name, folder)
        self.datacenters = datacenters
        self._bound = ["taskset", "--cpu-list", f"0-{cores - 1}"] if cores else []
        self.pipeline = folder / "pipeline.yaml"
        self.warm_up_records = 0

    def settings(self) -> dict[str, Any]:
        return {"command": "photon join PIPELINE", **self._pipeline()}

    def tables(self) -> list[Path]:
        return [self.folder / "lake" / name / "joined_events" for name in self.datacenters]

    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        for name in self.datacenters:
            place_warm_up(self.folder / "logs" / name / "warm_up")
            place_logs(self.folder / "to_come" / name)
        self._write_pipeline()
        self.begin_again()
        self.warm_up_records = warm_up.records
        if not self._has_joined(warm_up.records, WARM_SECONDS):
            raise JoinFailed(f"{self.name} was not warm after {WARM_SECONDS:.0f} s; {self._last_words()}")
        seconds = time.time()
        for name in self.datacenters:
            os.rename(self.folder / "to_come" / name, self.folder / "logs" / name / "measured")
        return seconds

    def begin_again(self) -> None:
        self.process = self._start([*self._bound, *PHOTON, "join", self.pipeline])

    def _write_pipeline(self) -> None:
        self.pipeline.write_text(yaml.safe_dump(self._pipeline(), sort_keys=False))

    def finish(self, records: int) -> None:
        self._has_joined(self.warm_up_records + records, STOP_SECONDS)

    def has_ended(self) -> bool:
        super().has_ended()
        return False  # a join follows its logs until it is stopped

    def _pipeline(self) -> dict[str, Any]:
        queries, clicks = "*/queries-*.jsonl", "*/clicks-*.jsonl"
        log = {"format": "jsonl", "time": "time", "time_unit": "ms"}
        integers = dict.fromkeys(PRIMARY_INTEGERS, "int64"), dict.fromkeys(FOREIGN_INTEGERS, "int64")
        return {
            "name": "bench_join",
            "datacenters": {name: {"logs": f"logs/{name}"} for name in self.datacenters},
            "primary": {"files": queries, "id": "query_id", **log, "columns": integers[0]},
            "foreign": {"files": clicks, "id": "click_id", "key": "query_id", **log, "columns": integers[1]},
            "registry": {"endpoints": "local"},
        }

    def _has_joined(self, records: int, seconds: float) -> bool:
        """Wait until each datacenter is through with so many foreign records; whether it is, in the end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.has_ended()
            time.sleep(1.0)
            asked = [*PHOTON, "status", str(self.pipeline), "--json"]
            printed = subprocess.run(asked, capture_output=True, text=True, check=False)
            if printed.returncode == 0:
                told = json.loads(printed.stdout)
                counts = [told.get(name, {}).get("counts", {}) for name in self.datacenters]
                if all(one.get("foreign") == records and not one["pending"] for one in counts):
                    return True
        return False


class Peer(Contender):
    """One of Spark's joins, `join_peers.PEERS`."""

    def __init__(self, name: str, folder: Path, files_per_trigger: int) -> None:
        super().__init__(name, folder)
        self.files_per_trigger = files_per_trigger

    def settings(self) -> dict[str, Any]:
        return dict(settings_of(self.name, self.files_per_trigger))

    def tables(self) -> list[Path]:
        return [self.folder / "table"]

    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        place_warm_up(self.folder / "warm_up")
        place_logs(self.folder / "measured")
        self.process = self._start(self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        asked, said = self.process.stdin, self.process.stdout
        assert asked is not None
        assert said is not None
        self._wait_until_ready(said)
        seconds = time.time()
        asked.write(b"go\n")
        asked.flush()
        return seconds

    def begin_again(self) -> None:
        self.process = self._start([*self._command(), "--again"])

    def finish(self, records: int) -> None:
        assert self.process is not None
        self.process.wait()  # a peer ends by itself

    def _command(self) -> list[str]:
        arguments = [self.name, str(self.folder), str(self.files_per_trigger)]
        return [sys.executable, "-m", "bench.join_peers", *arguments]

    def _wait_until_ready(self, said: IO[bytes]) -> None:
        for line in said:
            if line.decode().strip() == READY:
                return
        raise JoinFailed(f"{self.name} did not get ready; {self._last_words()}")


class Flink(Peer):
    """Flink SQL's interval join, with one of `join_flink.STATES`, or as its `plan` says."""

    def __init__(self, name: str, folder: Path, plan: dict[str, Any] | None = None) -> None:
        super().__init__(name, folder, files_per_trigger=0)  # Flink has no triggers
        self._plan, self._plan_file = plan or plan_of(name, folder), folder / "plan.json"

    def settings(self) -> dict[str, Any]:
        return {"JVM": JVM_OPTIONS, **configuration_of(self.name), **told()}

    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._plan_file.write_text(json.dumps(self._plan))
        return super().begin(warm_up, place_warm_up, place_logs)

    def _command(self) -> list[str]:
        try:
            python = flink_python()
        except FlinkMissing as error:
            raise JoinFailed(str(error)) from error
        return [str(python), str(Path(__file__).with_name("flink_join.py")), str(self._plan_file)]

    def _environment(self) -> dict[str, str]:
        return process_environment(self.folder)


def contender(name: str, folder: Path, files_per_trigger: int, cores: int | None = None) -> Contender:
    """A contender by its name. A stream of Spark's takes so many files of each log at once.

    Only Photon with one datacenter is bound to so many cores.
    """
    if name == "photon":
        return Photon(name, folder, ["one"], cores)
    if name == "photon_racing":
        return Photon(name, folder, ["east", "west"])
    if name in STATES:
        return Flink(name, folder)
    return Peer(name, folder, files_per_trigger)
