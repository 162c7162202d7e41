"""Processes that end with the one that starts them, however and whenever that dies.

On Linux the kernel kills them. A new process runs this file first, which asks for that and then becomes the
command (40 ms). Python between fork and exec would do it sooner, and crash in a process with many libraries:
their threads may have held any lock at the fork. The parent may have died just before: then the number that
it handed over is not that of the process above any more. A process that looks only later for the number of
its parent finds that of init, and takes init for its parent.

The kernel goes by the thread that starts a process: start one from a thread that lives as long as the process
is to. Elsewhere than on Linux nobody kills it: a process that runs for long asks `is_gone`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def bound_to_this_thread(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the command that runs `command` as a process which ends with the thread that starts it."""
    words = [os.fspath(word) for word in command]
    return words if _prctl is None else [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def end_with(parent: int) -> None:
    """Have this process killed when the process `parent`, which started it, dies; at once if that is gone."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if is_gone(parent):
            os.kill(os.getpid(), signal.SIGKILL)


def is_gone(parent: int) -> bool:
    """Whether the process that started this one, `parent` by its own word, has died."""
    return os.getppid() != parent


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]} can't be started: {error.strerror}")
