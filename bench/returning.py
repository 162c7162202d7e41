"""Measures what a silence costs: a datacenter dies in a batch, is passed over, and starts again (A25).

An ordinary restart, right after the same death, is what it is compared with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds

from photon.pipeline.file import load_pipeline
from photon.process.faults import CRASH_AT
from photon.state.database import StateReader
from photon.storage.tables import OutputTable, app_id

PIPELINE = """
name: returning
datacenters: {east: {logs: logs/east}, west: {logs: logs/west}}
primary: {files: "queries-*.csv", format: csv, id: query_id, time: time, time_unit: s}
foreign: {files: "clicks-*.csv", format: csv, id: click_id, key: query_id, time: time, time_unit: s}
home: {takeover_delay: 0s}
"""
FILES, READ_FILES = 20, 18  # nine tenths are read when it dies
CLICKS = 2_000  # beside each file of primaries
FIRST_ROW_SECONDS = 600.0

Progress = Callable[[str], None]


def measure_returning(
    folder: Path, primaries: int, silence_seconds: float, progress: Progress
) -> dict[str, Any]:
    """Kill west in a batch and start it again: at once, and after a silence in which east works."""
    for name in ("east", "west"):
        (folder / "logs" / name).mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    progress(f"writing and joining {primaries * READ_FILES // FILES:,} primary events")
    for number in range(READ_FILES):
        _write(folder, number, primaries // FILES)
    for name in ("west", "east"):
        subprocess.run(_join(folder, name, "--until-idle"), check=True, stdout=subprocess.DEVNULL)
    progress("an ordinary restart")
    ordinary = _restart(folder, READ_FILES, primaries // FILES, 0.0)
    progress(f"a restart after {silence_seconds:.0f} s of silence")
    returning = _restart(folder, READ_FILES + 1, primaries // FILES, silence_seconds)
    times = returning["first_row_seconds"] / ordinary["first_row_seconds"]
    load = [round(one, 1) for one in psutil.getloadavg()]
    return {"ordinary": ordinary, "returning": returning, "times": round(times, 2), "load": load}


def _restart(folder: Path, number: int, primaries: int, silence_seconds: float) -> dict[str, Any]:
    """What a restart costs, once west has claimed for new lines and died."""
    _write(folder, number, primaries)
    environment = {**os.environ, CRASH_AT: "claim.after"}
    died = subprocess.run(_join(folder, "west"), env=environment, stdout=subprocess.DEVNULL)
    assert died.returncode == -signal.SIGKILL, f"west dies with a batch open, and did not: {died}"
    place = load_pipeline(folder / "pipeline.yaml").datacenters["west"]
    with closing(StateReader(place.state)) as state:
        plan, epoch, before = state.open_plan(), state.epoch or "", state.counts().primary
    assert plan is not None, "a batch is open"
    ranges = (*plan.content.primary, *plan.content.foreign)
    if silence_seconds:
        with _running(folder, "east"):
            time.sleep(silence_seconds)
    # East may have joined all else meanwhile: west alone has this click, and its primary was read long ago.
    late = folder / "logs" / "west" / f"clicks-{number:02}-late.csv"
    late.write_text(f"click_id,query_id,time\nlate-{number},q0,{int(time.time())}\n")
    table = OutputTable(place.lake, "joined_events")
    passed = table.reached(app_id("west", epoch)).passed
    began = time.monotonic()
    with _running(folder, "west"):
        while _rows(table, f"late-{number}") == 0 and time.monotonic() - began < FIRST_ROW_SECONDS:
            time.sleep(0.05)
        first_row_seconds = time.monotonic() - began
    subprocess.run(_join(folder, "west", "--until-idle"), check=True, stdout=subprocess.DEVNULL)
    with closing(StateReader(place.state)) as state:
        read = state.counts().primary - before
        is_intact = state.epoch == epoch
    return {
        "passed_over": passed,
        "goes_on_in_its_epoch": is_intact,
        "plan_bytes": sum(part.end_bytes - part.start_bytes for part in ranges),
        "primaries_read": read,
        "primaries_new": primaries,
        "first_row_seconds": round(first_row_seconds, 2),
    }


def _rows(table: OutputTable, click: str) -> int:
    return int(table.load().to_pyarrow_dataset().count_rows(filter=ds.field("_event_id") == click))


def _write(folder: Path, number: int, primaries: int) -> None:
    """Write one file of each log, alike in both datacenters, and whole: under its name once it is."""
    first, now = number * primaries, int(time.time())
    queries = "".join(f"q{n},{now},words of {n}\n" for n in range(first, first + primaries))
    clicks = "".join(f"c{number}-{n},q{first + n},{now}\n" for n in range(min(CLICKS, primaries)))
    for name in ("east", "west"):
        logs = folder / "logs" / name
        (logs / f"queries-{number:02}.csv").write_text(f"query_id,time,text\n{queries}")
        (logs / f"clicks-{number:02}.csv").write_text(f"click_id,query_id,time\n{clicks}")


def _join(folder: Path, datacenter: str, *options: str) -> list[str]:
    photon = str(Path(sys.executable).with_name("photon"))
    return [photon, "join", str(folder / "pipeline.yaml"), "-d", datacenter, "--engine", "local", *options]


@contextmanager
def _running(folder: Path, datacenter: str) -> Iterator[None]:
    """Run a join within this block."""
    process = subprocess.Popen(_join(folder, datacenter), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
