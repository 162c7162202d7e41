"""A whole demo: its parts put together, its phases played one after the other."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from examples.demo.dagster_stack import HOST, DagsterFailed, DagsterStack, free_port, path_of, stack_in
from examples.demo.folder import DemoFolder, held_folder
from examples.demo.latency import SeenRow, TableReader, TimeSpan
from examples.demo.plot import draw
from examples.demo.process_tree import GUARD, ProcessTree, Program
from examples.demo.scenario import (
    PIPELINE,
    SETTINGS,
    VICTIM,
    Facts,
    Kill,
    Phase,
    phases,
    registry_over,
    stay,
    traffic,
    verified_often,
)
from examples.demo.summary import Course, Summary
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import Generator, generating
from examples.demo.view import as_line, recent_p90_seconds, say
from photon.dispatcher.shift.lease import holder_of, lease_status_of
from photon.dispatcher.shift.people import Decisions, decisions_seen
from photon.health.status import DatacenterStatus, status_of
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.process.errors import UserError
from photon.process.operating_system import handled_by
from photon.process.readable import counted
from photon.registry.opening import init_registry
from photon.verification.stored_reports import StoredReport, newest

LONGEST_SECONDS = 540.0  # all phases of a demo at their bounds; its traffic is stopped long before
STAY_SECONDS = 86_400.0  # live traffic ends by itself after a day: it fills a disk
STAY_ROWS = 10_000  # rows that are kept: those of the last minutes, which are all that is shown
POLL_SECONDS = 0.1  # a row's delay is measured to within so much
LOOK_SECONDS = 1.0  # between two looks at files and states, each some ms a datacenter
SHOW_SECONDS = 5.0  # between two lines on a datacenter
DEATH_SECONDS = 5.0  # a killed process has ended within so much
LOG_LINES = 15  # lines of a process that ended, in the message
PAGE_PORT = 4280  # of the live page; another one if it is taken
RUN_FAILED = ("FAILURE", "CANCELED")


class DemoFailed(UserError):
    """The demo can't go on; the message says why and where to look."""


# Opens where a demo has its logs and lakes, and gives the lines on each datacenter for its pipeline file.
Places = Callable[[DemoFolder, Sequence[str]], AbstractContextManager[Mapping[str, str]]]


class Endpoint(Protocol):
    """One endpoint of a demo's registry: a server of its own."""

    url: str

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        ...

    def start(self) -> None:
        """Start it again, with its data."""
        ...


# Runs the endpoints of a demo's registry; none: it is the local one, a file.
Endpoints = Callable[[DemoFolder], AbstractContextManager[Sequence[Endpoint]]]


def run_demo(path: Path, seconds: float, ui_port: int, places: Places, endpoints: Endpoints) -> Summary:
    """Begin anew in the folder, and go through every phase; everything that was started has ended then.

    `seconds`: how long both datacenters join undisturbed. UserError if it can't be done; KeyboardInterrupt
    for a signal.
    """
    clock = SystemClock()
    logged = traffic(_seed(clock), seconds + LONGEST_SECONDS)
    with held_folder(path) as folder, contextlib.ExitStack() as parts:
        folder.empty()
        lines = parts.enter_context(places(folder, logged.datacenters))
        servers = parts.enter_context(endpoints(folder))
        settings = SETTINGS + registry_over([one.url for one in servers])
        logged.write_pipeline(folder.path, PIPELINE, settings, lines)
        if servers:
            init_registry(load_pipeline(folder.pipeline), clock)
        with _started(folder, logged, ui_port, clock) as demo:
            demo.endpoints = servers
            demo.play(phases(seconds, bool(servers)))
            assert demo.kill is not None
            course = Course(tuple(demo.rows), demo.spans, demo.kill)
            say("drawing the plot")
            draw(course.rows, course.shown, course.without, course.kill.datacenter, folder.plot)
            reports = demo.reports()
            say("done; everything that was started is ended")
    return Summary(reports, course, demo.stack.url, str(folder.plot), str(folder.path))


def run_live(path: Path, ui_port: int, places: Places, endpoints: Endpoints) -> None:
    """Live traffic under Dagster, on what is in the folder, until KeyboardInterrupt. Raises as `run_demo`."""
    clock = SystemClock()
    logged = traffic(_seed(clock), STAY_SECONDS)
    with held_folder(path) as folder, contextlib.ExitStack() as parts:
        if not folder.is_begun:
            folder.empty()
        lines = parts.enter_context(places(folder, logged.datacenters))
        servers = parts.enter_context(endpoints(folder))
        if not folder.is_begun:
            settings = SETTINGS + registry_over([one.url for one in servers])
            logged.write_pipeline(folder.path, PIPELINE, settings, lines)
        folder.pipeline.write_text(verified_often(folder.pipeline.read_text()))
        if servers:
            init_registry(load_pipeline(folder.pipeline), clock)
        folder.rotate_logs()
        with _started(folder, logged, ui_port, clock, STAY_ROWS) as demo:
            demo.play(stay())


def _seed(clock: Clock) -> int:
    """Another one every second: the events of one folder's next traffic are other events."""
    return clock.now_us() // MICROSECONDS


@contextlib.contextmanager
def _started(
    folder: DemoFolder, logged: Traffic, ui_port: int, clock: Clock, keep_rows: int | None = None
) -> Iterator[Demo]:
    """All parts at work, Dagster too; ended in the opposite order."""
    pipeline = load_pipeline(folder.pipeline)
    stack = stack_in(folder, ui_port)
    places = pipeline.datacenters.values()
    logs = {name: place.logs for name, place in pipeline.datacenters.items()}
    for place in places:
        if isinstance(place.logs, Path):
            place.logs.mkdir(parents=True, exist_ok=True)
    reader = TableReader([place.lake / "joined_events" for place in places], clock)
    reader.poll()  # rows of an earlier demo are passed over
    with (
        interrupts() as on_second,  # around all: also while all the others end
        ProcessTree([place.state for place in places], keep_open=[folder.lock.fileno()]) as tree,
        _saying_that_it_ends(),
        generating(logged, folder.path, logs) as generator,
    ):
        on_second.append(tree.hurry)
        demo = Demo(pipeline, stack, tree, generator, reader, clock, deque(maxlen=keep_rows))
        demo.start_page()
        demo.start_dagster()
        yield demo


@contextlib.contextmanager
def _saying_that_it_ends() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("everything that was started is being ended; once more Ctrl-C: at once")
        raise


@contextlib.contextmanager
def interrupts() -> Iterator[list[Callable[[], None]]]:
    """The first SIGINT or SIGTERM is a KeyboardInterrupt; each later one calls what is in the list."""
    on_second: list[Callable[[], None]] = []
    asked: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) == 1:
            raise KeyboardInterrupt
        for call in on_second:
            call()

    with handled_by(on_signal, signal.SIGINT, signal.SIGTERM):
        yield on_second


@dataclass
class Demo:
    """One demo, from Dagster's start to its last phase."""

    pipeline: Pipeline
    stack: DagsterStack
    tree: ProcessTree
    generator: Generator
    reader: TableReader
    clock: Clock
    rows: deque[SeenRow]  # in the order in which they were seen
    endpoints: Sequence[Endpoint] = ()
    kill: Kill | None = None
    spans: dict[str, TimeSpan] = field(default_factory=dict)  # each phase's
    _newest_row_us: dict[str, int] = field(default_factory=dict)  # each datacenter's
    _datacenters: Mapping[str, DatacenterStatus] = field(default_factory=dict)
    _looked_us: int = 0
    _shown_us: int = 0
    _verification: str | None = None  # the run
    _verified: bool = False

    @property
    def _logs(self) -> str:
        """Where Dagster's processes have said what they did, and the runs that they started."""
        folder = self.stack.folder
        return f"{folder.path}/*.log, and for each run at {folder.dagster_home}/storage/RUN/compute_logs"

    def start_page(self) -> None:
        """Start the live page beside all else, which nobody has to wait for."""
        port, folder = free_port(PAGE_PORT), self.stack.folder
        command = (path_of("photon"), "ui", str(folder.pipeline), "--port", str(port))
        self.tree.start(Program("page", command, folder.path, folder.log("page")))
        say(f"the live page: http://{HOST}:{port}/")

    def start_dagster(self) -> None:
        """Start Dagster's processes."""
        began_us = self.clock.now_us()
        say(f"Dagster starts; its UI will be at {self.stack.url}")
        self.stack.start(self.tree, self._until)
        say(f"the UI is there: {self.stack.url}")
        self.spans["dagster"] = TimeSpan(began_us, self.clock.now_us())

    def play(self, phases: Iterable[Phase]) -> None:
        """One phase after the other. DemoFailed if one does not come to its end."""
        deeds: dict[str, Callable[[], None]] = {
            "kill an endpoint": self._kill_endpoint,
            "start the endpoint": lambda: self.endpoints[0].start(),
            "kill": self._kill_shift,
            "calm": self.generator.calm,
            "silence": self._stop_traffic,
            "verify": self._verify,
        }
        for phase in phases:
            began_us = self.clock.now_us()
            say(phase.says)
            if phase.deed is not None:
                deeds[phase.deed]()
            facts = self._watch(phase, began_us)
            self.spans[phase.name] = TimeSpan(began_us, facts.now_us)

    def _watch(self, phase: Phase, began_us: int) -> Facts:
        while True:
            self._check_processes()
            facts = self._look(began_us)
            self._show(facts)
            if phase.is_over(facts):
                return facts
            if facts.seconds > phase.at_most_seconds:
                if phase.may_end:
                    say(f"not done after {phase.at_most_seconds:.0f} s; going on")
                    return facts
                raise DemoFailed(
                    f"{phase.says}: not done after {phase.at_most_seconds:.0f} s; look at {self._logs}"
                )
            self.clock.sleep(POLL_SECONDS)

    def _look(self, began_us: int) -> Facts:
        """Look for what is new; look up each datacenter's status and the verification's run once a second."""
        for row in self.reader.poll():
            self.rows.append(row)
            self._newest_row_us[row.row[0]] = row.readable_us
        now_us = self.clock.now_us()
        if now_us - self._looked_us >= LOOK_SECONDS * MICROSECONDS:
            self._looked_us = now_us
            names, decisions = self.pipeline.datacenters, self._decisions()
            self._datacenters = {
                name: status_of(self.pipeline, name, self.clock, decisions) for name in names
            }
            self._verified = self._has_verified()
        return Facts(
            now_us, began_us, self._datacenters, dict(self._newest_row_us), self.kill, self._verified
        )

    def _decisions(self) -> Decisions:
        """Return people's decisions, asked for only where nobody runs a datacenter: they may say why."""
        if all(holder_of(place.state) for place in self.pipeline.datacenters.values()):
            return Decisions()
        return decisions_seen(self.pipeline)

    def _show(self, facts: Facts) -> None:
        if facts.now_us - self._shown_us >= SHOW_SECONDS * MICROSECONDS:
            self._shown_us = facts.now_us
            for name in facts.datacenters:
                say(as_line(name, facts, recent_p90_seconds(self.rows, name, facts.now_us)))

    def reports(self) -> dict[str, StoredReport]:
        """The findings of the verification. DemoFailed if it did not say so of every datacenter."""
        reports = newest(self.pipeline, self.pipeline.datacenters)
        found = {name: report for name, report in reports.items() if report.run == self._verification}
        if unverified := self.pipeline.datacenters.keys() - found.keys():
            raise DemoFailed(
                f"the verification run {self._verification} has left no report of "
                f"{', '.join(sorted(unverified))}; look at {self._logs}"
            )
        return found

    def _kill_endpoint(self) -> None:
        self.endpoints[0].kill()
        say(f"kill -9: the endpoint {self.endpoints[0].url}")

    def _kill_shift(self) -> None:
        state = self.pipeline.datacenters[VICTIM].state
        process = holder_of(state)
        if process is None:
            raise DemoFailed(f"no shift of {VICTIM} runs that could be killed; look at {self._logs}")
        at_us = self.clock.now_us()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        self._until(
            lambda: not lease_status_of(state).is_locked, DEATH_SECONDS, f"the end of process {process}"
        )
        # All that the killed shift had made readable is its own. From now on its successor makes rows.
        self._look(at_us)
        self.kill = Kill(VICTIM, at_us, self.clock.now_us())
        say(f"kill -9 {process}: the shift of {VICTIM}")

    def _stop_traffic(self) -> None:
        run = self.generator.stop()
        say(f"{counted(run.lines, 'line', 'were')} written, {run.bytes / 2**20:.0f} MiB")

    def _verify(self) -> None:
        self._verification = self.stack.launch((self.pipeline.name, "verification_report"))
        say(f"verification: {self.stack.url}/runs/{self._verification}")

    def _has_verified(self) -> bool:
        if self._verification is None:
            return False
        try:
            status = self.stack.status_of_run(self._verification)
        except DagsterFailed:
            return False  # Dagster may only be busy, and the phase has its bound
        if status in RUN_FAILED:
            raise DemoFailed(
                f"the verification could not be done: its run {self._verification} ended as {status}; "
                f"look at {self._logs}"
            )
        return status == "SUCCESS"

    def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline_us = self.clock.now_us() + round(seconds * MICROSECONDS)
        while not true():
            self._check_processes()
            if self.clock.now_us() > deadline_us:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}; look at {self._logs}")
            self.clock.sleep(POLL_SECONDS)

    def _check_processes(self) -> None:
        for name, status in self.tree.ended().items():
            if name == GUARD:
                raise DemoFailed(f"the demo's guard ended with status {status}; all is being ended")
            log = self.stack.folder.log(name)
            raise DemoFailed(f"the {name} ended with status {status}; the end of {log}:\n{_end_of(log)}")
        if not self.generator.lives():
            raise DemoFailed("the traffic generator died; its own message is above")


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
