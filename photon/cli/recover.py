"""`photon recover`: order dispatchers to look again at what a verification finds missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from photon.cli.ending import fail
from photon.cli.output import (
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
    showing_progress,
)
from photon.process.errors import NOT_DONE, WrongUsage

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.verification.days import Window


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's records. Without it: those of every datacenter.")
@click.option("--recorded", is_flag=True, help="Take the newest stored reports, and verify nothing anew.")
@dry_run_option
@click.option("--dead-letters", is_flag=True, help="Only dead letters: after you mended what they failed on.")
@click.option("--event", "event_id", default="", help="Only what is missing of the event with this id.")
@click.option("--day", help="Only what is missing of a UTC day of event times, such as 2026-01-31.")
@click.option("--reason", default="", help="With --dead-letters: only those whose reason has this text.")
@json_option
def recover(
    pipeline_file: Path,
    datacenter: str | None,
    recorded: bool,
    dry_run: bool,
    dead_letters: bool,
    event_id: str,
    day: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Verify PIPELINE, and have its dispatchers look again at what is missing or given up wrongly.

    The command joins nothing: it leaves work orders in state folders. A datacenter that runs takes them up
    within a moment, one that is stopped at its next start. You may run it again, and while joins go on. With
    --event or --day it still verifies everything, but orders only what is missing of that event or day.
    """
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import ask_first
        from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
        from photon.upkeep.plans import carry_out
        from photon.upkeep.recovery import RecoveryPlan, of_event, recovery_sentences
        from photon.verification.case_pages import remove_pages
        from photon.verification.days import window_of

        names, window = chosen(pipeline, datacenter), window_of(day, None, None)
        if reason and not dead_letters:
            raise WrongUsage("--reason needs --dead-letters: nothing else has a reason")
        if recorded and dead_letters:
            raise WrongUsage("--recorded and --dead-letters: dead letters are in no report; leave one out")
        if dead_letters and (event_id or day):
            raise WrongUsage("--dead-letters with --event or --day: leave one out; --reason chooses letters")
        if recorded and day:
            raise WrongUsage("--recorded and --day: a stored report has no times; leave one out")
        ask_first(pipeline)
        names, retired = _acting(pipeline, names)
        if dead_letters:
            done = {
                name: carry_out(partial(plan_recovery_of_letters, pipeline, name, reason), dry_run)
                for name in names
            }
        else:
            reports = _reports(pipeline, names, recorded, window)
            wanted = of_event(pipeline, reports, event_id) if event_id else reports
            done = carry_out(lambda: RecoveryPlan(pipeline, wanted), dry_run)
            if dry_run and not recorded:
                for name, report in reports.items():
                    remove_pages(pipeline, name, report)
    value = {name: one.as_dict() for name, one in done.items()}
    lines = [f"{name} is retired, and never joins again: the others join what was its" for name in retired]
    print_outcome({"datacenters": value}, [*lines, *recovery_sentences(done, dry_run)], dry_run, as_json)


def _acting(pipeline: Pipeline, names: list[str]) -> tuple[list[str], list[str]]:
    """The datacenters that may have to join what is missing, and those that people have retired."""
    from photon.dispatcher.shift.people import decisions_of

    retired = decisions_of(pipeline).retired
    return [name for name in names if name not in retired], [name for name in names if name in retired]


def _reports(
    pipeline: Pipeline, names: list[str], recorded: bool, window: Window | None
) -> Mapping[str, Mapping[str, Any]]:
    if recorded:
        from photon.verification.stored_reports import newest

        stored = newest(pipeline, names)
        if lacking := [name for name in names if name not in stored]:
            fail(
                f"no verification of {', '.join(lacking)} was recorded, so nobody knows what is missing; run "
                f"first: photon verify {pipeline.typed} --record",
                NOT_DONE,
            )
        return {name: one.report for name, one in stored.items()}
    from photon.jobs.verification import reports_for_recovery

    with showing_progress() as say:
        say("reading what there is to verify")
        return reports_for_recovery(pipeline, names, say, window)
