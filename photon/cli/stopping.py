"""SIGINT and SIGTERM: the first asks for a stop after the current batch, the second ends all at once."""

from __future__ import annotations

import os
import signal
from types import FrameType

import click


class StopSignals:
    """Listens from construction on. `asked` is true after the first signal, or when the parent is gone."""

    def __init__(self, with_parent: bool = False) -> None:
        self._asked = False
        self._parent = os.getppid() if with_parent else None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked or (self._parent is not None and os.getppid() != self._parent)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            # Nothing is tidied up: the next start recovers, as after a crash. The JVM ends with its parent.
            os._exit(128 + number)
        self._asked = True
        click.echo("photon: stopping after the current batch; once more to stop at once", err=True)
