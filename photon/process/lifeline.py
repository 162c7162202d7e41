"""Processes that end with the one that starts them, however and whenever that dies.

On Linux the kernel kills them. A new process asks for that between fork and exec, so at no moment does one
live that is not bound. Its parent may have died just before: then the number that the parent handed over is
not that of the process above it any more. A process that looks only later for the number of its parent
finds that of init, and takes init for its parent.

The kernel goes by the thread that starts a process: start one from a thread that lives as long as the process
is to. Elsewhere than on Linux nobody kills it: a process that runs for long asks `is_gone`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# Found before any fork: in the new process another thread's lock on the loader may be held for ever.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def bound_to_this_thread() -> Callable[[], None]:
    """Return a `preexec_fn`: a new process runs it first, to end with the thread that starts it."""
    parent = os.getpid()
    return lambda: end_with(parent)


def end_with(parent: int) -> None:
    """Have this process killed when the process `parent`, which started it, dies; at once if that is gone."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if is_gone(parent):
            os.kill(os.getpid(), signal.SIGKILL)


def is_gone(parent: int) -> bool:
    """Whether the process that started this one, `parent` by its own word, has died."""
    return os.getppid() != parent
