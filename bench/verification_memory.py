"""Measures the memory of `photon verify`: of logs of one hour, and of a day with as many events an hour.

What counts is the peak of the command with all of its processes; memory that they share counts once (PSS).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from photon.pipeline.file import load_pipeline
from photon.process.lifeline import bound_to_this_thread

LOOK_SECONDS = 0.25
PIPELINE = """
name: verified
datacenters: {here: {logs: logs}}
primary: {files: "queries-*.csv", format: csv, id: query_id, time: time, time_unit: s}
foreign: {files: "clicks-*.csv", format: csv, id: click_id, key: query_id, time: time, time_unit: s}
"""
PADDING = "x" * 200  # a line is as long as those of real logs

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One verification of logs of so many hours."""

    hours: int
    records: int  # foreign ones, each with a primary event of its own
    seconds: float
    peak_mib: int  # the command and all below it, at one moment
    parts_mib: dict[str, int]  # the highest of each kind of process


def measure_verification(
    folder: Path, hours: Sequence[int], events_an_hour: int, progress: Progress
) -> dict[str, Any]:
    """Join logs of so many hours, and verify each in a process of its own."""
    runs = []
    for each in hours:
        progress(f"{each} hours: writing and joining {each * events_an_hour:,} events of each log")
        where = folder / f"hours-{each}"
        _join(where, each, events_an_hour)
        progress(f"{each} hours: verifying")
        runs.append(vars(_verify(where, each, each * events_an_hour)))
    load = [round(one, 1) for one in psutil.getloadavg()]
    return {"events_an_hour": events_an_hour, "load": load, "cores": psutil.cpu_count(), "runs": runs}


def _join(folder: Path, hours: int, events_an_hour: int) -> None:
    from photon.dispatcher.shift.run import prepare, run_shift
    from photon.registry.opening import close_registries

    (folder / "logs").mkdir(parents=True)
    for hour in range(hours):
        numbers = range(hour * events_an_hour, (hour + 1) * events_an_hour)
        times = {number: hour * 3_600 + 3_600 * n // events_an_hour for n, number in enumerate(numbers)}
        for log, header, line in (
            ("queries", "query_id,time,text", "q{0},{1},{2}\n"),
            ("clicks", "click_id,query_id,time,text", "c{0},q{0},{1},{2}\n"),
        ):
            with (folder / "logs" / f"{log}-{hour:02}.csv").open("w") as file:
                file.write(header + "\n")
                file.writelines(line.format(number, at, PADDING) for number, at in times.items())
    (folder / "pipeline.yaml").write_text(PIPELINE)
    pipeline = load_pipeline(folder / "pipeline.yaml")
    prepare(pipeline)
    run_shift(pipeline, "here", "complete")
    close_registries()


def _verify(folder: Path, hours: int, records: int) -> Measured:
    """`photon verify --record`; RuntimeError if it does not find all joined."""
    command = [sys.executable, "-m", "photon.cli.main", "verify", str(folder / "pipeline.yaml"), "--record"]
    began, peak, parts = time.perf_counter(), 0, Counter[str]()
    silent = subprocess.DEVNULL
    with subprocess.Popen(bound_to_this_thread(command), stdout=silent, stderr=silent) as process:
        while process.poll() is None:
            now = _memory(process.pid)
            peak, parts = max(peak, now.total()), parts | now
            time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: run it to see why")
    mib = {name: size >> 20 for name, size in sorted(parts.items())}
    return Measured(hours, records, round(time.perf_counter() - began, 1), peak >> 20, mib)


def _memory(root: int) -> Counter[str]:
    """Bytes of a process and all below it, by what they are."""
    found = Counter[str]()
    with suppress(psutil.Error):
        driver = psutil.Process(root)
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.Error):
                kind = "driver" if process == driver else _kind(process.name())
                found[kind] += process.memory_full_info().pss
    return found


def _kind(name: str) -> str:
    return {"java": "JVM", "dynoxide": "registry"}.get(name, "tasks")


def lines_of(found: dict[str, Any]) -> list[str]:
    """The measurement for people."""
    first = f"{found['events_an_hour']:,} events of each log an hour; {found['cores']} cores"
    return [f"{first}, load {found['load']}", *(_line(run) for run in found["runs"])]


def _line(run: dict[str, Any]) -> str:
    parts = ", ".join(f"{name} {size:,}" for name, size in run["parts_mib"].items())
    return (
        f"{run['hours']:3} hours, {run['records']:>9,} records: at most {run['peak_mib']:,} MiB "
        f"({parts}), {run['seconds']} s"
    )
