"""The demo as it goes on: does each phase's deed, looks ten times a second, and shows what it sees.

Which phases there are is `scenario`; what is told afterwards is `summary`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bench.latency import Window
from examples.demo.dagster_stack import DagsterBusy, DagsterStack
from examples.demo.process_tree import SUPERVISOR, ProcessTree
from examples.demo.scenario import VICTIM, Facts, Kill, Phase
from examples.demo.verdict import Verdict, verdict_of
from examples.demo.view import View, rows_of
from examples.demo.watch import Watch
from photon.clock import MICROSECONDS, Clock
from photon.pipeline.file import Pipeline
from photon.shift.lease import holder_of, lease_status_of
from photon.testing.generator import Generator
from photon.verification.report_table import newest

POLL_SECONDS = 0.1  # a row's delay is measured to within so much
RUN_POLL_SECONDS = 1.0
CODE_SERVER_SECONDS = 60.0  # 5 s alone, until it has loaded the code location
UI_SECONDS = 60.0  # 4 s alone
DEATH_SECONDS = 5.0
LOG_LINES = 15  # of a process that ended, in the message
RUN_HAS_ENDED = ("SUCCESS", "FAILURE", "CANCELED", "gone")


class DemoFailed(Exception):
    """The demo can't go on; the message says why and where to look."""


@dataclass
class Performance:
    """One demo, from Dagster's start to its last phase."""

    pipeline: Pipeline
    stack: DagsterStack
    tree: ProcessTree
    generator: Generator
    watch: Watch
    view: View
    clock: Clock
    kill: Kill | None = None
    spans: dict[str, Window] = field(default_factory=dict)  # by phase
    _verification: str | None = None  # the run
    _verified: bool = False
    _asked_us: int = 0

    def start_dagster(self) -> None:
        """Start Dagster's processes, each as soon as what it needs is there."""
        began_us = self.clock.now_us()
        self.view.says(f"Dagster starts; its UI will be at {self.stack.url}")
        self.stack.prepare()
        self.stack.make_databases()
        self.tree.start(self.stack.code_server())
        self._until(self.stack.code_server_is_up, CODE_SERVER_SECONDS, "the code server to load its location")
        self.tree.start(self.stack.daemon())
        self.tree.start(self.stack.webserver())
        self._until(self.stack.ui_is_up, UI_SECONDS, "the UI to answer")
        self.view.says(f"the UI is there: {self.stack.url}")
        self.spans["dagster"] = Window(began_us, self.clock.now_us())

    def play(self, phases: Iterable[Phase]) -> None:
        """One phase after the other. DemoFailed if one does not come to its end."""
        for phase in phases:
            began_us = self.clock.now_us()
            self.view.says(phase.says)
            self._do(phase)
            facts = self._watch(phase, began_us)
            self.spans[phase.name] = Window(began_us, facts.now_us)

    def _watch(self, phase: Phase, began_us: int) -> Facts:
        while True:
            self._check_processes()
            self._ask_for_verification()
            facts = self.watch.look(began_us, self.kill, self._verified)
            p90_seconds = {name: self.watch.recent_p90_seconds(name) for name in facts.datacenters}
            self.view.shows(rows_of(facts, p90_seconds), phase.says, facts.now_us)
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
        unverified = [
            name
            for name in self.pipeline.datacenters
            if name not in reports or reports[name].run != self._verification
        ]
        if unverified:
            raise DemoFailed(
                f"the verification run {self._verification} has left no report of {', '.join(unverified)}; "
                "`make dev` shows what it did"
            )
        return verdict_of(reports)

    # -- deeds

    def _do(self, phase: Phase) -> None:
        deeds: Mapping[str | None, Callable[[], None]] = {
            "kill": self._kill_shift,
            "calm": self.generator.calm,
            "silence": self._stop_traffic,
            "verify": self._verify,
        }
        deeds.get(phase.deed, lambda: None)()

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
        now_us = self.clock.now_us()
        waits = self._verification is not None and not self._verified
        if waits and now_us - self._asked_us >= RUN_POLL_SECONDS * MICROSECONDS:
            self._asked_us = now_us
            try:
                status = self.stack.status_of_run(str(self._verification))
            except DagsterBusy:
                return  # the phase has its bound
            if status in RUN_HAS_ENDED and status != "SUCCESS":
                raise DemoFailed(
                    f"the verification could not be done: its run ended as {status}; `make dev` shows it at "
                    f"/runs/{self._verification}"
                )
            self._verified = status == "SUCCESS"

    # -- processes

    def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline_us = self.clock.now_us() + round(seconds * MICROSECONDS)
        while not true():
            self._check_processes()
            if self.clock.now_us() > deadline_us:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}; look at {self.stack.folder.path}/*.log")
            self.clock.sleep(POLL_SECONDS)

    def _check_processes(self) -> None:
        for ended in self.tree.ended():
            if ended.name == SUPERVISOR:
                raise DemoFailed(
                    f"the demo's supervisor ended with status {ended.status}; what it had started is ended"
                )
            log = self.stack.folder.log(ended.name)
            raise DemoFailed(
                f"the {ended.name} ended with status {ended.status}; the end of {log}:\n{_end_of(log)}"
            )
        if not self.generator.lives():
            raise DemoFailed("the traffic generator died; its own message is above")


def _end_of(log: os.PathLike[str]) -> str:
    try:
        with open(log, errors="replace") as file:
            return "".join(file.readlines()[-LOG_LINES:])
    except OSError as error:
        return str(error)
