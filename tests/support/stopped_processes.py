"""Processes that stand still for the length of a `with`, as one does that somebody stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from photon.process.operating_system import is_stopped


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """Keep a process under SIGSTOP; it goes on afterwards."""
    os.kill(process, signal.SIGSTOP)
    try:
        while not is_stopped(process):
            time.sleep(0.01)  # until the system has stopped it: there is no clock to inject
        yield
    finally:
        os.kill(process, signal.SIGCONT)
