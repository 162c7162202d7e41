"""Measures what a killed shift costs, and live delay beside reports, under a Dagster with its daemon.

Two pipelines have two datacenters each, with Photon's defaults. Shifts are killed in turn, beside whatever
Dagster launches at a first start and all that has a schedule.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dagster import DagsterInstance, RunsFilter
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster_graphql import DagsterGraphQLClient

from bench.live_measurement import MeasurementFailed, TableWatch, clicks_written
from examples.demo.dagster_stack import HOST, LOCATION, DagsterStack, stack_in
from examples.demo.folder import held_folder
from examples.demo.latency import Latency, TableReader, TimeSpan, summarize
from examples.demo.process_tree import ProcessTree
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import generating
from photon.dispatcher.shift.lease import Lease, lease_status_of
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS

PIPELINES = ("clicks", "orders")
REPORTS = ("verification", "recover", "compact", "registry_report", "reshard")
START_SECONDS, ROW_SECONDS, REPORT_SECONDS, PAUSE_SECONDS = 600.0, 180.0, 900.0, 10.0
LONGEST_SECONDS = 3_600.0
# Reports come when they are asked for, so that there is a calm time to compare with.
NEVER = "0 0 29 2 *"
SETTINGS = (
    "".join(f"{section}: {{cron: '{NEVER}'}}\n" for section in ("verification", "recovery", "compaction"))
    + f"registry: {{state: {{cron: '{NEVER}'}}, resharding: {{cron: '{NEVER}'}}}}\n"
)


@dataclass(frozen=True)
class Kill:
    """Seconds from the kill of a shift: to its successor's run, to that one's lock, and to its first row."""

    datacenter: str
    launched: float
    locked: float
    first_row: float
    beside: int  # other runs than shifts that were in progress or in line
    load: float


@dataclass(frozen=True)
class KilledShifts:
    """The result of `measure_killed_shift`."""

    kills: Sequence[Kill]
    calm: Latency
    busy: Latency
    reports_seconds: float  # from the request of all reports to the end of the last one


@dataclass
class Trial:
    """The parts of a measurement that runs."""

    stack: DagsterStack
    pipelines: Sequence[Pipeline]
    watch: TableWatch  # of the first pipeline's tables
    instance: DagsterInstance
    progress: Callable[[str], None]

    def others(self) -> int:
        """How many runs that are no shifts are in progress, or in line."""
        runs = self.instance.get_runs(RunsFilter(statuses=NOT_FINISHED_STATUSES))
        return sum(not run.job_name.endswith("__shift") for run in runs)

    def until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Read rows until `done`. MeasurementFailed."""
        if not self.watch.until(done, seconds):
            where = self.stack.folder.path
            raise MeasurementFailed(f"after {seconds:.0f} s still waiting for {what}; look below {where}")

    def until_no_reports(self) -> None:
        self.until(lambda: self.others() == 0, REPORT_SECONDS, "the end of all reports")

    def start_reports(self) -> None:
        """Ask for all that has a schedule, as if all schedules had the same minute."""
        client = DagsterGraphQLClient(HOST, self.stack.ui_port, timeout=60)
        for pipeline in self.pipelines:
            for report in REPORTS:
                client.submit_job_execution(f"{pipeline.name}__{report}", LOCATION, "__repository__")

    def kill(self, pipeline: Pipeline, datacenter: str) -> Kill:
        """Kill a shift and wait for its successor's first row."""
        place, name = pipeline.datacenters[datacenter], f"{pipeline.name} {datacenter}"
        before, at_us = _lease_of(place.state), self.watch.clock.now_us()
        os.kill(before.process, signal.SIGKILL)
        self.until(lambda: not lease_status_of(place.state).is_locked, ROW_SECONDS, f"the end of {name}")
        reader, seen = TableReader([place.lake / "joined_events"]), list[int]()
        reader.poll()  # the killed one's

        def has_a_row() -> bool:
            rows = [row.readable_us for row in reader.poll()]
            if _lease_of(place.state).began_us > at_us:  # before that compaction may have written rows anew
                seen.extend(rows)
            return bool(seen)

        self.until(has_a_row, ROW_SECONDS, f"a row of {name}")
        after = _lease_of(place.state)
        record = self.instance.get_run_record_by_id(after.run)
        assert record is not None
        launched_us = record.create_timestamp.timestamp() * MICROSECONDS
        launched, locked, first_row = (
            round((time_us - at_us) / MICROSECONDS, 1) for time_us in (launched_us, after.began_us, seen[0])
        )
        load = round(os.getloadavg()[0], 1)
        found = Kill(name, launched, locked, first_row, self.others(), load)
        self.progress(str(found))
        return found


def _lease_of(state: Path) -> Lease:
    lease = lease_status_of(state).lease
    assert lease is not None
    return lease


def measure_killed_shift(
    folder: Path, kills: int, seconds: float, rates: tuple[float, float], progress: Callable[[str], None]
) -> KilledShifts:
    """Kill shifts `kills` times; then measure live delay for `seconds` calm, and beside reports.

    MeasurementFailed.
    """
    with _trial(folder, rates, progress) as trial:
        watch, found = trial.watch, list[Kill]()
        places = [(pipeline, name) for pipeline in trial.pipelines for name in pipeline.datacenters]
        for number in range(kills):
            if number and trial.others() == 0:
                trial.start_reports()
            found.append(trial.kill(*places[number % len(places)]))
            watch.pass_by(PAUSE_SECONDS)
        trial.until_no_reports()
        watch.pass_by(PAUSE_SECONDS)
        began_us = watch.clock.now_us()
        watch.pass_by(seconds)
        calm_until_us = watch.clock.now_us()
        progress(f"live delay was measured calm, at a load of {os.getloadavg()[0]:.1f}; now beside reports")
        trial.start_reports()
        trial.until_no_reports()
        busy_until_us = watch.clock.now_us()
        progress(f"all reports ended; load {os.getloadavg()[0]:.1f}")
        watch.pass_by(PAUSE_SECONDS)  # the last rows
        written = clicks_written(next(iter(trial.pipelines[0].datacenters.values())).logs / "clicks")
        calm = summarize(watch.rows, written, TimeSpan(began_us, calm_until_us))
        busy = summarize(watch.rows, written, TimeSpan(calm_until_us, busy_until_us))
        return KilledShifts(found, calm, busy, round((busy_until_us - calm_until_us) / MICROSECONDS, 1))


@contextlib.contextmanager
def _trial(folder: Path, rates: tuple[float, float], progress: Callable[[str], None]) -> Iterator[Trial]:
    pipelines = []
    with contextlib.ExitStack() as parts:
        for seed, name in enumerate(PIPELINES, 1):
            traffic = Traffic(
                seed=seed, primary_per_second=rates[0], foreign_per_second=rates[1],
                duration_seconds=LONGEST_SECONDS,
            )  # fmt: skip
            pipelines.append(load_pipeline(traffic.write_pipeline(folder / name, name, SETTINGS)))
            for datacenter in traffic.datacenters:
                (folder / name / "logs" / datacenter).mkdir(parents=True)
            parts.enter_context(generating(traffic, folder / name))
        lakes = [[place.lake for place in one.datacenters.values()] for one in pipelines]
        states = [place.state for one in pipelines for place in one.datacenters.values()]
        demo = parts.enter_context(held_folder(folder / "dagster"))
        stack = replace(stack_in(demo, 0), pipelines=tuple(one.file for one in pipelines))
        tree = parts.enter_context(ProcessTree(states))
        watch = TableWatch(TableReader([lake / "joined_events" for lake in lakes[0]]).poll, lambda: None, 0.1)

        def until(done: Callable[[], bool], at_most_seconds: float, what: str) -> None:
            if not watch.until(done, max(at_most_seconds, START_SECONDS)):
                raise MeasurementFailed(f"no sign of {what}; look below {demo.path}")

        progress("starting")
        stack.start(tree, until)
        os.environ["DAGSTER_HOME"] = str(demo.dagster_home)
        instance = parts.enter_context(DagsterInstance.from_config(str(demo.dagster_home)))
        readers = [TableReader([lake / "joined_events"]) for some in lakes for lake in some]
        begun: set[int] = set()

        def all_have_rows() -> bool:
            begun.update(number for number, reader in enumerate(readers) if reader.poll())
            return len(begun) == len(readers)

        until(all_have_rows, START_SECONDS, "the first rows of all datacenters")
        yield Trial(stack, pipelines, watch, instance, progress)


def lines_of(found: KilledShifts) -> Iterator[str]:
    """The findings, in lines."""
    yield from map(str, found.kills)
    yield f"worst of {len(found.kills)} kills: {max(one.first_row for one in found.kills)} s to the first row"
    for name, latency in (("calm", found.calm), ("beside reports", found.busy)):
        seconds = f"p50 {latency.p50_seconds:.2f} s, p90 {latency.p90_seconds:.2f} s"
        yield f"live delay {name}: {seconds}, of {latency.rows} rows; {latency.missing} are missing"
    yield f"all reports ended within {found.reports_seconds} s"
