"""SIGINT and SIGTERM: the first asks for a stop after the current batch, the second ends all at once."""

from __future__ import annotations

import os
import signal
from types import FrameType

import click


class StopSignals:
    """Listens from construction on for signals, and for the end of the parent."""

    def __init__(self, with_parent: bool = False) -> None:
        self._requested = False
        self._parent = os.getppid() if with_parent else None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def stop_requested(self) -> bool:
        """Whether there was a signal, or the parent is gone."""
        return self._requested or (self._parent is not None and os.getppid() != self._parent)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._requested:
            # Nothing is tidied up: the next start recovers, as after a crash. The JVM ends with its parent.
            os._exit(128 + number)
        self._requested = True
        click.echo("photon: stopping after the current batch; once more to stop at once", err=True)
