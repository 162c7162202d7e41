"""SIGINT and SIGTERM of a demo: the first ends everything in order, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """While a `with` lasts the first signal is a KeyboardInterrupt, and the next ones call `hurry`."""

    def __init__(self) -> None:
        self.hurry: Callable[[], None] = lambda: None
        self._asked = False

    def __enter__(self) -> Interrupts:
        self._before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            self.hurry()
        else:
            self._asked = True
            raise KeyboardInterrupt
