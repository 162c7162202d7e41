"""`photon compact`: keep tables fit."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from photon.cli.output import (
    UPKEEP_LINE_SECONDS,
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
    showing_progress,
)


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's tables. Without it: those of every datacenter.")
@dry_run_option
@json_option
def compact(pipeline_file: Path, datacenter: str | None, dry_run: bool, as_json: bool) -> None:
    """Rewrite small files of PIPELINE's tables, checkpoint them, and remove what is old, while joins go on.

    No row changes. Data files stay for a week after they left a table, so readers that are open go on. May be
    stopped and run again at any moment.
    """
    with opened(pipeline_file) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.process.clock import SystemClock
        from photon.upkeep.compact import plan_compaction
        from photon.upkeep.plans import carry_out

        done = {
            name: carry_out(partial(plan_compaction, pipeline, name, SystemClock()), dry_run, say)
            for name in chosen(pipeline, datacenter)
        }
    lines = [
        f"{name}: {table}: {one.sentence(dry_run)}"
        for name, tables in done.items()
        for table, one in tables.items()
    ]
    lines += [f"{name}: there is no table yet: it has not joined" for name in done if not done[name]]
    value = {name: {table: asdict(one) for table, one in tables.items()} for name, tables in done.items()}
    print_outcome({"datacenters": value}, lines, dry_run, as_json)
