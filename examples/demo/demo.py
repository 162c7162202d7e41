"""A whole demo: its parts put together, its phases played one after the other."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bench.generator import Generator, generating
from bench.latency import TimeSpan
from bench.latency_plot import draw
from examples.demo.dagster_stack import DagsterFailed, DagsterStack, stack_in
from examples.demo.folder import DemoFolder, held_folder
from examples.demo.process_tree import GUARD, ProcessTree
from examples.demo.scenario import PIPELINE, SETTINGS, VICTIM, Facts, Kill, Phase, phases, stay, traffic
from examples.demo.summary import Course, Summary, Verdict, verdict_of
from examples.demo.view import View, open_view
from examples.demo.watch import Watch
from photon.clock import MICROSECONDS, Clock, SystemClock
from photon.errors import UserError
from photon.pipeline.file import Pipeline, load_pipeline
from photon.shift.lease import holder_of, lease_status_of
from photon.testing.traffic import Traffic
from photon.verification.report_table import newest

LONGEST_SECONDS = 420.0  # all phases of a demo at their bounds; its traffic is stopped long before
STAY_SECONDS = 86_400.0  # live traffic ends by itself after a day: it fills a disk
STAY_ROWS = 10_000  # the last minutes: nothing else is shown
POLL_SECONDS = 0.1  # a row's delay is measured to within so much
RUN_POLL_SECONDS = 1.0
CODE_SERVER_SECONDS = 60.0  # 5 s alone, until it has loaded the code location
UI_SECONDS = 60.0  # 4 s alone
DEATH_SECONDS = 5.0
LOG_LINES = 15  # of a process that ended, in the message
RUN_FAILED = ("FAILURE", "CANCELED")


class DemoFailed(UserError):
    """The demo can't go on; the message says why and where to look."""


@dataclass(frozen=True)
class Wishes:
    """What the user of a demo may choose."""

    folder: Path
    seconds: float  # how long both datacenters join undisturbed
    ui_port: int


def run_demo(wishes: Wishes) -> Summary:
    """Begin anew in the folder, and go through every phase; everything that was started has ended then.

    UserError if it can't be done; KeyboardInterrupt for a signal.
    """
    clock = SystemClock()
    with held_folder(wishes.folder) as folder:
        folder.empty()
        logged = traffic(_seed(clock), wishes.seconds + LONGEST_SECONDS)
        logged.write_pipeline(folder.path, PIPELINE, SETTINGS)
        with _started(folder, logged, wishes.ui_port, clock) as demo:
            demo.play(phases(wishes.seconds))
            assert demo.kill is not None
            course = Course(tuple(demo.watch.rows), demo.spans, demo.kill)
            demo.view.says("drawing the plot")
            draw(course.rows, course.shown, course.without, course.kill.datacenter, folder.plot)
            verdict = demo.verdict()
            demo.view.says("done; everything that was started is ended")
    return Summary(verdict, course, demo.stack.url, str(folder.plot), str(folder.path))


def run_live(wishes: Wishes) -> None:
    """Live traffic under Dagster, on what is in the folder, until KeyboardInterrupt. Raises as `run_demo`."""
    clock = SystemClock()
    with held_folder(wishes.folder) as folder:
        logged = traffic(_seed(clock), STAY_SECONDS)
        if not folder.is_begun:
            folder.empty()
            logged.write_pipeline(folder.path, PIPELINE, SETTINGS)
        folder.rotate_logs()
        with _started(folder, logged, wishes.ui_port, clock, STAY_ROWS) as demo:
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
    for place in pipeline.datacenters.values():
        place.logs.mkdir(parents=True, exist_ok=True)
    shifts = [place.state for place in pipeline.datacenters.values()]
    with (
        interrupts() as on_second,  # around all: also while all the others end
        ProcessTree(shifts, keep_open=[folder.lock.fileno()]) as tree,
        open_view() as view,
        generating(logged, folder.path) as generator,
    ):
        on_second.append(tree.hurry)
        watch = Watch(pipeline, clock, deque(maxlen=keep_rows))
        demo = Demo(pipeline, stack, tree, generator, watch, view, clock)
        demo.start_dagster()
        yield demo


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

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield on_second
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Demo:
    """One demo, from Dagster's start to its last phase."""

    pipeline: Pipeline
    stack: DagsterStack
    tree: ProcessTree
    generator: Generator
    watch: Watch
    view: View
    clock: Clock
    kill: Kill | None = None
    spans: dict[str, TimeSpan] = field(default_factory=dict)  # by phase
    _verification: str | None = None  # the run
    _verified: bool = False
    _asked_us: int = 0

    def start_dagster(self) -> None:
        """Start Dagster's processes, each as soon as what it needs is there."""
        began_us = self.clock.now_us()
        self.view.says(f"Dagster starts; its UI will be at {self.stack.url}")
        self.stack.prepare()
        self.tree.start(self.stack.code_server())
        self._until(self.stack.code_server_is_up, CODE_SERVER_SECONDS, "the code server to load its location")
        self.tree.start(self.stack.daemon())
        self.tree.start(self.stack.webserver())
        self._until(self.stack.ui_is_up, UI_SECONDS, "the UI to answer")
        self.view.says(f"the UI is there: {self.stack.url}")
        self.spans["dagster"] = TimeSpan(began_us, self.clock.now_us())

    def play(self, phases: Iterable[Phase]) -> None:
        """One phase after the other. DemoFailed if one does not come to its end."""
        deeds: dict[str, Callable[[], None]] = {
            "kill": self._kill_shift,
            "calm": self.generator.calm,
            "silence": self._stop_traffic,
            "verify": self._verify,
        }
        for phase in phases:
            began_us = self.clock.now_us()
            self.view.says(phase.says)
            if phase.deed is not None:
                deeds[phase.deed]()
            facts = self._watch(phase, began_us)
            self.spans[phase.name] = TimeSpan(began_us, facts.now_us)

    def _watch(self, phase: Phase, began_us: int) -> Facts:
        while True:
            self._check_processes()
            self._ask_for_verification()
            facts = self.watch.look(began_us, self.kill, self._verified)
            self.view.shows(facts, self.watch.recent_p90_seconds(), phase.says)
            if phase.is_over(facts):
                return facts
            if facts.seconds > phase.at_most_seconds:
                if phase.may_end:
                    self.view.says(f"not done after {phase.at_most_seconds:.0f} s; going on")
                    return facts
                raise DemoFailed(
                    f"{phase.says}: not done after {phase.at_most_seconds:.0f} s. `make dev` shows the runs; "
                    f"the logs are {self.stack.folder.path}/*.log"
                )
            self.clock.sleep(POLL_SECONDS)

    def verdict(self) -> Verdict:
        """What the verification has found. DemoFailed if it did not say so of every datacenter."""
        reports = newest(self.pipeline, self.pipeline.datacenters)
        found = {name: report for name, report in reports.items() if report.run == self._verification}
        if unverified := self.pipeline.datacenters.keys() - found.keys():
            raise DemoFailed(
                f"the verification run {self._verification} has left no report of "
                f"{', '.join(sorted(unverified))}; `make dev` shows what it did"
            )
        return verdict_of(found)

    def _kill_shift(self) -> None:
        state = self.pipeline.datacenters[VICTIM].state
        process = holder_of(state)
        if process is None:
            raise DemoFailed(f"no shift of {VICTIM} runs that could be killed; `make dev` shows its runs")
        at_us = self.clock.now_us()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        self._until(lambda: not lease_status_of(state).held, DEATH_SECONDS, f"the end of process {process}")
        # What it had made readable is its own: whatever comes from now on is its successor's.
        self.watch.look(at_us, None, False)
        self.kill = Kill(VICTIM, process, at_us, self.clock.now_us())
        self.view.says(f"kill -9 {process}: the shift of {VICTIM}")

    def _stop_traffic(self) -> None:
        run = self.generator.stop()
        self.view.says(f"{run.lines:,} lines were written, {run.bytes / 2**20:.0f} MiB")

    def _verify(self) -> None:
        self._verification = self.stack.launch((self.pipeline.name, "verification_report"))
        self.view.says(f"verification: {self.stack.url}/runs/{self._verification}")

    def _ask_for_verification(self) -> None:
        if self._verification is None or self._verified:
            return
        now_us = self.clock.now_us()
        if now_us - self._asked_us < RUN_POLL_SECONDS * MICROSECONDS:
            return
        self._asked_us = now_us
        try:
            status = self.stack.status_of_run(self._verification)
        except DagsterFailed:
            return  # it may only be busy, and the phase has its bound
        if status in RUN_FAILED:
            raise DemoFailed(
                f"the verification could not be done: its run ended as {status}; `make dev` shows it at "
                f"/runs/{self._verification}"
            )
        self._verified = status == "SUCCESS"

    def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline_us = self.clock.now_us() + round(seconds * MICROSECONDS)
        while not true():
            self._check_processes()
            if self.clock.now_us() > deadline_us:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}; look at {self.stack.folder.path}/*.log")
            self.clock.sleep(POLL_SECONDS)

    def _check_processes(self) -> None:
        for ended in self.tree.ended():
            if ended.name == GUARD:
                raise DemoFailed(f"the demo's guard ended with status {ended.status}; all is being ended")
            log = self.stack.folder.log(ended.name)
            raise DemoFailed(
                f"the {ended.name} ended with status {ended.status}; the end of {log}:\n{_end_of(log)}"
            )
        if not self.generator.lives():
            raise DemoFailed("the traffic generator died; its own message is above")


def _end_of(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
    except OSError as error:
        return str(error)
