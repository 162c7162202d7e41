"""The processes of `photon join`, one a datacenter, and the signals that stop them.

A process that dies by accident is started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

import click

from photon.cli.ending import line_start
from photon.process.errors import DEFECT
from photon.process.lifeline import bound_to_this_thread, is_gone

RESTARTS = 5  # within RESTARTS_WITHIN_SECONDS; a process that needs more is not started again
RESTARTS_WITHIN_SECONDS = 600.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
POLL_SECONDS = 0.1
STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class EndedProcess:
    """The exit status of a process, negative for a signal, and what it printed."""

    returncode: int
    printed: str


def is_accident(returncode: int) -> bool:
    """Whether another start may go better: a defect ended the process, or a signal other than a stop's."""
    return returncode == DEFECT or (returncode < 0 and -returncode not in STOPPING)


def pause_before_restart(accidents: Sequence[float], now: float) -> float | None:
    """The seconds until the next start, by the seconds at which accidents were; None: do not start again."""
    recent = sum(now - at < RESTARTS_WITHIN_SECONDS for at in accidents)
    if recent > RESTARTS:
        return None
    return float(min(FIRST_PAUSE_SECONDS * 2 ** (recent - 1), LONGEST_PAUSE_SECONDS))


def in_words(returncode: int) -> str:
    """Say how a process ended: with its status, or by its signal."""
    return f"with status {returncode}" if returncode >= 0 else f"by {signal.Signals(-returncode).name}"


@dataclass
class _Child:
    datacenter: str
    command: Sequence[str]
    process: subprocess.Popen[str]
    accidents: list[float] = field(default_factory=list)  # when they were, in seconds of the clock
    starts_at: float | None = None  # when it starts again after an accident, in these seconds
    ended: EndedProcess | None = None


class Children:
    """The processes of all datacenters, which begin at once. Each ends with the thread that starts it."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._is_asked_to_stop = False
        self._signals: list[int] = []  # that `wait` passes on
        self._children = [_Child(name, command, _started(command)) for name, command in commands.items()]

    def pass_on(self, number: int) -> None:
        """Have `wait` send a signal to all processes that run, and start none again.

        A signal handler may call this even while a process is being started.
        """
        self._is_asked_to_stop = True
        self._signals.append(number)

    def wait(self) -> dict[str, EndedProcess]:
        """Wait until every process has ended for good, and return how, by datacenter."""
        while True:
            while self._signals:
                self._send(self._signals.pop(0))
            for child in self._children:
                if child.starts_at is not None:
                    self._start_again_if_due(child, child.starts_at)
                elif child.ended is None and child.process.poll() is not None:
                    self._end_or_start_again(child)
            ended = {child.datacenter: child.ended for child in self._children if child.ended is not None}
            if len(ended) == len(self._children):
                return ended
            time.sleep(POLL_SECONDS)

    def _send(self, number: int) -> None:
        for child in self._children:
            if child.process.poll() is None:
                child.process.send_signal(number)

    def _start_again_if_due(self, child: _Child, starts_at: float) -> None:
        if self._is_asked_to_stop:
            child.ended, child.starts_at = EndedProcess(child.process.returncode, ""), None
        elif self._clock() >= starts_at:
            child.process, child.starts_at = _started(child.command), None

    def _end_or_start_again(self, child: _Child) -> None:
        """Note the end of a process, or when it is started again."""
        code, output = child.process.returncode, child.process.stdout
        assert output is not None
        # A join that ends by a status, as for a file that it can't read, has printed its counts.
        printed = "" if is_accident(code) else output.read()
        output.close()
        if code == 0:
            child.ended = EndedProcess(code, printed)
            return
        line = f"photon: datacenter {child.datacenter} ended {in_words(code)}"
        if is_accident(code) and not self._is_asked_to_stop:
            now = self._clock()
            child.accidents = [*child.accidents[-RESTARTS:], now]
            if (pause := pause_before_restart(child.accidents, now)) is not None:
                child.starts_at = now + pause
                click.echo(f"{line}: starting it again in {pause:g} s", err=True)
                return
            minutes = RESTARTS_WITHIN_SECONDS / 60
            line += f", for the {RESTARTS + 1}th time within {minutes:g} minutes: not started again"
        child.ended = EndedProcess(code, printed)
        click.echo(line, err=True)


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    # The child has a session of its own: so a terminal's Ctrl-C reaches the parent alone, which passes it on
    # once. The child begins with both signals blocked until it listens: else an early one would kill it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        return subprocess.Popen(
            bound_to_this_thread(command), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopSignals:
    """SIGINT and SIGTERM: the first requests a stop after the current batch, the second ends the process."""

    def __init__(self, parent: int | None) -> None:
        """`parent`: the id of the process that started this one, as it said; this one ends with it."""
        self._requested: int | None = None  # the first signal
        self.parent = parent
        self._listen(self._on_signal)

    def stop_requested(self) -> bool:
        """Whether a signal came, or the parent is gone."""
        return self._requested is not None or (self.parent is not None and is_gone(self.parent))

    def pass_on_to(self, children: Children) -> None:
        """Pass each signal on to `children` from now on, and one that came before."""

        def pass_on(number: int, _frame: FrameType | None) -> None:
            children.pass_on(number)

        self._listen(pass_on)
        if self._requested is not None:
            pass_on(self._requested, None)

    def _listen(self, handler: Callable[[int, FrameType | None], None]) -> None:
        for number in STOPPING:
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # blocked by a parent, see `_started`

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._requested is not None:
            # Nothing is tidied up: the next start recovers, as after a crash. The JVM ends with its parent.
            os._exit(128 + number)
        self._requested = number
        with suppress(OSError):  # standard error may be closed; a print could interrupt another print
            told = "photon: stopping after the current batch; once more to stop at once\n"
            os.write(2, f"{line_start()}{told}".encode())
