"""Ending a long asset in order: signals ask for a stop, and the asset ends between two pieces of its work.

Dagster ends a run by an interrupt, which would come in the middle of a batch. Nothing would be lost, but the
next start would have to settle what was left.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dagster import AssetExecutionContext, DagsterExecutionInterruptedError, DagsterRunStatus


class Drain:
    """Whether a stop was asked for."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Take a signal: the first asks for a stop, the second ends at once, wherever the run is."""
        if self._asked:
            raise DagsterExecutionInterruptedError
        self._asked = True


@contextmanager
def draining() -> Iterator[Drain]:
    """Inside, SIGINT and SIGTERM only ask. What a run ends as, where one did, is for the asset to say.

    Outside the main thread signals can't be taken: there it does nothing.
    """
    drain = Drain()
    if threading.current_thread() is not threading.main_thread():
        yield drain
        return
    before = {number: signal.signal(number, drain.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield drain
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_canceled(context: AssetExecutionContext) -> bool:
    """Whether it was Dagster that asked, and waits for the run to end as canceled."""
    run = context.instance.get_run_by_id(context.run.run_id)
    return run is not None and run.status is DagsterRunStatus.CANCELING
