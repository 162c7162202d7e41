"""Processes that all end when the demo does, also by `kill -9`, unless that hits the guard as well.

Each carries a mark in its environment, which its children inherit. A guard process ends all with the mark
once its standard input closes: the kernel closes it when the demo is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from photon.dispatcher.shift.lease import holder_of

# A shift that is asked to stop ends its batch, tells Dagster and stops Spark: 2 s, more on a busy machine.
DRAIN_SECONDS = 10.0
TERMINATE_SECONDS = 5.0  # Dagster's processes and the registry leave within two
KILL_SECONDS = 5.0  # a killed process goes as soon as the kernel gets to it
# All steps of the end, and some time in which a busy machine gets to them.
END_SECONDS = DRAIN_SECONDS + TERMINATE_SECONDS + KILL_SECONDS + 10.0
POLL_SECONDS = 0.1
# A process has no environment for a moment while it becomes another program: 2 % of looks at one that did
# nothing else. So nobody is left only if several looks in a row find nobody.
LOOKS_WITHOUT_A_FIND = 3

GUARD = "guard"
MARK = "PHOTON_DEMO"
ENDS_FIRST = "PHOTON_DEMO_ENDS_FIRST"  # set for what would start others anew while those are being ended


@dataclass(frozen=True)
class Program:
    """A process to be started; its output is added to `log`."""

    name: str
    command: tuple[str, ...]
    folder: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    ends_first: bool = False


class ProcessTree(contextlib.AbstractContextManager["ProcessTree"]):
    """A context manager: whatever was started in it has ended when it is left.

    `shifts`: state folders of the datacenters, whose lease holders may end their batch before all else
    ends. `keep_open`: file descriptors, such as locks, that stay open until the last process has ended.
    """

    def __init__(self, shifts: Iterable[Path] = (), keep_open: Iterable[int] = ()) -> None:
        self.mark = uuid.uuid4().hex
        self._shifts = tuple(shifts)
        self._guard = subprocess.Popen(
            [sys.executable, "-P", __file__, self.mark, *map(str, self._shifts)],
            stdin=subprocess.PIPE,
            pass_fds=tuple(keep_open),
            start_new_session=True,  # out of reach of the terminal's Ctrl-C
        )
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, program: Program) -> None:
        """Start a process. OSError if that can't be done."""
        own = {MARK: self.mark} | ({ENDS_FIRST: "1"} if program.ends_first else {})
        with program.log.open("ab") as log:
            self._started[program.name] = subprocess.Popen(
                program.command, cwd=program.folder, env={**os.environ, **program.environment, **own},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def ended(self) -> dict[str, int]:
        """The exit status of all that have ended by themselves; the guard among them, if it was killed."""
        statuses = {name: p.poll() for name, p in {**self._started, GUARD: self._guard}.items()}
        return {name: status for name, status in statuses.items() if status is not None}

    def close(self) -> None:
        """End everything in order, and wait until nothing is left: some seconds."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        reaped = self._guard.wait(END_SECONDS)
        if reaped != 0:  # the guard was killed itself
            Marked(self.mark, self._shifts).end_all(lambda: True)
        for process in self._started.values():
            process.wait(KILL_SECONDS)

    def hurry(self) -> None:
        """Have everything ended at once; `close` waits for it. Fit for a signal handler."""
        self._guard.terminate()


@dataclass(frozen=True)
class Marked:
    """All processes with one mark, also those that others started."""

    mark: str
    shifts: tuple[Path, ...]

    def end_all(self, at_once: Callable[[], bool]) -> None:
        """Stop the shifts, then terminate all, then kill all; `at_once` skips what is left of the waits."""
        self._end(self.ending_first, signal.SIGTERM, DRAIN_SECONDS, at_once)
        self._end(self._living, signal.SIGTERM, TERMINATE_SECONDS, at_once)
        self._end(self._living, signal.SIGKILL, KILL_SECONDS, lambda: False)

    def ending_first(self) -> list[psutil.Process]:
        """Those that hold a datacenter's lease, and those that were started to end first."""
        holders = {holder_of(state) for state in self.shifts}
        return [p for p in self._living() if p.pid in holders or _ends_first(p)]

    def _living(self) -> list[psutil.Process]:
        return [p for p in psutil.process_iter() if _environment(p).get(MARK) == self.mark]

    def _end(
        self,
        processes: Callable[[], list[psutil.Process]],
        number: int,
        seconds: float,
        at_once: Callable[[], bool],
    ) -> None:
        """Signal each process once, new ones too, until none is left or the time is over."""
        asked: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        found_nobody = 0
        while found_nobody < LOOKS_WITHOUT_A_FIND and not at_once() and time.monotonic() < deadline:
            left = processes()
            for process in set(left) - asked:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    process.send_signal(number)
            asked.update(left)
            found_nobody = 0 if left else found_nobody + 1
            time.sleep(POLL_SECONDS)


def _environment(process: psutil.Process) -> Mapping[str, str]:
    """Empty for a process that has ended, or is somebody else's."""
    try:
        return {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}


def _ends_first(process: psutil.Process) -> bool:
    """Whether it was started to end first. Its children inherit that, but not its session."""
    try:
        return bool(_environment(process).get(ENDS_FIRST)) and os.getsid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def guard() -> None:
    """Wait until standard input closes, then end everything. SIGTERM: end everything at once."""
    mark, *shifts = sys.argv[1:]
    hurried: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: hurried.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while not hurried and not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        pass
    Marked(mark, tuple(map(Path, shifts))).end_all(lambda: bool(hurried))


if __name__ == "__main__":
    guard()
