"""How the `photon` process begins, before anything slow is imported; `photon.cli.ending` says how it ends."""

from __future__ import annotations

import os
import signal
import sys

_STREAMS = ("stdin", "stdout", "stderr")


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
