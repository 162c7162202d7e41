"""How the `photon` process begins, before anything slow is imported; `photon.cli.ending` says how it ends.

A command that only asks is to answer at once. Most of its time is imports, and their end.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

_STREAMS = ("stdin", "stdout", "stderr")
# These commands run neither Spark nor a user's adapter, and end within seconds.
ASKING = ("hold", "metrics", "resume", "status", "trace", "ui")
# A thread of Arrow or delta-rs may still run at the end, and abort the process (1 of 25 times). And
# `registry` must not wait for the thread of a question that hangs.
ENDING_AT_ONCE = (*ASKING, "availability", "dead-letters", "follow", "init", "registry", "releases", "sql")


def is_photon() -> bool:
    """Whether this process is the command, and nobody imports it for something else."""
    return bool(sys.argv) and os.path.basename(sys.argv[0]) == "photon"


def let_interrupts_end() -> None:
    """End by Ctrl-C at once, as long as nothing was begun: Python would print where its imports are.

    Where a parent has it ignored, as `nohup` and a shell's `&` do, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def let_interrupts_be_told() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on: what was begun ends in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def open_missing_streams() -> None:
    """Put the null device where a standard stream is closed (`>&-`): Python has None there.

    Also for what is opened later: it would be given the number of a closed stream, and what others print.
    """
    for number, name in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 - stays open


def start_quickly() -> None:
    """Leave out what this process has no use for.

    pyarrow imports pandas with the first list that it is given, to see whether that is a frame: 0.25 of the
    0.95 s of `photon status`. A collection of garbage is 0.04 s, and imports cause three. OpenBLAS starts a
    thread for each core with numpy (0.03 s), and pydantic looks for plugins among all packages (0.01 s).
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.meta_path.insert(0, _WithoutPandas())


def end_quickly(status: int) -> NoReturn:
    """End the process without taking 1,500 modules apart: 0.08 s. The system frees all of it at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(status)


class _WithoutPandas:
    """For this process there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("a command that only asks does without pandas", name=name)
        return None
