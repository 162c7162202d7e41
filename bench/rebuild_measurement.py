"""Measures how fast rows are made again: `photon backfill --rebuild` of all rows of two generated logs.

The rows are joined once, then made again with the session warm: with the same adapter, where every row is
read, made and found equal; with another one, where every row is replaced too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.join_logs import JoinLogs
from bench.timing import family_cpu_seconds, timed
from photon.pipeline.file import Pipeline, load_pipeline
from photon.upkeep.backfill.rebuild import Rebuilt
from photon.verification.days import window_of

DAY = "2026-01-05"  # all events of `JoinLogs` are of that day
ARRIVED_PER_SECOND = 1_000  # events of both logs: that a rebuild is so many times faster is the promise
PIPELINE = """
name: rebuilt
datacenters: {here: {logs: logs}}
adapter: %s
primary:
  {files: "queries-*.jsonl", format: jsonl, id: query_id, time: time, time_unit: ms}
foreign:
  {files: "clicks-*.jsonl", format: jsonl, id: click_id, key: query_id, time: time, time_unit: ms}
"""
SAME = "photon.adapters:merge_columns"
CHANGED = '''"""An adapter that changes every row."""

import pyarrow.compute as pc
from photon.adapters import Adapter, merge


class Changed(Adapter):
    def combine(self, foreign, primary):
        rows = merge(foreign, primary)
        return rows.append_column("length", pc.utf8_length(rows["target"]).cast("int64"))
'''

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One rebuild of all rows."""

    adapter: str
    workers: int
    rows: int
    replaced: int
    seconds: float
    cpu_seconds: float  # this process, the JVM and the tasks: a busy machine does not change it
    rows_per_second: float
    rows_per_cpu_second: float
    events_per_second: float  # both logs together
    times_as_fast: float  # as events that come at `ARRIVED_PER_SECOND`


def measure_rebuild(
    folder: Path, primary: int, foreign: int, workers: int, progress: Progress
) -> dict[str, Any]:
    """Join so many events, and make the rows again, each time with so many tasks at once."""
    from photon.jobs.session import build_session, local_master, stop_session

    progress(f"writing and joining {primary:,} primary and {foreign:,} foreign events")
    (folder / "changed_adapter.py").write_text(CHANGED)
    JoinLogs(primary, foreign, files=8).write(folder / "logs")
    joined_seconds = _join(_pipeline(folder, SAME))
    session = build_session("photon bench rebuild", local_master(workers))
    try:
        # The first one warms up the session and its workers.
        runs = [
            _rebuild(_pipeline(folder, adapter), session, workers, primary + foreign, progress)
            for adapter in (SAME, SAME, "changed_adapter:Changed")
        ][1:]
    finally:
        stop_session(session)
    return {
        "primary": primary,
        "foreign": foreign,
        "joined_events_per_second": round((primary + foreign) / joined_seconds),
        "load": [round(one, 1) for one in psutil.getloadavg()],
        "cores": psutil.cpu_count(),
        "runs": [vars(run) for run in runs],
    }


def _pipeline(folder: Path, adapter: str) -> Pipeline:
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE % adapter)
    return load_pipeline(file)


def _join(pipeline: Pipeline) -> float:
    from photon.dispatcher.shift.run import prepare, run_shift
    from photon.registry.opening import close_registries

    prepare(pipeline)
    with timed() as spent:
        run_shift(pipeline, "here", "complete")
    close_registries()
    return spent.seconds


def _rebuild(pipeline: Pipeline, session: Any, workers: int, events: int, progress: Progress) -> Measured:
    from photon.jobs.backfill import rebuild

    window = window_of(DAY, None, None)
    assert window is not None
    progress(f"making all rows again with {pipeline.adapter}")
    with timed(family_cpu_seconds) as spent:
        done: Rebuilt = rebuild(pipeline, "here", window, session=session)
    events_per_second = events / done.seconds
    return Measured(
        pipeline.adapter,
        workers,
        done.tally.rows,
        done.tally.replaced,
        round(done.seconds, 2),
        round(spent.cpu_seconds, 2),
        round(done.tally.rows / done.seconds),
        round(done.tally.rows / spent.cpu_seconds),
        round(events_per_second),
        round(events_per_second / ARRIVED_PER_SECOND),
    )


def lines_of(found: dict[str, Any]) -> list[str]:
    """The measurement for people."""
    lines = [
        f"{found['primary']:,} primary and {found['foreign']:,} foreign events, joined at "
        f"{found['joined_events_per_second']:,} events/s; {found['cores']} cores, load {found['load']}"
    ]
    for run in found["runs"]:
        lines.append(
            f"{run['adapter']:32} tasks at once: {run['workers']}, {run['rows']:,} rows "
            f"({run['replaced']:,} replaced) in {run['seconds']} s ({run['cpu_seconds']} s of CPU), "
            f"{run['rows_per_second']:,} rows/s ({run['rows_per_cpu_second']:,} per CPU second), "
            f"{run['events_per_second']:,} events/s, {run['times_as_fast']} times as fast as "
            f"{ARRIVED_PER_SECOND:,} events/s"
        )
    return lines
