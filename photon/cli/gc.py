"""`photon gc`: forgetting the ids of events that are older than a pipeline keeps them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import DONE, json_option, opened, pipeline_argument, print_json
from photon.errors import NOT_DONE

if TYPE_CHECKING:
    from photon.upkeep.gc import GcResult


@click.command()
@pipeline_argument
@json_option
def gc(pipeline_file: Path, as_json: bool) -> None:
    """Collect the ids of PIPELINE's registry that are older than registry.keep_days, at every endpoint.

    Never past what the last stored verification of every datacenter has seen (photon verify --record, or
    Dagster's). Joins may run meanwhile; may be killed and run again. Exit status 3 if an endpoint did not
    answer: the next pass takes what is left there.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.upkeep.gc import run_gc

        collected = run_gc(pipeline, SystemClock())
    if as_json:
        print_json(collected.as_dict())
    else:
        click.echo(_text(collected))
    sys.exit(DONE if collected.is_done else NOT_DONE)


def _text(collected: GcResult) -> str:
    told = collected.as_dict()
    boundary, before = told["boundary"] or "none", told["boundary_before"] or "none"
    lines = [f"boundary: {boundary} (before: {before}); {collected.because}"]
    for name, one in collected.endpoints.items():
        left = f"; NOT ALL: {one.problem}" if one.problem else ""
        there = "" if one.after is None else f", {one.after.items:,} items of {one.after.bytes:,} bytes left"
        lines.append(
            f"{name}: {one.deleted.items:,} items of {one.deleted.bytes:,} bytes deleted{there}{left}"
        )
    return "\n".join(lines)
