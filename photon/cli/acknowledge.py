"""`photon acknowledge`: a person says that he knows what a datacenter has lost, and of its bad records."""

from __future__ import annotations

from pathlib import Path

import click

from photon.cli.output import (
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
)

LATE = (
    "Files that are read after all join as long as the registry keeps the ids of their time "
    "(registry.keep_days). Later, events that are older than the ids it keeps count as joined, without a row."
)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@dry_run_option
@json_option
def acknowledge(pipeline_file: Path, datacenter: str, dry_run: bool, as_json: bool) -> None:
    """Say that you know what DATACENTER of PIPELINE has lost: no alarm tells of it any more.

    These are log files that went away unread, and waiting records that are nowhere any more; and records that
    are dead letters, too old, or found no primary event. All of them stay as they are: files that come back
    are read, records that are mended are joined. What comes later is told. Run it where the state folder
    is, beside a join or not; elsewhere it ends with 3.
    """
    with opened(pipeline_file) as pipeline:
        from photon.process.clock import SystemClock
        from photon.state.losses import plan_acknowledgement
        from photon.upkeep.plans import carry_out

        chosen(pipeline, datacenter)
        folder = pipeline.datacenters[datacenter].state
        found = carry_out(lambda: plan_acknowledgement(folder, SystemClock().now_us()), dry_run)
    lines = [f"{datacenter}: there is nothing that is not acknowledged yet"]
    if found:
        lines = ["would be acknowledged:" if dry_run else "acknowledged:"]
        lines += [f"{datacenter}: {one}" for one in found.names]
        if any(one.state != "gone" for one in found.losses.unread):
            lines.append(LATE)
    print_outcome(found.as_dict(), lines, dry_run, as_json)
