"""`photon unmatched`: write the primaries that no foreign event was joined with."""

from __future__ import annotations

from pathlib import Path

import click

from photon.cli.output import (
    UPKEEP_LINE_SECONDS,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
    showing_progress,
)


@click.command()
@pipeline_argument
@click.option("--anew", is_flag=True, help="Look at all primaries again, also at those that were looked at.")
@dry_run_option
@json_option
def unmatched(pipeline_file: Path, anew: bool, dry_run: bool, as_json: bool) -> None:
    """Write PIPELINE's primaries that no foreign event was joined with to the table `unmatched`.

    A primary is due `unmatched.after` behind its own time, once logs are read that far. One datacenter writes
    the table, and the command runs where that one is. It may be stopped and run again at any moment.
    """
    with opened(pipeline_file, asks_registry=True) as pipeline, showing_progress(UPKEEP_LINE_SECONDS) as say:
        from photon.process.clock import SystemClock
        from photon.registry.opening import open_reader
        from photon.unmatched.run import find_unmatched

        say("looking for primaries that no row names")
        found = find_unmatched(pipeline, open_reader(pipeline), SystemClock(), anew, dry_run)
    print_outcome(found.as_dict(), found.sentences(dry_run), dry_run, as_json)
