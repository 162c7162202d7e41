"""`photon compact`: keep tables fit."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from photon.cli.output import (
    NOTHING_CHANGED,
    UPKEEP_LINE_SECONDS,
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_result,
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
        from photon.process.operating_system import come_after_others
        from photon.upkeep.compact import plan_compaction
        from photon.upkeep.plans import carry_out

        come_after_others()
        done = {
            name: carry_out(partial(plan_compaction, pipeline, name, SystemClock()), dry_run, say)
            for name in chosen(pipeline, datacenter)
        }
    files_are, removed = ("files would be", "to be removed") if dry_run else ("files are", "removed")
    lines = [
        f"{name}: {table}: {one.files_before:,} {files_are} {one.files_after:,}; {removed}:"
        f" {one.log_files_removed:,} files of its log, {one.data_files_removed:,} old data files"
        for name, tables in done.items()
        for table, one in tables.items()
    ]
    value = {name: {table: asdict(one) for table, one in tables.items()} for name, tables in done.items()}
    print_result(value, "\n".join([NOTHING_CHANGED, *lines] if dry_run else lines), as_json)
