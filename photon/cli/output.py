"""What all commands say alike: errors and exit statuses, JSON on standard output, logs on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from photon.errors import NOT_DONE, WRONG_USAGE, UserError

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline

DONE, VIOLATION = 0, 1

pipeline_argument: Callable[[Callable[..., Any]], Callable[..., Any]] = click.argument(
    "pipeline_file", metavar="PIPELINE", type=click.Path(path_type=Path)
)
json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output; logs on standard error."
)


def print_json(value: object) -> None:
    """The one JSON object of a command."""
    click.echo(json.dumps(value, indent=2, default=str))


def fail(message: str, status: int) -> NoReturn:
    """End the command with one message."""
    click.echo(f"photon: {message}", err=True)
    sys.exit(status)


def log_to_stderr() -> None:
    """Photon's log messages as plain lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("photon")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def chosen(pipeline: Pipeline, datacenter: str | None) -> list[str]:
    """The datacenters that a command is for: all, or the one named, which there must be."""
    if datacenter is None:
        return list(pipeline.datacenters)
    if datacenter not in pipeline.datacenters:
        known = ", ".join(pipeline.datacenters)
        fail(f"{pipeline.file} has no datacenter {datacenter!r}; expected one of: {known}", WRONG_USAGE)
    return [datacenter]


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turn the errors that a user can mend into one message and an exit status."""
    try:
        yield
    except UserError as error:
        fail(str(error), error.exit_status)
    except OSError as error:
        fail(str(error), NOT_DONE)
