"""Measures what grows with a pipeline's age: a month of small log files that come and go, by a set clock.

Each datacenter has a process with the product's own dispatcher and its local engine; all race on a local
registry, and wait for each other at the end of an hour of event time. Each hour brings some files of both
logs, and removes those of some hours before. Verification, collection and compaction come as schedules have
them, more seldom: in a process of their own, while all joins are idle.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from infra.servers.minio import places_on_minio
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.run import prepare
from photon.jobs.verification import verify
from photon.logs.forgotten_files import FORGET_FILES_AFTER_DAYS
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Datacenter
from photon.process.clock import MICROSECONDS
from photon.registry.opening import find_registry, open_reader, positions_at
from photon.state.database import StateReader
from photon.storage.store import content, store_of
from photon.upkeep.compact import plan_compaction
from photon.upkeep.gc import plan_gc
from photon.verification.availability.report import judge_all
from photon.verification.stored_reports import append
from tests.support.manual_clock import ManualClock
from tests.support.shifts import shift_in_turn

# Later than any machine's time: compaction takes the log's entries for old, as it would in real time.
BEGUN_US = 2_000_001_600 * MICROSECONDS
HOUR_SECONDS, DAY_HOURS = 3_600, 24
LOOK_SECONDS = 29 * 60  # of the set clock, from one idle look to the next
FILES_LIVE_HOURS = 8
UPKEEP_HOURS = 8  # between two passes: files are verified before they go
STEADY_DAY = FORGET_FILES_AFTER_DAYS + 1  # the first whose end has as many files as any later one
MEDIAN_DAYS = 3  # an early day and the last one are medians of so many
NAMES = ("east", "west", "north")
LOGS = ("queries", "clicks")
PUTS_AT_ONCE = 8
# A process that waits for others, or for an idle look, is not silent or stuck. On S3 rests take real time.
PIPELINE = """
name: month
datacenters: {{{places}}}
primary: {{files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}}
foreign: {{files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}}
tailing: {{poll_interval: 10ms}}
recovery: {{silent_after: 3h}}
limits: {{task_timeout: 30m}}
registry: {{keep_days: 7}}
"""
NO_MEASURES = ("day", "log_entries", "yardstick_ms")
YARD = [{"query": f"q{number}", "at": number} for number in range(2_000)]


@dataclass(frozen=True)
class Amounts:
    """Days, files and events for each datacenter."""

    days: int
    files: int  # of both logs, in all days
    primaries: int = 0  # in all of them; at least one in each file

    @property
    def files_an_hour(self) -> int:
        """The files of each log in an hour."""
        return max(1, self.files // (2 * self.hours))

    @property
    def lines(self) -> int:
        """The primaries of a file. A file of clicks has one."""
        return max(1, self.primaries // (self.files_an_hour * self.hours))

    @property
    def hours(self) -> int:
        return self.days * DAY_HOURS


@dataclass(frozen=True)
class Day:
    """One day: what is there at its end, and medians of its looks and batches."""

    day: int
    known_files: int  # in the state
    log_entries: int  # of the joined rows' table, which each look opens
    state_bytes: int  # the state folder, and what is on S3 of the index and of waiting records
    rss_bytes: int
    look_cpu_ms: float  # a look that finds nothing
    batch_cpu_ms: float  # from the look that finds files to the end of their batch
    batch_ms: float  # the same by a clock on the wall
    yardstick_ms: float  # CPU of always the same work, beside each look: a busy machine takes more for it


@dataclass
class Month:
    """A month of one datacenter under way: the dispatcher calls it, and so time goes on."""

    name: str
    place: Datacenter
    amounts: Amounts
    meet: Callable[[int], None]  # waits for the others, at the end of each hour
    clock: ManualClock = field(default_factory=lambda: ManualClock(BEGUN_US))
    days: list[Day] = field(default_factory=list)
    _hour: int = 0
    _began: tuple[float, float] = (0.0, 0.0)  # CPU and wall seconds when the dispatcher went on
    _is_due: bool = False  # files were written, and no batch has ended since
    _is_idle: bool = False  # the last look has found nothing
    _times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def is_over(self) -> bool:
        """Say whether the month is over. The dispatcher asks between two looks: idle time passes here."""
        if self._is_idle:
            self.clock.advance(LOOK_SECONDS)
        self._is_idle = False
        return self._hour > self.amounts.hours

    def idle(self) -> None:
        """Begin the next hour, once the clock says so; nothing is left to do of the last one."""
        if self._is_due:
            return
        self._times["look_cpu_ms"].append(1e3 * (time.process_time() - self._began[0]))
        self._times["yardstick_ms"].append(_yardstick_ms())
        if self.clock.now_us() >= _begins_us(self._hour):
            if self._hour and self._hour % DAY_HOURS == 0:
                self._end_day()
            self.meet(self._hour)
            with ThreadPoolExecutor(PUTS_AT_ONCE) as threads:
                list(threads.map(self._write, self._names(self._hour)))
            self._remove(self._hour - FILES_LIVE_HOURS)
            self._hour, self._is_due = self._hour + 1, True
        self._is_idle = not self._is_due
        self._began = time.process_time(), time.perf_counter()

    def batch(self, report: BatchReport) -> None:
        """Measure the batch of the hour's files."""
        if self._is_due:
            cpu, wall = self._began
            self._times["batch_cpu_ms"].append(1e3 * (time.process_time() - cpu))
            self._times["batch_ms"].append(1e3 * (time.perf_counter() - wall))
        self._is_due = False

    def _names(self, hour: int) -> list[str]:
        """The names of the hour's files, alike in both logs."""
        return [f"{hour:05}-{number:04}" for number in range(self.amounts.files_an_hour)]

    def _write(self, name: str) -> None:
        at = _begins_us(self._hour)
        queries = (
            b'{"query":"q%s-%d","at":%d}\n' % (name.encode(), n, at) for n in range(self.amounts.lines)
        )
        click = f'{{"click":"c{name}","query":"q{name}-0","at":{at}}}\n'
        for log, data in zip(LOGS, (b"".join(queries), click.encode()), strict=True):
            if isinstance(self.place.logs, Path):
                (self.place.logs / log / f"{name}.jsonl").write_bytes(data)  # needs no sync, unlike a store's
            else:
                store_of(self.place.logs).put(f"{log}/{name}.jsonl", content(data))

    def _remove(self, hour: int) -> None:
        names = self._names(hour) if hour >= 0 else ()
        store_of(self.place.logs).remove(*(f"{log}/{name}.jsonl" for log in LOGS for name in names))

    def _end_day(self) -> None:
        gc.collect()
        state = StateReader(self.place.state)
        known = len(state.files())
        state.close()
        folders: set[Location] = {self.place.state, self.place.work_place}
        size = sum(sum(store_of(folder).sizes().values()) for folder in folders)
        log = store_of(self.place.lake / "joined_events" / "_delta_log")
        entries = sum(1 for name in log.names() if name.endswith(".json"))
        medians = {name: round(median(times), 2) for name, times in self._times.items()}
        rss = psutil.Process().memory_info().rss
        self.days.append(Day(self._hour // DAY_HOURS, known, entries, size, rss, **medians))
        told = f"{time.strftime('%H:%M:%S')} {self.name} {json.dumps(asdict(self.days[-1]))}"
        print(told, file=sys.stderr, flush=True)
        self._times.clear()


def _begins_us(hour: int) -> int:
    return BEGUN_US + hour * HOUR_SECONDS * MICROSECONDS


def _yardstick_ms() -> float:
    began = time.process_time()
    json.loads(json.dumps(YARD))
    return 1e3 * (time.process_time() - began)


def look_after(pipeline_file: Path, now_us: int) -> None:
    """Verify, judge, collect and compact, once, in a process of its own."""
    logging.disable(logging.INFO)
    pipeline, clock = load_pipeline(pipeline_file), ManualClock(now_us)
    report = verify(pipeline, list(pipeline.datacenters), keep=True, pages=True)
    if not report.ok:
        raise AssertionError(report.as_dict())
    append(pipeline, report, now_us, "month", 0.0)
    judge_all(pipeline, report.datacenters, now_us, "month")
    plan_gc(pipeline, open_reader(pipeline), clock).apply()
    for name in pipeline.datacenters:
        plan_compaction(pipeline, name, clock).apply()


_all_joins: Barrier  # at which the processes of a pool meet


def _meet_at(barrier: Barrier) -> None:
    global _all_joins
    _all_joins = barrier


def join_month(pipeline_file: Path, name: str, amounts: Amounts) -> dict[str, Any]:
    """Join all days of one datacenter in this process; the first datacenter's has the upkeep done."""
    pipeline = load_pipeline(pipeline_file)
    looks_after = name == next(iter(pipeline.datacenters))
    with ProcessPoolExecutor(1, get_context("spawn")) as other:

        def meet(hour: int) -> None:
            _all_joins.wait()
            if hour and hour % UPKEEP_HOURS == 0:
                if looks_after:
                    other.submit(look_after, pipeline_file, _begins_us(hour)).result()
                _all_joins.wait()

        month = Month(name, pipeline.datacenters[name], amounts, meet)
        calls = Callbacks(should_stop=month.is_over, on_batch=month.batch, on_progress=month.idle)
        ledgers = positions_at(find_registry(pipeline))
        try:
            result = shift_in_turn(pipeline, name, month.clock, ledgers, calls).run("stop")
        except BaseException:
            _all_joins.abort()  # nobody waits for this one
            raise
    days = [asdict(day) for day in month.days]
    return {"days": days, "ratios": ratios_of(days), "counts": result.counts.as_dict()}


def ratios_of(days: list[dict[str, Any]]) -> dict[str, float]:
    """Compare the last days with early ones, by their medians. CPU is told in yardsticks."""
    if len(days) < STEADY_DAY:
        return {}
    width = max(1, min(MEDIAN_DAYS, (len(days) - STEADY_DAY + 1) // 2))
    early, last = days[STEADY_DAY - 1 :][:width], days[-width:]

    def grown(name: str) -> float:
        return float(median(day[name] for day in last) / median(day[name] for day in early))

    ratios = {name: grown(name) for name in days[0] if name not in NO_MEASURES}
    for name in ("look_cpu_ms", "batch_cpu_ms"):
        ratios[name] /= grown("yardstick_ms")
    return {name: round(ratio, 2) for name, ratio in ratios.items()}


def measure_month(
    folder: Path, amounts: Amounts, datacenters: int = 1, on_s3: bool = False
) -> dict[str, Any]:
    """Join so much in each of so many datacenters: each day, and what the last takes beside an early one."""
    names, file = NAMES[:datacenters], folder / "pipeline.yaml"
    with ExitStack() as stack:
        if on_s3:
            places = stack.enter_context(places_on_minio(folder / "minio", names))
        else:
            places = {name: f"logs: logs/{name}" for name in names}
            for log in LOGS:
                for name in names:
                    (folder / "logs" / name / log).mkdir(parents=True)
        file.write_text(PIPELINE.format(places=", ".join(f"{name}: {{{places[name]}}}" for name in names)))
        prepare(load_pipeline(file))
        context = get_context("spawn")
        barrier = context.Barrier(len(names))
        pool = stack.enter_context(ProcessPoolExecutor(len(names), context, _meet_at, (barrier,)))
        joins = {name: pool.submit(join_month, file, name, amounts) for name in names}
        found = {name: join.result() for name, join in joins.items()}
    return {"datacenters": found, "load": [round(one, 1) for one in psutil.getloadavg()]}
