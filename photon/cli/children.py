"""The processes of `photon join`, one a datacenter: one that dies by accident is started again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from photon.errors import DEFECT, NOT_MEANT
from photon.process.lifeline import bound_to_this_thread

RESTARTS = 5  # within so long: with more of them it is no accident
RESTARTS_WITHIN_SECONDS = 600.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
POLL_SECONDS = 0.1
STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Ended:
    """The exit status of a process, negative for a signal, and what it printed."""

    returncode: int
    printed: str


def is_accident(returncode: int) -> bool:
    """Whether another start may go better: a signal that asks for no stop, or a defect."""
    return returncode == DEFECT or (returncode < 0 and -returncode not in STOPPING)


def pause_before_restart(accidents: Sequence[float], now: float) -> float | None:
    """Seconds until the next start after accidents at these times; None: there is none."""
    recent = sum(now - at < RESTARTS_WITHIN_SECONDS for at in accidents)
    if recent > RESTARTS:
        return None
    return float(min(FIRST_PAUSE_SECONDS * 2 ** (recent - 1), LONGEST_PAUSE_SECONDS))


def in_words(returncode: int) -> str:
    """How a process ended."""
    return f"with status {returncode}" if returncode >= 0 else f"by {signal.Signals(-returncode).name}"


@dataclass
class _Child:
    datacenter: str
    command: Sequence[str]
    process: subprocess.Popen[str]
    accidents: list[float] = field(default_factory=list)
    starts_at: float | None = None  # after an accident
    ended: Ended | None = None


class Children:
    """The processes of all datacenters, from construction on. They end with the thread that uses this."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._is_asked_to_stop = False
        self._signals: list[int] = []  # to be passed on
        self._children = [_Child(name, command, _started(command)) for name, command in commands.items()]

    def pass_on(self, number: int) -> None:
        """Have `wait` send a signal to all that run; from then on none is started again.

        A handler of signals may call this while a process is being started.
        """
        self._is_asked_to_stop = True
        self._signals.append(number)

    def wait(self) -> dict[str, Ended]:
        """How each ended, by datacenter, once all have."""
        while True:
            while self._signals:
                self._send(self._signals.pop(0))
            for child in self._children:
                if child.starts_at is not None:
                    self._start_again_if_due(child, child.starts_at)
                elif child.ended is None and child.process.poll() is not None:
                    self._take_note(child)
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
            child.ended, child.starts_at = Ended(child.process.returncode, ""), None
        elif self._clock() >= starts_at:
            child.process, child.starts_at = _started(child.command), None

    def _take_note(self, child: _Child) -> None:
        """Of a process that has ended: whether it is started again."""
        code, output = child.process.returncode, child.process.stdout
        assert output is not None
        if code == 0:
            child.ended = Ended(code, output.read())
            return
        # Its counts show what nobody can have meant.
        printed = output.read() if code == NOT_MEANT else ""
        output.close()
        pause = None
        if is_accident(code) and not self._is_asked_to_stop:
            child.accidents.append(self._clock())
            pause = pause_before_restart(child.accidents, self._clock())
        what = f"photon: datacenter {child.datacenter} ended {in_words(code)}"
        if pause is not None:
            child.starts_at = self._clock() + pause
            click.echo(f"{what}: starting it again in {pause:g} s", err=True)
            return
        child.ended = Ended(code, printed)
        if len(child.accidents) > RESTARTS:
            what += f", for the {len(child.accidents)}th time: not started again"
        click.echo(what, err=True)


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    # In a session of its own, so that a terminal's Ctrl-C comes to the parent and is passed on, once. Until
    # it listens to a signal, the signal is held back: else one that comes at its start would end it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=bound_to_this_thread(),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
