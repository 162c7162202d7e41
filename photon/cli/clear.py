"""`photon clear`: ids whose row is in the output give up their token in the registry."""

from __future__ import annotations

from pathlib import Path

import click

from photon.cli.output import chosen, json_option, opened, pipeline_argument, print_json


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's rows. Without it: those of every datacenter.")
@click.option("--all", "everything", is_flag=True, help="Look at all rows, not only at new ones.")
@json_option
def clear(pipeline_file: Path, datacenter: str | None, everything: bool, as_json: bool) -> None:
    """Shrink what the registry stores of ids whose row is in the output of PIPELINE, while joins go on.

    Who owns an id stays known. An endpoint that is down keeps its tokens: --all gets them afterwards. May be
    stopped and run again at any moment.
    """
    with opened(pipeline_file) as pipeline:
        from dataclasses import asdict

        from photon.registry.open import open_registry
        from photon.registry.operations.init import find_registry
        from photon.upkeep.clear import clear_output

        names = chosen(pipeline, datacenter)
        registry = open_registry(find_registry(pipeline))
        done = {name: clear_output(pipeline, name, registry, everything) for name in names}
    if as_json:
        print_json({name: asdict(one) for name, one in done.items()})
        return
    for name, one in done.items():
        click.echo(
            f"{name}: {one.rows:,} rows looked at, {one.ids:,} ids cleared, whose values went from"
            f" {one.bytes_before:,} to {one.bytes_after:,} bytes at each endpoint"
        )
        if one.rows_without_time:
            click.echo(
                f"{name}: {one.rows_without_time:,} rows have no event time: their ids keep their tokens"
            )
