"""`photon compact`: keep tables fit."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.upkeep.compact import Compacted


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
        f"{name}: {table}: {compacted_text(one, dry_run)}"
        for name, tables in done.items()
        for table, one in tables.items()
    ]
    lines += [f"{name}: there is no table yet: it has not joined" for name in done if not done[name]]
    value = {name: {table: asdict(one) for table, one in tables.items()} for name, tables in done.items()}
    print_outcome({"datacenters": value}, lines, dry_run, as_json)


def compacted_text(done: Compacted, dry_run: bool) -> str:
    """The work on one table, for people."""
    become, remove = ("would become", "to be removed") if dry_run else ("became", "removed")
    files = counted(done.files_before, "data file")
    if done.files_after != done.files_before:
        files += f" {become} {done.files_after:,}"
    removed = [
        counted(count, thing)
        for count, thing in (
            (done.log_files_removed, "old log entry"),
            (done.data_files_removed, "old data file"),
        )
        if count
    ]
    return f"{files}; {remove}: {', '.join(removed) or 'nothing'}"
