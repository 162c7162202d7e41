"""Commands on a whole datacenter: `photon hold`, `photon resume`, `photon retire`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    UPKEEP_LINE_SECONDS,
    json_option,
    opened,
    pipeline_argument,
    print_result,
    showing_progress,
)

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.upkeep.retire import Retired


@click.command()
@pipeline_argument
@click.argument("datacenter")
@json_option
def hold(pipeline_file: Path, datacenter: str, as_json: bool) -> None:
    """Keep DATACENTER of PIPELINE from running, for planned work. The others take over its share at once.

    A process that runs it ends within seconds, before its next batch; none starts until photon resume.
    """
    says = f"datacenter {datacenter} is on hold: a process that runs it ends within seconds"
    _hold(pipeline_file, datacenter, True, says, as_json)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@json_option
def resume(pipeline_file: Path, datacenter: str, as_json: bool) -> None:
    """Let DATACENTER of PIPELINE run again, after photon hold."""
    _hold(pipeline_file, datacenter, False, f"datacenter {datacenter} may run again: start it", as_json)


def _hold(pipeline_file: Path, datacenter: str, is_held: bool, says: str, as_json: bool) -> None:
    with opened(pipeline_file) as pipeline:
        from photon.cli.output import chosen
        from photon.dispatcher.shift.people import decisions_of
        from photon.registry.opening import find_registry, positions_at
        from photon.registry.register import with_hold

        chosen(pipeline, datacenter)
        decisions_of(pipeline)  # refuses a file that lacks a datacenter
        positions = positions_at(find_registry(pipeline))
        on_hold = positions.change(lambda now: with_hold(now, datacenter, is_held)).on_hold
    print_result({"on_hold": list(on_hold)}, says, as_json)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@click.option("--lake-is-gone", is_flag=True, help="Its rows are lost too: they count no more.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
def retire(pipeline_file: Path, datacenter: str, lake_is_gone: bool, dry_run: bool, as_json: bool) -> None:
    """Give DATACENTER of PIPELINE up for good: it never runs again under this name.

    Its rows stay, and events that it registered without a row are free for the others. With --lake-is-gone
    its rows don't count any more, and all of its events are free; refused while its lake can be read. May be
    killed and run again.
    """
    with opened(pipeline_file) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.registry.opening import open_reader
        from photon.upkeep.plans import carry_out
        from photon.upkeep.retire import plan_retire

        done = carry_out(
            lambda: plan_retire(pipeline, open_reader(pipeline), datacenter, lake_is_gone), dry_run, say
        )
    told = _in_a_dry_run(datacenter, done) if dry_run else _retired(pipeline, datacenter, done, lake_is_gone)
    print_result(asdict(done), "\n".join(told), as_json)


def _in_a_dry_run(datacenter: str, would: Retired) -> list[str]:
    lines = [f"dry run, nothing was changed: datacenter {datacenter} would never run again under this name"]
    if would.rows is not None:
        lines.append(f"its {would.rows:,} rows would stay and count; {would.kept:,} ids keep their rows")
    else:
        lines.append("its lake is gone: its rows would count no more")
    return [*lines, f"{would.released:,} ids would be free for the other datacenters"]


def _retired(pipeline: Pipeline, datacenter: str, done: Retired, lake_is_gone: bool) -> list[str]:
    lines = [
        f"datacenter {datacenter} is retired: {done.released:,} ids are free, {done.kept:,} have their rows"
    ]
    if lake_is_gone:
        lines.append(
            "what the others took for joined by it is joined again by recovery: Dagster's next one, or "
            f"photon recover {pipeline.typed}"
        )
    return lines
