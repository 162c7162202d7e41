"""Measures the latency of a live join: starts it, logs traffic at a steady rate, and reads the tables.

Three processes besides the join's own: the generator, the join, and this one, which only reads. Everything
started here is stopped here. Numbers and percentiles are `latency`.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.latency import Latency, SeenRow, TableReader, TimeSpan, summarize
from examples.demo.live_traffic import LiveRun
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import Generator, GeneratorFailed, generating
from infra.servers.process import end_process, start_process
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.storage.s3 import S3Store

PHOTON_JOIN = (str(Path(sys.executable).with_name("photon")), "join")


class MeasurementFailed(Exception):
    """The join did not do what can be measured; the message says what, and where its log is."""


@dataclass(frozen=True, slots=True)
class PhaseTimeouts:
    """How long each phase of a measurement may take, in seconds, and how often the tables are read."""

    start: float = 180.0  # until the first row of every datacenter (Spark takes 18 s alone)
    warm_up: float = 10.0  # from then on to the first measured click: what piled up is worked off
    drain: float = 60.0  # from the last measured click to its row
    stop: float = 60.0  # from SIGTERM to the end of the join
    poll: float = 0.02
    report: float = 5.0  # between lines of progress


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The result of `measure_live`."""

    latency: Latency
    primary_per_second: float
    foreign_per_second: float
    generator: LiveRun  # where it was seconds behind, the machine was too slow for the rates
    exit_status: int  # the join's, after SIGTERM
    rows: Sequence[SeenRow]  # as often as they were seen
    window: TimeSpan


def measure_live(
    folder: Path, seconds: float, primary_per_second: float = 1_000, foreign_per_second: float = 50, *,
    ills: Mapping[str, int] | None = None, more: str = "", seed: int = 1,
    timeouts: PhaseTimeouts | None = None, places: Mapping[str, str] | None = None,
    command: Sequence[str] = PHOTON_JOIN, progress: Callable[[str], None] = lambda text: None,
    beside: Callable[[Path], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> LiveResult:  # fmt: skip
    """Join live traffic of two datacenters in a new `folder` for `seconds`, and measure it.

    The rates are those of one datacenter's logs, in events per second. `more` is added to the pipeline
    file, `places` to its datacenters; `command` followed by its path starts the join. `beside`, given
    the path, runs as long as the join and a little longer. MeasurementFailed if nothing can be measured.
    """
    timeouts = timeouts or PhaseTimeouts()
    longest_seconds = timeouts.start + timeouts.warm_up + seconds + timeouts.drain  # stopped long before
    traffic = Traffic(
        seed=seed, primary_per_second=primary_per_second, foreign_per_second=foreign_per_second,
        duration_seconds=longest_seconds, ills=ills or {},
    )  # fmt: skip
    pipeline = traffic.write_pipeline(folder, "live_latency", more, places)
    datacenters = load_pipeline(pipeline).datacenters
    logs = {name: place.logs for name, place in datacenters.items()}
    for each in logs.values():
        if isinstance(each, Path):
            each.mkdir(parents=True)
    tables = [place.lake / "joined_events" for place in datacenters.values()]
    with (
        beside(pipeline),
        _joining(command, pipeline, timeouts, progress) as join,
        generating(traffic, folder, logs) as generator,
    ):
        watch = TableWatch(TableReader(tables).poll, lambda: join.look(watch), timeouts.poll)
        window = join.measure(watch, seconds, len(traffic.datacenters))
        run = _stopped(generator)
        written = clicks_written(logs[traffic.datacenters[0]] / "clicks")
        due = {click for click, time_us in written.items() if time_us in window}
        watch.until(lambda: due <= watch.clicks, timeouts.drain)
    latency = summarize(watch.rows, written, window)
    rates = primary_per_second, foreign_per_second
    return LiveResult(latency, *rates, run, join.process.returncode, watch.rows, window)


def _stopped(generator: Generator) -> LiveRun:
    try:
        return generator.stop()
    except GeneratorFailed as error:
        raise MeasurementFailed(str(error)) from error


def clicks_written(folder: Location) -> dict[str, int]:
    """When each click's first line was written, in us, by its id: from one datacenter's JSON lines."""
    written: dict[str, int] = {}
    for content in _contents(folder):
        for line in content.splitlines():
            with contextlib.suppress(ValueError, KeyError):  # malformed on purpose
                record = json.loads(line)
                time_us = int(record["logged_at"])
                written[record["click_id"]] = min(time_us, written.get(record["click_id"], time_us))
    return written


def _contents(folder: Location) -> Iterator[bytes]:
    if isinstance(folder, Path):
        yield from (path.read_bytes() for path in folder.rglob("*.*"))
    else:
        store = S3Store(folder)
        yield from (store.read(each.name) for each in store.objects())


@dataclass
class TableWatch:
    """Reads tables while time passes: `poll` has what is new.

    `look` is called each time; it raises where there is no more to see.
    """

    poll: Callable[[], list[SeenRow]]
    look: Callable[[], None]
    poll_seconds: float
    clock: Clock = field(default_factory=SystemClock)
    rows: list[SeenRow] = field(default_factory=list)
    clicks: set[str] = field(default_factory=set)
    datacenters: set[str] = field(default_factory=set)

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Read until `done`, for `seconds` at most; tell whether it was done."""
        end_us = self.clock.now_us() + seconds * MICROSECONDS
        while not done():
            if self.clock.now_us() >= end_us:
                return False
            self.look()
            new = self.poll()
            self.rows.extend(new)
            self.clicks.update(row.click_id for row in new)
            self.datacenters.update(row.row[0] for row in new)
            self.clock.sleep(self.poll_seconds)
        return True

    def pass_by(self, seconds: float) -> None:
        """Read for some time."""
        self.until(lambda: False, seconds)


@dataclass
class _Join:
    """The join that is measured, and the progress that it reports."""

    process: subprocess.Popen[bytes]
    log: Path
    timeouts: PhaseTimeouts
    progress: Callable[[str], None]
    phase: str = "waiting for the first rows"

    def __post_init__(self) -> None:
        self._told_us = 0

    def look(self, watch: TableWatch) -> None:
        """Tell now and then how far it is. MeasurementFailed if the join ended."""
        ended = self.process.poll()
        if ended is not None:
            raise MeasurementFailed(f"the join ended by itself with status {ended}; {self._last_words()}")
        now_us, report_us = watch.clock.now_us(), round(self.timeouts.report * MICROSECONDS)
        if now_us - self._told_us >= report_us:
            self._told_us = now_us
            self.progress(f"{self.phase}: {_so_far(watch, now_us - report_us, now_us)}")

    def measure(self, watch: TableWatch, seconds: float, datacenters: int) -> TimeSpan:
        """Wait for the join to run and to warm up, then for the window to pass."""
        if not watch.until(lambda: len(watch.datacenters) == datacenters, self.timeouts.start):
            raise MeasurementFailed(
                f"after {self.timeouts.start:.0f} s only {sorted(watch.datacenters) or 'no datacenter'} had "
                f"written rows, expected {datacenters} datacenters; {self._last_words()}"
            )
        self.phase = "warming up"
        watch.pass_by(self.timeouts.warm_up)
        self.phase, start_us = "measuring", watch.clock.now_us()
        watch.pass_by(seconds)
        self.phase = "reading the last rows"
        return TimeSpan(start_us, watch.clock.now_us())

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return f"the end of its log {self.log}:\n" + "\n".join(lines)


def _so_far(watch: TableWatch, since_us: int, now_us: int) -> str:
    rows = watch.rows[-10_000:]
    recent = {row.click_id: since_us for row in rows if row.readable_us >= since_us}
    latency = summarize(rows, recent, TimeSpan(since_us, now_us))
    newest = f", of the last seconds p90 {latency.p90_seconds:.2f} s" if recent else ""
    return f"{len(watch.clicks)} rows{newest}"


@contextlib.contextmanager
def _joining(
    command: Sequence[str], pipeline: Path, timeouts: PhaseTimeouts, progress: Callable[[str], None]
) -> Iterator[_Join]:
    log = pipeline.parent / "join.log"
    process = start_process([*command, pipeline], log)
    try:
        yield _Join(process, log, timeouts, progress)
    finally:
        end_process(process, timeouts.stop)
