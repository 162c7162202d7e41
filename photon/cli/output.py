"""Shared by all commands: errors and exit statuses, JSON on standard output, logs on standard error."""

from __future__ import annotations

import io
import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from photon.cli.ending import Ending, current_ending, fail, is_redrawn, line_start, say
from photon.process.environment import environment_lack
from photon.process.errors import NOT_DONE, WRONG_USAGE, UserError
from photon.process.extras import need_extra_of
from photon.process.pace import seldom
from photon.process.readable import harmless

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.pipeline.location import Location

log = logging.getLogger(__name__)

DONE, VIOLATION = 0, 1
UPKEEP_LINE_SECONDS = 10.0  # between two lines of a log that say how far upkeep is

DEFAULT_PIPELINE_FILE = Path("pipeline.yaml")


def pipeline_file_of(ctx: click.Context, _: click.Parameter, given: Sequence[Path]) -> Path:
    """Take the pipeline file that is named, else the default one. Ends the command if there is neither."""
    if len(given) > 1:
        raise click.UsageError(f"expected one pipeline file, got {len(given)}: {', '.join(map(str, given))}")
    if not (given or DEFAULT_PIPELINE_FILE.exists() or ctx.resilient_parsing):
        fail(
            f"there is no {DEFAULT_PIPELINE_FILE} in {Path.cwd()}: name the pipeline file, as in "
            f"{_typed_with_a_file(ctx)}, or write one for logs that are there: photon init PRIMARY FOREIGN",
            WRONG_USAGE,
            ctx.obj,
        )
    return given[0] if given else DEFAULT_PIPELINE_FILE


def _typed_with_a_file(ctx: click.Context) -> str:
    """The command as it was typed, with a pipeline file in its place."""
    path = ctx.command_path.split()
    words = ctx.obj.words[len(path) - 1 :] if isinstance(ctx.obj, Ending) else ()
    return shlex.join((*path, "folder/my.yaml", *words))


# Click fills a command's last arguments first, and the file takes what is left before them. So one word of
# `photon hold` is the datacenter, whatever it looks like, and two are the file and the datacenter.
pipeline_argument: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument(
    "pipeline_file",
    metavar="[PIPELINE]",
    nargs=-1,
    type=click.Path(path_type=Path),
    callback=pipeline_file_of,
)
json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output; logs on standard error."
)

WITHIN_SECONDS = 4.0  # with what the command itself takes, people have an answer within five
within_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--within",
    type=click.FloatRange(min=0.1),
    default=WITHIN_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Name what does not answer within so many seconds, and go on without it.",
)
dry_run_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, and change nothing."
)
NOTHING_CHANGED = "dry run, nothing was changed:"  # the lines behind it say what would be done


def print_result(value: object, text: str, as_json: bool) -> None:
    """The result of a command: `value` as its one JSON object, or `text` for people."""
    say(json.dumps(value, indent=2, default=str) if as_json else text)
    current_ending().has_printed = True


def print_outcome(value: Mapping[str, Any], lines: Iterable[str], dry_run: bool, as_json: bool) -> None:
    """Print what a verb has done, or would do in a dry run, which the first line says.

    A verb on several datacenters puts what it did to each below "datacenters".
    """
    told = [NOTHING_CHANGED, *lines] if dry_run else lines
    print_result({"dry_run": dry_run, **value}, "\n".join(told), as_json)


class TerminalBytes(io.RawIOBase):
    """Standard output as a file of bytes, for a terminal: it shows control characters, and obeys none."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.stdout.fileno()

    def write(self, data: Any) -> int:
        sys.stdout.write(harmless(bytes(data).decode(errors="backslashreplace")))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def standard_output() -> BinaryIO:
    """Standard output, for rows in the format that a program reads: as they are, unless people see them."""
    return cast(BinaryIO, TerminalBytes()) if sys.stdout.isatty() else sys.stdout.buffer


class LineFormatter(logging.Formatter):
    """A log record as lines. A terminal obeys only their beginning, which Photon writes itself."""

    def format(self, record: logging.LogRecord) -> str:
        return line_start() + harmless(super().format(record))


def log_to_stderr() -> None:
    """Photon's log messages as plain lines on standard error.

    Of the registry's messages a terminal shows warnings only: hiccups of endpoints are for a log.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("photon")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    is_screen = sys.stderr.isatty()
    logging.getLogger("photon.registry").setLevel(logging.WARNING if is_screen else logging.NOTSET)


def shows_line() -> bool:
    """Whether people watch progress in one line; a program that reads --json from a pipe has log lines."""
    return is_redrawn() and (sys.stdout.isatty() or not current_ending().as_json)


@contextmanager
def showing_progress(every_seconds: float = 0.0, plain: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what is going on: one line on a terminal, elsewhere log lines, at most one in `every_seconds`.

    `plain`: log lines on a terminal too. A child logs on when its parent and the terminal are gone.
    """
    if shows_line() and not plain:
        from rich.console import Console
        from rich.text import Text  # a plain string may hold what rich takes for markup

        console = Console(stderr=True)  # which heeds NO_COLOR
        with console.status("") as status:

            def show(text: str) -> None:
                line = Text(harmless(f"{text} ..."))
                # The text has to fit one line, beside the spinner: a log line clears no more.
                line.truncate(console.width - 2, overflow="ellipsis")
                status.update(line)

            yield show
        return
    yield seldom(log.info, every_seconds)


def chosen(pipeline: Pipeline, datacenter: str | None) -> list[str]:
    """All datacenters, or only the one named. Ends the command if there is none of that name."""
    if datacenter is None:
        return list(pipeline.datacenters)
    if datacenter not in pipeline.datacenters:
        known = ", ".join(pipeline.datacenters)
        fail(f"{pipeline.file} has no datacenter {datacenter!r}; expected one of: {known}", WRONG_USAGE)
    return [datacenter]


@contextmanager
def opened(pipeline_file: Path, asks_registry: bool = False) -> Iterator[Pipeline]:
    """Load a command's pipeline, send logs to standard error, and tell errors as all commands do.

    `asks_registry`: the command needs the registry first, so it ends soon if the registry hangs.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.pipeline.file import load_pipeline
        from photon.registry.opening import close_registries_soon

        try:
            pipeline = load_pipeline(pipeline_file)
            if asks_registry:
                from photon.dispatcher.shift.people import ask_first

                ask_first(pipeline)
            yield pipeline
        finally:
            close_registries_soon()


@contextmanager
def expected_errors(pipeline_file: Path | None = None) -> Iterator[None]:
    """Turn the errors that a user can mend into one message and an exit status.

    `pipeline_file`: the message names the full disks among its folders.
    """
    try:
        yield
    except UserError as error:
        fail(str(error), error.exit_status)
    except ModuleNotFoundError as error:
        with expected_errors():
            need_extra_of(error)
        raise
    except BrokenPipeError:  # nobody reads what is printed
        raise
    except OSError as error:
        if (lack := environment_lack(error)) is not None:
            fail(str(lack), NOT_DONE)
        from photon.storage.full_disks import full_among, is_without_room, why_not

        full = full_among(*_folders(pipeline_file)) if is_without_room(error) else []
        if is_without_room(error) and not full and error.filename is None:
            raise  # standard output is on a full disk
        fail(why_not(error, *(full or [Path(str(error.filename))])), NOT_DONE)


def _folders(pipeline_file: Path | None) -> list[Location]:
    """Where a command may write: all folders of a pipeline, and where the command is typed."""
    from photon.pipeline.file import load_pipeline

    found: list[Location] = [Path.cwd()]
    with suppress(Exception):  # the error that is told comes first
        pipeline = load_pipeline(pipeline_file or Path())
        places = pipeline.datacenters.values()
        found += [pipeline.registry_folder, *(one for place in places for one in (place.state, place.lake))]
    return found
