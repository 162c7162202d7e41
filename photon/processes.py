"""Linux's account of a process, and the command that ends it or has it go on."""

from __future__ import annotations

from pathlib import Path

STOPPED = ("T", "t")  # stopped by a signal, or by a debugger
ON_DISK = "D"


def state_of(process: int) -> str:
    """The letter of its state; empty if there is none, or nobody can tell."""
    try:
        # The program's name, in brackets before the letter, may have blanks and brackets itself.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def is_stopped(process: int) -> bool:
    """Whether it was stopped, and goes on only if somebody continues it."""
    return state_of(process) in STOPPED


def what_ends(process: int) -> str:
    """How to end a process of this machine, or to have it go on."""
    state = state_of(process)
    if state in STOPPED:
        return f"process {process} is stopped: kill -CONT {process} has it go on, kill -9 {process} ends it"
    if state == ON_DISK:
        return f"process {process} waits for a disk: kill -9 {process} ends it once that answers"
    return f"kill -9 {process} ends process {process}"
