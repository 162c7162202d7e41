"""`photon availability`: how many events were readable in time, the error budget, and the slowest events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    chosen,
    expected_errors,
    json_option,
    log_to_stderr,
    pipeline_argument,
    print_result,
)
from photon.process.errors import WrongUsage

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline

MOST_EVENTS = 10


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="With --minute: only this one's events. Without it: those of all.")
@click.option("--minute", help="The slowest events of this minute, in UTC, such as 2026-01-31T10:42.")
@click.option(
    "--most",
    type=click.IntRange(min=1),
    help=f"With --minute: events that are named. [default: {MOST_EVENTS}]",
)
@json_option
def availability(
    pipeline_file: Path, datacenter: str | None, minute: str | None, most: int | None, as_json: bool
) -> None:
    """How many minutes were bad in 28 days, of those that PIPELINE allows, and which were the latest.

    With --minute: its slowest events, each with its file and offset. Minutes are judged by photon verify
    --record and by Dagster. Without Spark, and without the registry; joins may go on.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.pipeline.file import load_pipeline
        from photon.verification.availability.report import report_of

        pipeline = load_pipeline(pipeline_file)
        if minute is not None:
            _print_slowest(
                pipeline, chosen(pipeline, datacenter), minute_of(minute), most or MOST_EVENTS, as_json
            )
            return
        if datacenter is not None or most is not None:
            raise WrongUsage("--datacenter and --most need --minute: without it all events count")
        report = report_of(pipeline)
    lines = report.sentences()
    if bad := report.bad_minutes():
        lines += ["the latest bad minutes:", *(f"  {line}" for line in bad)]
        lines.append(f"  {report.slowest_of(pipeline)} names the slowest events of the last of them")
    print_result(report.as_dict(), "\n".join(lines), as_json)


def _print_slowest(
    pipeline: Pipeline, datacenters: list[str], minute_us: int, most: int, as_json: bool
) -> None:
    from photon.process.clock import in_utc
    from photon.verification.availability.slow_events import slowest_events

    found = {name: slowest_events(pipeline, name, minute_us, most) for name in datacenters}
    lines = []
    for name, events in found.items():
        in_minute = f"{name}: no event became joinable in the minute {in_utc(minute_us, 'minutes')}"
        lines += [f"{name}: the slowest events of {in_utc(minute_us, 'minutes')}:"] if events else [in_minute]
        lines += [f"  {event}" for event in events]
    value = {name: [event.as_dict() for event in events] for name, events in found.items()}
    print_result(value, "\n".join(lines), as_json)


def minute_of(text: str) -> int:
    """When a minute begins, in microseconds; without a zone it is of UTC. WrongUsage."""
    from photon.process.clock import MICROSECONDS, moment_of

    try:
        moment = moment_of(text)
    except ValueError:
        raise WrongUsage(f"--minute {text!r}: expected a minute such as 2026-01-31T10:42") from None
    return int(moment.timestamp()) // 60 * 60 * MICROSECONDS
