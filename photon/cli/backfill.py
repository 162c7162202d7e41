"""`photon backfill`: fill in what some days lack, or make their rows again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
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
    from photon.upkeep.backfill.fill import Filled
    from photon.upkeep.backfill.rebuild import RebuildPlan, Rebuilt


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", required=True, help="Whose rows.")
@click.option("--day", help="A UTC day of event times, such as 2026-01-31.")
@click.option("--from", "first", help="In place of --day: the first day, or an hour: 2026-01-31T10:00.")
@click.option("--to", "last", help="The last day, or the hour before which it ends.")
@click.option("--fill/--rebuild", default=True, help="Join what is missing, or make rows again.")
@click.option(
    "--wait", is_flag=True, help="Of a fill: wait until what it orders was taken up, and look again."
)
@dry_run_option
@json_option
def backfill(
    pipeline_file: Path,
    datacenter: str,
    day: str | None,
    first: str | None,
    last: str | None,
    fill: bool,
    wait: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Fill in or rebuild rows of PIPELINE's events of some days, while joins go on.

    --fill verifies, and has the datacenter's dispatcher join what these days lack. --rebuild makes each row
    of the days again from its own two records, with the adapter of today, and replaces those that differ; one
    that can't be made again stays and is told. Killed and started again, it goes on.
    """
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import ask_first, decisions_of
        from photon.process.errors import WrongUsage
        from photon.verification.days import window_of

        (name,) = chosen(pipeline, datacenter)
        window = window_of(day, first, last)
        if window is None:
            raise WrongUsage("of which days? give --day 2026-01-31, or --from and --to")
        if wait and not fill:
            raise WrongUsage("--wait is of a fill: a rebuild orders nothing, and ends when its rows are made")
        ask_first(pipeline)
        decisions_of(pipeline)  # refuses a file that lacks a datacenter
        with showing_progress() as say:
            from photon.jobs import backfill as program  # which needs Spark

            if fill:
                filled = program.fill(pipeline, name, window, dry_run, wait, say)
                value = filled.as_dict()
                text = filled_text(name, filled, dry_run)
            else:
                rebuilt = program.rebuild(pipeline, name, window, dry_run, say, showing_plan(say))
                value, text = rebuilt.as_dict(), rebuilt_text(rebuilt, dry_run)
    print_outcome(value, [text], dry_run, as_json)


def showing_plan(say: Callable[[str], None]) -> Callable[[RebuildPlan], None]:
    """A function that shows a plan before it is carried out."""
    return lambda plan: say(plan_text(plan))


def plan_text(plan: RebuildPlan) -> str:
    """A rebuild's plan in one line, for people."""
    from photon.process.pace import size

    rows = f"{counted(plan.rows, 'row')} in {counted(plan.files, 'file')} ({size(plan.bytes)})"
    return (
        f"{plan.datacenter}: {rows} to be made again, in {counted(plan.pages, 'page')}, in about "
        f"{max(1, plan.estimated_seconds):,.0f} s on idle cores; "
        f"{counted(plan.second_rows, 'row', 'are')} not the first of an event"
    )


def rebuilt_text(done: Rebuilt, dry_run: bool) -> str:
    """A rebuild's outcome, for people."""
    tally, would = done.tally, "would be " if dry_run else ""
    lines = [plan_text(done.plan)]
    lines.append(f"{counted(tally.rows, 'row')} of these days: the same are {tally.same:,}")
    lines.append(f"{tally.replaced:,} {would}replaced")
    lines += [f"{count:,} {would}removed: {why}" for why, count in tally.dropped.items()]
    lines += [f"{count:,} can't be made again and stay: {why}" for why, count in tally.kept.items()]
    lines += [f"    {one.event_id} at {one.occurrence}: {one.why}" for one in done.examples]
    if done.went_on:
        lines.append("this went on with a rebuild that had been stopped")
    lines.append(f"{counted(done.commits, 'commit')}, {done.seconds:,.1f} s")
    return "\n".join(lines)


def filled_text(datacenter: str, done: Filled, dry_run: bool) -> str:
    """The orders of a fill, for people."""
    from photon.upkeep.recovery import recovery_sentences

    classes = ", ".join(f"{count:,} {name}" for name, count in done.report.equation().items() if count)
    lines = [f"{datacenter}: {text}" for text in (done.waits, classes) if text]
    return "\n".join([*recovery_sentences({datacenter: done.recovered}, dry_run), *lines])
