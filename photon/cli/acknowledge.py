"""`photon acknowledge`: a person says that he knows what a datacenter has lost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from photon.cli.output import (
    NOTHING_CHANGED,
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_result,
)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@dry_run_option
@json_option
def acknowledge(pipeline_file: Path, datacenter: str, dry_run: bool, as_json: bool) -> None:
    """Say that you know what DATACENTER of PIPELINE has lost: no alarm tells of it any more.

    These are log files that went away unread, and waiting records that are nowhere any more. Files that come
    back are read all the same, and whatever is lost later is told. Run it where the state folder is, beside
    a join or not; elsewhere it ends with 3.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.state.losses import acknowledge_here

        chosen(pipeline, datacenter)
        folder = pipeline.datacenters[datacenter].state
        losses, names = acknowledge_here(folder, SystemClock().now_us(), dry_run)
    lines = [f"{datacenter}: {one}" for one in names]
    if losses:
        lines.insert(0, f"{NOTHING_CHANGED} would be acknowledged" if dry_run else "acknowledged:")
    told = {"dry_run": dry_run, **asdict(losses)}
    print_result(told, "\n".join(lines or [f"{datacenter} has lost nothing anew"]), as_json)
