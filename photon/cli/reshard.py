"""`photon reshard`: another number of shards for a pipeline's registry."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from photon.cli.output import json_option, opened, pipeline_argument, print_json
from photon.pipeline.file import MOST_SHARDS


@click.command()
@pipeline_argument
@click.argument("shards", type=click.IntRange(1, MOST_SHARDS))
@json_option
def reshard(pipeline_file: Path, shards: int, as_json: bool) -> None:
    """Have SHARDS shards in PIPELINE's registry for all events from its horizon on.

    Nobody waits and nothing is moved: earlier events stay in the shards that they have. Asked again before
    the horizon has passed, the last number counts.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import in_utc
        from photon.registry.operations.resharding import reshard as have_shards

        done = have_shards(pipeline, shards)
    begins = None if done.begins_us is None else in_utc(done.begins_us)
    if as_json:
        print_json({**asdict(done), "begins": begins})
    elif begins is None:
        click.echo(f"{done.shards} shards are in force")
    else:
        click.echo(f"{done.shards} shards for events from {begins} on (before: {done.before})")
