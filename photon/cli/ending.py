"""How every command ends: its exit status and what is told, whatever ends it.

No command may end otherwise: not by Ctrl-C, not by a reader that is gone, not by a defect.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

import click

from photon.process.environment import environment_lack
from photon.process.errors import DEFECT, NOT_DONE
from photon.process.readable import harmless

INTERRUPTED, NOBODY_READS, TERMINATED = 130, 141, 143  # as a shell counts SIGINT, SIGPIPE and SIGTERM
# A full disk or a lost terminal fails a print with one of these. Errors of opened files have a file name.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@dataclass
class Ending:
    """The state of a command while it runs (`ctx.obj`)."""

    words: Sequence[str] = ()  # as they are typed behind `photon`
    has_printed: bool = False  # the one object of --json is out

    @property
    def as_json(self) -> bool:
        return "--json" in self.words


class InOrder(click.Command):
    """A command, or a group of them, that ends in order whatever ends it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        ending = Ending(tuple(args))
        with in_order(ending):
            return super().make_context(info_name, args, parent, obj=ending, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with in_order(ctx.obj):
            return super().invoke(ctx)


@contextmanager
def in_order(ending: Ending) -> Iterator[None]:
    """End the process for each exception but those that click itself ends in order."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except click.ClickException as error:
        with _dropped_if_unwritable(sys.stdout):
            _print_error(ending, error.format_message(), error.exit_code)
        with _dropped_if_unwritable(sys.stderr):
            error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        fail("interrupted", INTERRUPTED, ending)
    except BrokenPipeError:
        drop(sys.stdout)
        sys.exit(NOBODY_READS)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None:
            drop(sys.stdout)
            ending.has_printed = True
            why = f"{error.strerror}; what was done before stays done"
            fail(f"cannot write to standard output: {why}", NOT_DONE, ending)
        if (lack := environment_lack(error)) is not None:
            fail(str(lack), NOT_DONE, ending)
        sys.stderr.write(harmless(traceback.format_exc()))
        what = traceback.format_exception_only(error)[
            -1
        ].strip()  # some errors can't say themselves what it is
        _print_error(ending, f"a defect of Photon: {what}", DEFECT)
        sys.exit(DEFECT)


def current_ending() -> Ending:
    """The ending of the command under way."""
    context = click.get_current_context(silent=True)
    return context.obj if context is not None and isinstance(context.obj, Ending) else Ending()


def is_redrawn() -> bool:
    """Whether standard error is a terminal on which a line may be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def say(text: str, err: bool = False) -> None:
    """Print lines for people. Keys and file names in them may hold what a terminal would obey."""
    click.echo(harmless(text), err=err)


def line_start() -> str:
    """The beginning of a line of standard error: clear progress, also that of another process."""
    return "\r\x1b[K" if is_redrawn() else ""


def fail(message: str, status: int, ending: Ending | None = None) -> NoReturn:
    """End the command with one message; with --json it is the one object, too."""
    with _dropped_if_unwritable(sys.stderr):
        click.echo(f"{line_start()}photon: {harmless(message)}", err=True)
    with _dropped_if_unwritable(sys.stdout):
        _print_error(ending or current_ending(), message, status)
    sys.exit(status)


def _print_error(ending: Ending, message: str, status: int) -> None:
    if ending.as_json and not ending.has_printed:
        ending.has_printed = True
        click.echo(harmless(json.dumps({"error": message, "exit_status": status}, indent=2)))


@contextmanager
def _dropped_if_unwritable(stream: TextIO) -> Iterator[None]:
    """Where nobody reads it, or its disk is full, the exit status says the rest."""
    try:
        yield
    except OSError:
        drop(stream)


def drop(stream: TextIO) -> None:
    """Drop what is still to be written to a standard stream that takes no more."""
    # The interpreter writes what is left in the buffer when it ends, and would fail.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
