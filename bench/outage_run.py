"""An outage under load: one of two real datacenters is killed with its endpoint, and comes back.

What is seen of it is arithmetic of `figure_outage`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.live_measurement import MeasurementFailed, TableWatch, clicks_written
from examples.demo.latency import SeenRow, TableReader
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import generating
from infra.servers.process import family_of, kill_all, start_process
from infra.servers.stores import StoreServer, fastest_kind, store_servers
from photon.dispatcher.shift.growth import growth_of
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.registry.opening import close_registries, init_registry

ENDPOINTS = 3  # one of each datacenter, and a third
POLL_SECONDS = 0.05
LOOK_SECONDS = 0.5  # between two looks at what a datacenter has not read
CAUGHT_UP_SECONDS = 2.0  # unread traffic of so many seconds: a datacenter has caught up
STOP_SECONDS = 60.0
FIRST_ROWS_SECONDS = 300.0  # of two sessions that start at once, on a busy machine
FILES = 12  # for each stream, one after the other: a backlog is in older files, live lines are in newer ones


@dataclass(frozen=True)
class Load:
    """Events a second, in each datacenter's logs."""

    primary_per_second: float = 1_000.0
    foreign_per_second: float = 200.0

    @property
    def events_per_second(self) -> float:
        return self.primary_per_second + self.foreign_per_second


@dataclass(frozen=True)
class Story:
    """How long each part takes, in seconds; catching up takes as long as it takes."""

    warm_up: float = 20.0
    normal: float = 45.0
    outage: float = 90.0
    recovered: float = 45.0
    most_catch_up: float = 240.0


@dataclass(frozen=True)
class BatchSeen:
    """A batch of a datacenter, as its process has reported it."""

    datacenter: str
    at_us: int
    seconds: float
    primary: int
    foreign: int
    combined: int  # pairs
    won: int  # pairs; another datacenter had registered the others before
    cpu_seconds: float  # of its process and those of its session, from when it was warm to the batch's end


@dataclass
class Seen:
    """All that was seen of a run. Times are microseconds since 1970 UTC."""

    load: Load
    begins_us: int = 0
    killed_us: int = 0
    back_us: int = 0
    caught_up_us: int = 0
    ends_us: int = 0
    rows: list[SeenRow] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)  # when each click's line was written, by its id
    batches: list[BatchSeen] = field(default_factory=list)
    unread: list[tuple[int, int]] = field(default_factory=list)  # when, bytes: the dead datacenter's
    behind_seconds: float = 0.0  # how far the generator was behind: the machine was too slow for the load


class DatacenterProcesses:
    """The processes of some datacenters of one pipeline."""

    def __init__(self, pipeline: Path, names: Sequence[str]) -> None:
        self.pipeline, self.names = pipeline, names
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._log = pipeline.parent / "processes.log"

    def start(self, name: str) -> None:
        reports = str(self.reports(name))
        command = [sys.executable, "-m", "bench.outage_process", str(self.pipeline), name, reports]
        self._running[name] = start_process(command, self._log)

    def reports(self, name: str) -> Path:
        return self.pipeline.with_name(f"{name}.batches.jsonl")

    def kill(self, name: str) -> None:
        """kill -9 of its process, and of those of its session."""
        process = self._running.pop(name)
        kill_all(family_of(process.pid))
        process.wait()

    def check(self) -> None:
        """MeasurementFailed if one has ended that was not killed."""
        for name, process in self._running.items():
            if process.poll() not in (None, 0):
                raise MeasurementFailed(f"datacenter {name} ended with status {process.returncode}")

    def stop(self) -> None:
        """Ask all to end after their batch, and wait."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            process.wait(STOP_SECONDS)
        self.check()

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)

    def batches(self) -> list[BatchSeen]:
        """All batches that were reported, whichever process did them."""
        seen = []
        for name in self.names:
            if self.reports(name).exists():
                lines = self.reports(name).read_text().splitlines()
                seen += [BatchSeen(name, **json.loads(line)) for line in lines if line.endswith("}")]
        return sorted(seen, key=lambda batch: batch.at_us)


def settings_of(endpoints: Sequence[StoreServer]) -> str:
    """The part of a pipeline file that names the endpoints."""
    urls = ", ".join(f"{{url: {server.url}}}" for server in endpoints)
    return f"registry:\n  endpoints: [{urls}]\n"


@contextmanager
def endpoints_and_processes(
    folder: Path, traffic: Traffic
) -> Iterator[tuple[list[StoreServer], DatacenterProcesses]]:
    """A pipeline of this traffic over three endpoints, with no process yet."""
    with ExitStack() as stack:
        servers = stack.enter_context(store_servers(fastest_kind(), folder / "endpoints", ENDPOINTS))
        file = traffic.write_pipeline(folder, "outage", settings_of(servers))
        for name in traffic.datacenters:
            (folder / "logs" / name).mkdir(parents=True, exist_ok=True)
        init_registry(load_pipeline(file), SystemClock())
        close_registries()
        processes = DatacenterProcesses(file, traffic.datacenters)
        stack.callback(processes.close)
        yield servers, processes


def run_outage(
    folder: Path, seed: int, say: Callable[[str], None], load: Load = Load(), story: Story = Story()
) -> Seen:
    """Kill the west with its endpoint under load, bring both back, and watch the tables."""
    longest = sum((story.warm_up, story.normal, story.outage, story.recovered, story.most_catch_up))
    traffic = Traffic(
        seed,
        primary_per_second=load.primary_per_second,
        foreign_per_second=load.foreign_per_second,
        duration_seconds=FIRST_ROWS_SECONDS + longest,
        ills={"file_rollover": FILES, "rename_rotation": FILES},
    )
    with (
        endpoints_and_processes(folder, traffic) as (servers, processes),
        generating(traffic, folder) as logs,
    ):
        for name in traffic.datacenters:
            processes.start(name)
        watch = _Watch(processes, Seen(load), folder)
        seen = watch.seen
        watch.until(lambda: len(watch.tables.datacenters) == 2, FIRST_ROWS_SECONDS, "the first rows")
        watch.tables.pass_by(story.warm_up)
        seen.begins_us = watch.now_us
        say("both datacenters join")
        watch.tables.pass_by(story.normal)
        seen.killed_us = watch.now_us
        processes.kill("west")
        servers[1].kill()
        say("the west is dead")
        watch.tables.pass_by(story.outage)
        seen.back_us = watch.now_us
        servers[1].start()
        processes.start("west")
        say("the west comes back")
        watch.until(watch.has_caught_up, story.most_catch_up, "the west to catch up")
        seen.caught_up_us = watch.now_us
        say("the west has caught up")
        watch.tables.pass_by(story.recovered)
        seen.ends_us = watch.now_us
        seen.behind_seconds = logs.stop().most_behind_seconds
        seen.written = clicks_written(folder / "logs" / "east" / "clicks")
        watch.until(lambda: seen.written.keys() <= watch.tables.clicks, story.most_catch_up, "the last rows")
        processes.stop()
        seen.batches = processes.batches()
    return seen


class _Watch:
    """Reads the tables while time passes, and what the west has not read."""

    def __init__(self, processes: DatacenterProcesses, seen: Seen, folder: Path) -> None:
        self.processes, self.seen = processes, seen
        tables = [folder / "lake" / name / "joined_events" for name in processes.names]
        self.tables = TableWatch(TableReader(tables).poll, self._look, POLL_SECONDS, rows=seen.rows)
        self._pipeline = load_pipeline(processes.pipeline)
        self._looked_us = 0

    @property
    def now_us(self) -> int:
        return self.tables.clock.now_us()

    def has_caught_up(self) -> bool:
        """Whether the west has read all but a moment's worth of its logs, since it came back."""
        looks = [look for look in self.seen.unread if look[0] >= self.seen.back_us]
        if not looks:
            return False
        (first_us, first), (_, last) = looks[0], looks[-1]
        seconds_down = (first_us - self.seen.killed_us) / MICROSECONDS
        return last < first * CAUGHT_UP_SECONDS / max(seconds_down, CAUGHT_UP_SECONDS)

    def until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        """Watch until something is true. MeasurementFailed if it does not become so."""
        if not self.tables.until(true, seconds):
            raise MeasurementFailed(f"not within {seconds:.0f} s: {what}")

    def _look(self) -> None:
        self.processes.check()
        if self.now_us - self._looked_us > LOOK_SECONDS * MICROSECONDS:
            growth = growth_of(self._pipeline, "west", self.now_us)
            unread_bytes = growth.primary.unread_bytes + growth.foreign.unread_bytes
            self.seen.unread.append((self.now_us, unread_bytes))
            self._looked_us = self.now_us
