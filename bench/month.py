"""Measures what grows with a pipeline's age: a month of small log files that come and go, by a set clock.

The product's own dispatcher runs in this process, with its local engine and a local registry. Each hour of
event time brings some files of both logs, and removes those of some hours before. Verification, collection
and compaction come as schedules have them, more seldom: in a process of their own, while the join is idle.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.run import prepare
from photon.jobs.verification import verify
from photon.logs.forgotten_files import FORGET_FILES_AFTER_DAYS
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.registry.opening import find_registry, open_reader, positions_at
from photon.state.database import StateReader
from photon.upkeep.compact import plan_compaction
from photon.upkeep.gc import plan_gc
from photon.verification.availability.report import judge_all
from photon.verification.stored_reports import append
from tests.support.manual_clock import ManualClock
from tests.support.shifts import shift_in_turn

# Later than any machine's time: compaction takes the log's entries for old, as it would in real time.
BEGUN_US = 2_000_001_600 * MICROSECONDS
HOUR_SECONDS, DAY_HOURS = 3_600, 24
FILES_LIVE_HOURS = 6
UPKEEP_HOURS = 6  # between two passes: files are verified before they go
STEADY_DAY = FORGET_FILES_AFTER_DAYS + 1  # the first whose end has as many files as any later one
PIPELINE = """
name: month
datacenters: {east: {logs: logs}}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}
tailing: {poll_interval: 14m}
registry: {keep_days: 7}
"""
NO_MEASURES = ("day", "log_entries", "yardstick_ms")
YARD = [{"query": f"q{number}", "at": number} for number in range(2_000)]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Day:
    """One day: what is there at its end, and medians of its looks and batches."""

    day: int
    known_files: int  # in the state
    log_entries: int  # of the joined rows' table, which each look opens
    state_bytes: int  # all files of the state folder
    rss_bytes: int
    look_cpu_ms: float  # a look that finds nothing
    batch_cpu_ms: float  # from the look that finds files to the end of their batch
    batch_ms: float  # the same by a clock on the wall
    yardstick_ms: float  # CPU of always the same work, beside each look: a busy machine takes more for it


@dataclass
class Month:
    """A month under way: the dispatcher calls it, and so time goes on."""

    folder: Path
    files_an_hour: int  # of each log
    hours: int
    progress: Progress
    upkeep: Callable[[int], None]
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
        self._times["yardstick_ms"].append(_yardstick_ms())
        if self.clock.now_us() >= BEGUN_US + self._hour * HOUR_SECONDS * MICROSECONDS:
            if self._hour and self._hour % DAY_HOURS == 0:
                self._end_day()
            if self._hour and self._hour % UPKEEP_HOURS == 0:
                self.upkeep(self.clock.now_us())
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
        log_folder = self.folder / "lake" / "east" / "joined_events" / "_delta_log"
        entries = sum(1 for path in log_folder.iterdir() if path.suffix == ".json")
        medians = {name: round(median(times), 2) for name, times in self._times.items()}
        rss = psutil.Process().memory_info().rss
        self.days.append(Day(self._hour // DAY_HOURS, known, entries, size, rss, **medians))
        self.progress(f"{self.days[-1]}")
        self._times.clear()


def _yardstick_ms() -> float:
    began = time.process_time()
    json.loads(json.dumps(YARD))
    return 1e3 * (time.process_time() - began)


def look_after(pipeline_file: Path, now_us: int) -> None:
    """Verify, judge, collect and compact, once, in a process of its own."""
    logging.disable(logging.INFO)
    pipeline, clock = load_pipeline(pipeline_file), ManualClock(now_us)
    report = verify(pipeline, ["east"], keep=True, pages=True)
    if not report.ok:
        raise AssertionError(report.as_dict())
    append(pipeline, report, now_us, "month", 0.0)
    judge_all(pipeline, report.datacenters, now_us, "month")
    plan_gc(pipeline, open_reader(pipeline), clock).apply()
    plan_compaction(pipeline, "east", clock).apply()


def measure_month(folder: Path, days: int, files: int, progress: Progress) -> dict[str, Any]:
    """Join so many files in so many days of event time; what the last day takes beside an early one.

    Ratios of CPU are those of yardsticks.
    """
    for log in ("queries", "clicks"):
        (folder / "logs" / log).mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(folder / "pipeline.yaml")
    prepare(pipeline)
    ledgers = positions_at(find_registry(pipeline))
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        month = Month(
            folder,
            max(1, files // (2 * days * DAY_HOURS)),
            days * DAY_HOURS,
            progress,
            lambda now_us: other.submit(look_after, folder / "pipeline.yaml", now_us).result(),
        )
        calls = Callbacks(should_stop=month.is_over, on_batch=month.batch, on_progress=month.idle)
        result = shift_in_turn(pipeline, "east", month.clock, ledgers, calls).run("stop")
    early, last = (vars(month.days[at]) for at in (STEADY_DAY - 1, -1))
    ratios = {name: round(last[name] / early[name], 2) for name in early if name not in NO_MEASURES}
    of_yardsticks = last["yardstick_ms"] / early["yardstick_ms"]
    ratios |= {name: round(ratios[name] / of_yardsticks, 2) for name in ("look_cpu_ms", "batch_cpu_ms")}
    load = [round(one, 1) for one in psutil.getloadavg()]
    counts = result.counts.as_dict()
    return {"days": [vars(day) for day in month.days], "ratios": ratios, "load": load, "counts": counts}
