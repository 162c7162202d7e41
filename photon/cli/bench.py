"""`photon bench`: measurements of Photon on this machine."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from photon.cli.output import NOT_DONE, fail, json_option, log_to_stderr, print_json


@click.group()
def bench() -> None:
    """Measure Photon on this machine."""


@bench.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to measure.")
@click.option("--primary-per-second", default=1_000.0, show_default=True, help="Of each datacenter's logs.")
@click.option("--foreign-per-second", default=50.0, show_default=True, help="Of each datacenter's logs.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to work; kept. Default: a temporary one."
)
@json_option
def live(
    seconds: float, primary_per_second: float, foreign_per_second: float, folder: Path | None, as_json: bool
) -> None:
    """Two datacenters join live traffic: seconds from the later of two lines written to the row readable.

    Another process reads the tables. A warm-up comes first and is not measured.
    """
    log_to_stderr()
    from photon.testing.live_measurement import MeasurementFailed, measure_live

    with tempfile.TemporaryDirectory(prefix="photon-bench-") as temporary:
        try:
            result = measure_live(
                folder or Path(temporary),
                seconds,
                primary_per_second,
                foreign_per_second,
                progress=lambda text: click.echo(text, err=True),
            )
        except MeasurementFailed as error:
            fail(str(error), NOT_DONE)
    values = {
        **result.latency.as_dict(),
        "generator": asdict(result.generator),
        "exit_status": result.exit_status,
    }
    if as_json:
        print_json(values)
    else:
        for key, value in values.items():
            click.echo(f"{key:22}{value if not isinstance(value, float) else f'{value:.3f}'}")
    sys.exit(result.exit_status)
