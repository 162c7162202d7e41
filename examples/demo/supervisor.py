"""The process above all processes of a demo: it starts them, and ends every one when the demo is gone.

It reads orders from standard input, one JSON object a line (`Order`), and writes `{"ended": NAME, "status":
N}` when a process that it started ends. When standard input closes, for the demo ended or was killed, it ends
everything in order; SIGTERM makes it end everything at once. Who gives the orders is `process_tree`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from photon.shift.lease import holder_of

# A shift that is asked to stop ends its batch, tells Dagster and stops Spark: 2 s, more on a busy machine.
DRAIN_SECONDS = 10.0
TERMINATE_SECONDS = 5.0  # Dagster's processes and the registry leave within two
KILL_SECONDS = 5.0  # a killed process goes as soon as the kernel gets to it
POLL_SECONDS = 0.1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Order:
    """Start one process; its output is added to `log`."""

    name: str
    command: tuple[str, ...]
    folder: str
    log: str
    environment: dict[str, str]
    ends_first: bool = False  # it would start others anew while those are being ended

    def as_line(self) -> bytes:
        """The order as the supervisor reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Supervisor:
    """Starts processes, reaps them, ends them all. `shifts`: state folders whose lock holders drain first."""

    def __init__(self, shifts: Iterable[Path] = (), say: Callable[[str], None] = print) -> None:
        self._shifts = tuple(shifts)
        self._say = say
        self._started: dict[int, tuple[Order, subprocess.Popen[bytes]]] = {}  # by process id
        self._at_once = False
        _become_subreaper()

    def hurry(self, *_: object) -> None:
        """From now on nothing is waited for: also a signal handler."""
        self._at_once = True

    def serve(self, orders: int) -> None:
        """Carry out the orders of a file descriptor until it closes."""
        unfinished = b""
        while not self._at_once:
            if select.select([orders], [], [], POLL_SECONDS)[0]:
                received = os.read(orders, 65_536)
                if not received:
                    return
                *lines, unfinished = (unfinished + received).split(b"\n")
                for line in lines:
                    self._start(Order(**json.loads(line)))
            for name, status in self._reap():
                self._say(json.dumps({"ended": name, "status": status}))

    def end_all(self) -> None:
        """End everything below this process: shifts first, then with SIGTERM, then with SIGKILL."""
        first = {
            pid for pid, (order, _) in self._started.items() if order.ends_first
        } | self._shift_processes()
        self._end(lambda: [p for p in self._descendants() if p.pid in first], signal.SIGTERM, DRAIN_SECONDS)
        self._end(self._descendants, signal.SIGTERM, TERMINATE_SECONDS)
        self._at_once = False  # this step is short, and leaves nobody
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._end(self._descendants, signal.SIGKILL, KILL_SECONDS)

    def _start(self, order: Order) -> None:
        with open(order.log, "ab") as log:
            try:
                process = subprocess.Popen(
                    order.command, cwd=order.folder, env={**os.environ, **order.environment},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
            except OSError as error:
                log.write(f"{order.command[0]} can't be started: {error}\n".encode())
                self._say(json.dumps({"ended": order.name, "status": 127}))
                return
        self._started[process.pid] = (order, process)

    def _reap(self) -> Iterator[tuple[str, int]]:
        """Bury all that has ended, adopted ones too; name and status of those that were ordered."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._started:
                order, process = self._started.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                yield order.name, process.returncode

    def _shift_processes(self) -> set[int]:
        holders = {holder_of(state) for state in self._shifts}
        return {process.pid for process in self._descendants() if process.pid in holders}

    def _descendants(self) -> list[psutil.Process]:
        for _ in self._reap():
            pass
        return [process for process in psutil.Process().children(recursive=True) if _lives(process)]

    def _end(self, processes: Callable[[], list[psutil.Process]], number: int, seconds: float) -> None:
        """Signal each of them once, also those that appear meanwhile, until none is left or time is over."""
        asked: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        while not self._at_once and (left := processes()) and time.monotonic() < deadline:
            for process in left:
                if process not in asked:
                    asked.add(process)
                    _signal(process, number)
            time.sleep(POLL_SECONDS)


def _become_subreaper() -> None:
    """On Linux, have processes whose parents are gone come to this one, so that it still knows them."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: int) -> None:
    # It may have ended just now, or run as somebody else.
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(number)


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more: standard input closes next
        print(text, flush=True)


def main() -> None:
    """Serve standard input; arguments are the state folders of the datacenters."""
    supervisor = Supervisor(map(Path, sys.argv[1:]), _say)
    signal.signal(signal.SIGTERM, supervisor.hurry)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the demo
    try:
        supervisor.serve(sys.stdin.fileno())
    finally:
        supervisor.end_all()


if __name__ == "__main__":
    main()
