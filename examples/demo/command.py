"""`photon demo`: all of Photon under Dagster on this machine, with a shift that is killed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from photon.cli.output import (
    DONE,
    VIOLATION,
    expected_errors,
    fail,
    json_option,
    print_json,
)
from photon.errors import WRONG_USAGE

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@contextmanager
def _ended_by_ctrl_c(status: int) -> Iterator[None]:
    """Also while modules are imported, which takes a second."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(status)


@click.command()
@click.option(
    "--folder", default="demo", show_default=True, type=click.Path(path_type=Path),
    help="Where everything is; a demo's own folder is emptied.",
)  # fmt: skip
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(min=5),
    help="How long both datacenters join before a shift is killed.",
)  # fmt: skip
@click.option(
    "--port", default=3000, show_default=True, type=click.IntRange(0, 65_535),
    help="Of Dagster's UI; another one if it is taken. 0: any.",
)  # fmt: skip
@click.option(
    "--stay", is_flag=True, help="Live traffic until Ctrl-C, on what is in the folder; nothing is killed."
)
@json_option
def demo(folder: Path, seconds: float, port: int, stay: bool, as_json: bool) -> None:
    """Two datacenters join live logs under Dagster; one is killed, and comes back; all is verified.

    Dagster, its UI, the registry and the traffic are started and ended with this command. Exit status 0
    only if the verification holds; 130 for Ctrl-C (with --stay: 0).
    """
    if not math.isfinite(seconds):
        fail(f"--seconds: expected a number of seconds, got {seconds}", WRONG_USAGE)
    with expected_errors(), _ended_by_ctrl_c(DONE if stay else INTERRUPTED):
        from examples.demo.demo import Wishes, run_demo, run_live

        wishes = Wishes(folder, seconds, port)
        if stay:
            run_live(wishes)
        else:
            summary = run_demo(wishes)
    if as_json:
        print_json(summary.as_dict())
    else:
        click.echo(summary.text())
    sys.exit(DONE if summary.verdict.holds else VIOLATION)
