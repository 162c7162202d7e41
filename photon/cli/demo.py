"""`photon demo`: all of Photon under Dagster on this machine, with a shift that is killed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from photon.cli.ending import fail
from photon.cli.output import DONE, VIOLATION, expected_errors, json_option, print_result
from photon.errors import WRONG_USAGE

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

folder_option: Decorator = click.option(
    "--folder", default="demo", show_default=True, type=click.Path(path_type=Path),
    help="Where everything is; a demo's own folder is emptied.",
)  # fmt: skip
seconds_option: Decorator = click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(min=5),
    help="How long both datacenters join before a shift is killed.",
)  # fmt: skip
port_option: Decorator = click.option(
    "--port", default=3000, show_default=True, type=click.IntRange(0, 65_535),
    help="Of Dagster's UI; another one if it is taken. 0: any.",
)  # fmt: skip


@click.command()
@folder_option
@seconds_option
@port_option
@json_option
def demo(folder: Path, seconds: float, port: int, as_json: bool) -> None:
    """Two datacenters join live logs under Dagster; one is killed, and comes back; all is verified.

    Dagster, its UI, the registry and the traffic are started and ended with this command. Exit status 0
    only if the verification holds; 130 for Ctrl-C.
    """
    if not math.isfinite(seconds):
        fail(f"--seconds: expected a number of seconds, got {seconds}", WRONG_USAGE)
    with expected_errors():
        from orchestration.demo.demo import run_demo

        summary = run_demo(folder, seconds, port)
    print_result(summary.as_dict(), summary.text(), as_json)
    sys.exit(DONE if summary.holds else VIOLATION)
