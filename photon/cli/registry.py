"""`photon registry`: making the registry of a pipeline, and repairing it."""

from __future__ import annotations

from pathlib import Path

import click

from photon.cli.output import expected_errors, json_option, log_to_stderr, pipeline_argument, print_json


@click.group()
def registry() -> None:
    """Make the registry of a pipeline, or repair one of its endpoints."""


@registry.command()
@pipeline_argument
@json_option
def init(pipeline_file: Path, as_json: bool) -> None:
    """Make the registry of PIPELINE, where it is not there: its table, and the register in it.

    Only this command makes tables. It may be repeated, also by several at once.
    """
    log_to_stderr()
    with expected_errors():
        from photon.clock import SystemClock
        from photon.pipeline import load_pipeline
        from photon.registry.init import init_registry

        address = init_registry(load_pipeline(pipeline_file), SystemClock())
    if as_json:
        print_json({"tables": list(address.tables), "endpoints": [str(e) for e in address.endpoints]})
    else:
        places = zip(address.tables, address.endpoints, strict=True)
        tables = ", ".join(f"table {table} at {endpoint}" for table, endpoint in places)
        click.echo(f"registry of {address.pipeline}: {tables}")


@registry.command()
@pipeline_argument
@click.option("--endpoint", "url", required=True, help="URL of the endpoint, as in the pipeline file.")
@json_option
def repair(pipeline_file: Path, url: str, as_json: bool) -> None:
    """Fill an endpoint of PIPELINE's registry that lost its data, was restored, or is new.

    From a majority of the others, while joins go on. May be run again after a failure.
    """
    log_to_stderr()
    with expected_errors():
        from dataclasses import asdict

        from photon.clock import SystemClock
        from photon.pipeline import load_pipeline
        from photon.registry.repair import repair_endpoint

        done = repair_endpoint(load_pipeline(pipeline_file), url, SystemClock())
    if as_json:
        print_json(asdict(done))
    else:
        click.echo(f"{done.endpoint} is repaired: {done.copied} ids copied, {done.mended} mended afterwards")
