"""Measures what grows with a pipeline's age: a month of small log files that come and go, by a set clock.

The product's own dispatcher runs in this process, with its local engine and ledgers in memory. Each hour of
event time brings some files of both logs, and removes those of some hours before.
"""

from __future__ import annotations

import gc
import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.logs.forgotten_files import FORGET_FILES_AFTER_DAYS
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.registry.opening import first_register
from photon.registry.register import Members
from photon.state.database import StateReader
from tests.support.manual_clock import ManualClock
from tests.support.memory_ledgers import MemoryLedgers
from tests.support.shifts import shift_in_turn

BEGUN_US = 1_700_006_400 * MICROSECONDS
HOUR_SECONDS, DAY_HOURS = 3_600, 24
FILES_LIVE_HOURS = 6
STEADY_DAY = FORGET_FILES_AFTER_DAYS + 1  # the first whose end has as many files as any later one
PIPELINE = """
name: month
datacenters: {east: {logs: logs}}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}
tailing: {poll_interval: 14m}
"""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Day:
    """One day: what is there at its end, and medians of its looks and batches."""

    day: int
    known_files: int  # in the state
    state_bytes: int  # all files of the state folder
    rss_bytes: int
    look_cpu_ms: float  # a look that finds nothing
    batch_cpu_ms: float  # from the look that finds files to the end of their batch
    batch_ms: float  # the same by a clock on the wall


@dataclass
class Month:
    """A month under way: the dispatcher calls it, and so time goes on."""

    folder: Path
    files_an_hour: int  # of each log
    hours: int
    progress: Progress
    clock: ManualClock = field(default_factory=lambda: ManualClock(BEGUN_US))
    days: list[Day] = field(default_factory=list)
    _hour: int = 0
    _began: tuple[float, float] = (0.0, 0.0)  # CPU and wall seconds when the dispatcher went on
    _is_due: bool = False  # files were written, and no batch has ended since
    _times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def is_over(self) -> bool:
        return self._hour > self.hours

    def idle(self) -> None:
        """Begin the next hour, once the clock says so; nothing is left to do of the last one."""
        if self._is_due:
            return
        self._times["look_cpu_ms"].append(1e3 * (time.process_time() - self._began[0]))
        if self.clock.now_us() >= BEGUN_US + self._hour * HOUR_SECONDS * MICROSECONDS:
            if self._hour and self._hour % DAY_HOURS == 0:
                self._end_day()
            self._write()
            self._remove(self._hour - FILES_LIVE_HOURS)
            self._hour, self._is_due = self._hour + 1, True
        self._began = time.process_time(), time.perf_counter()

    def batch(self, report: BatchReport) -> None:
        """Measure the batch of the hour's files."""
        if self._is_due:
            cpu, wall = self._began
            self._times["batch_cpu_ms"].append(1e3 * (time.process_time() - cpu))
            self._times["batch_ms"].append(1e3 * (time.perf_counter() - wall))
        self._is_due = False

    def _paths(self, hour: int) -> list[tuple[str, Path]]:
        """The hour's files of both logs, each with a name of its own."""
        names = [f"{hour:05}-{number:04}" for number in range(self.files_an_hour)]
        logs = ("queries", "clicks")
        return [(name, self.folder / "logs" / log / f"{name}.jsonl") for log in logs for name in names]

    def _write(self) -> None:
        for name, path in self._paths(self._hour):
            event = {"query": f"q{name}", "at": self.clock.now_us()}
            is_click = path.parent.name == "clicks"
            path.write_text(json.dumps({"click": f"c{name}", **event} if is_click else event) + "\n")

    def _remove(self, hour: int) -> None:
        for _, path in self._paths(hour) if hour >= 0 else ():
            path.unlink()

    def _end_day(self) -> None:
        gc.collect()
        state = StateReader(self.folder / "state" / "east")
        known = len(state.files())
        state.close()
        size = sum(path.stat().st_size for path in state.folder.rglob("*") if path.is_file())
        medians = {name: round(median(times), 1) for name, times in self._times.items()}
        rss = psutil.Process().memory_info().rss
        self.days.append(Day(self._hour // DAY_HOURS, known, size, rss, **medians))
        self.progress(f"{self.days[-1]}")
        self._times.clear()


def measure_month(folder: Path, days: int, files: int, progress: Progress) -> dict[str, Any]:
    """Join so many files in so many days of event time; what the last day takes beside an early one."""
    for log in ("queries", "clicks"):
        (folder / "logs" / log).mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline, ledgers = load_pipeline(folder / "pipeline.yaml"), MemoryLedgers()
    ledgers.decided.register = first_register(pipeline, Members(1, ("memory",)))
    month = Month(folder, max(1, files // (2 * days * DAY_HOURS)), days * DAY_HOURS, progress)
    calls = Callbacks(should_stop=month.is_over, on_batch=month.batch, on_progress=month.idle)
    result = shift_in_turn(pipeline, "east", month.clock, ledgers, calls).run("stop")
    early, last = (vars(month.days[at]) for at in (STEADY_DAY - 1, -1))
    ratios = {name: round(last[name] / early[name], 2) for name in early if name != "day"}
    load = [round(one, 1) for one in psutil.getloadavg()]
    counts = result.counts.as_dict()
    return {"days": [vars(day) for day in month.days], "ratios": ratios, "load": load, "counts": counts}
