"""Processes that all end when this one does, however it ends: the demo's side of `supervisor`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from examples.demo.supervisor import DRAIN_SECONDS, KILL_SECONDS, TERMINATE_SECONDS, Order

# All steps of the end, and some time in which a busy machine gets to them.
END_SECONDS = DRAIN_SECONDS + TERMINATE_SECONDS + KILL_SECONDS + 10.0


@dataclass(frozen=True)
class Ended:
    """A process that has ended; `status` as `subprocess` has it, negative for a signal."""

    name: str
    status: int


SUPERVISOR = "supervisor"
MARK = "PHOTON_DEMO"  # in the environment of all that belongs to one tree


def end_marked(mark: str) -> None:
    """kill -9 everything with this mark, until nothing with it is left."""
    while left := [process for process in psutil.process_iter() if _has(process, mark)]:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=KILL_SECONDS)


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


class ProcessTree:
    """A context manager: whatever was started in it has ended when it is left.

    `shifts`: state folders of the datacenters whose shifts are asked to stop before all else. `keep_open`:
    file descriptors, such as locks, that stay open until the last process has ended.
    """

    def __init__(self, shifts: Iterable[Path] = (), keep_open: Iterable[int] = ()) -> None:
        self._mark = uuid.uuid4().hex
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "examples.demo.supervisor", *map(str, shifts)],
            env={**os.environ, MARK: self._mark},  # which all that it starts inherits
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=tuple(keep_open),
            start_new_session=True,  # out of reach of the terminal's Ctrl-C
        )
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._orders, self._answers = self._supervisor.stdin, self._supervisor.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._unfinished = b""

    def __enter__(self) -> ProcessTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, order: Order) -> None:
        """Have a process started. One that can't be is among those that `ended`, with status 127."""
        with contextlib.suppress(BrokenPipeError):  # the supervisor is gone: `ended` says so
            self._orders.write(order.as_line())
            self._orders.flush()

    def ended(self) -> list[Ended]:
        """What has ended since the last call; the supervisor itself among it, if it was killed."""
        with contextlib.suppress(BlockingIOError):
            self._unfinished += os.read(self._answers.fileno(), 65_536)
        *lines, self._unfinished = self._unfinished.split(b"\n")
        answers = (json.loads(line) for line in lines)
        ended = [Ended(answer["ended"], answer["status"]) for answer in answers]
        status = self._supervisor.poll()
        return ended if status is None else [*ended, Ended(SUPERVISOR, status)]

    def close(self) -> None:
        """End everything in order, and wait until nothing is left: some seconds."""
        with contextlib.suppress(BrokenPipeError):
            self._orders.close()
        try:
            if self._supervisor.wait(END_SECONDS) != 0:  # it was killed itself, and what it started goes on
                end_marked(self._mark)
        finally:
            self._answers.close()

    def hurry(self) -> None:
        """Have everything ended at once; `close` waits for it. Fit for a signal handler."""
        self._supervisor.terminate()
