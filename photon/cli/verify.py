"""`photon verify`: classify all foreign records anew; print the equations and what is wrong."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    DONE,
    VIOLATION,
    chosen,
    json_option,
    opened,
    pipeline_argument,
    print_result,
    showing_progress,
    table_lines,
)
from photon.errors import NOT_DONE

if TYPE_CHECKING:
    from photon.verification.report import DatacenterReport, Finding, VerificationReport

# Import it only when it is called: it needs Spark.
PROGRAM = "jobs.verification:verify"


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's records. Without it: those of every datacenter.")
@click.option(
    "--record", is_flag=True, help="Store the reports in the lakes, as Dagster does: for photon gc."
)
@json_option
def verify(pipeline_file: Path, datacenter: str | None, record: bool, as_json: bool) -> None:
    """Classify every foreign record that PIPELINE's datacenters have read, and print the equation.

    Reads the raw logs and the tables of all datacenters, with Spark, while joins go on. Exit status 1 if a
    promise is broken: an event is missing, has two rows, or a row says what its logs do not. 3 if a
    datacenter's state can't be read, so that nothing of it is verified.
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import MICROSECONDS, SystemClock
        from photon.verification.stored_reports import append

        clock = SystemClock()
        began_us = clock.now_us()
        names = chosen(pipeline, datacenter)
        module, _, function = PROGRAM.partition(":")
        with showing_progress() as say:
            say("reading what there is to verify")
            report = getattr(importlib.import_module(module), function)(pipeline, names, say)
        if record:
            at_us = clock.now_us()
            append(pipeline, report, at_us, "photon verify", (at_us - began_us) / MICROSECONDS)
    print_result(report.as_dict(), report_text(report), as_json)
    sys.exit(VIOLATION if not report.ok else NOT_DONE if report.not_done else DONE)


def report_text(report: VerificationReport) -> str:
    """The report for people: the equations side by side, then what is wrong and what to do."""
    lines = [*table_lines(report.equations()), f"rows of all datacenters: {report.rows:,}"]
    for name, one in report.datacenters.items():
        lines += _remarks(name, one)
        for finding in one.findings:
            lines += _finding(name, finding)
    if report.not_done:
        lines.append(f"NOTHING IS VERIFIED of {', '.join(report.not_done)}, see above")
    if not report.ok:
        lines.append("PROMISES ARE BROKEN, see above")
    elif not report.not_done:
        lines.append("no promise is broken")
    return "\n".join(lines)


def _remarks(name: str, report: DatacenterReport) -> list[str]:
    lines = [f"{name}: NOTE {note}" for note in report.notes]
    lines += [
        f"{name}: NOT VERIFIED {file.bytes:,} bytes of the {file.side} log {file.path}: {file.reason}"
        for file in report.unverified
    ]
    earlier = report.verified_earlier
    if earlier.files:
        lines.append(
            f"{name}: {earlier.files:,} foreign logs ({earlier.bytes:,} bytes) can't be read again and were"
            f" verified before, such as {earlier.example}"
        )
    if report.rows_not_compared:
        lines.append(
            f"{name}: {report.rows_not_compared:,} rows not compared: "
            "their logs can't be read again, or their batch was being completed"
        )
    return lines


def _finding(name: str, finding: Finding) -> list[str]:
    word = "VIOLATION" if finding.meaning.violation else "FINDING"
    lines = [f"{name}: {word} {finding.kind}: {finding.count:,} {finding.meaning.says}"]
    lines += [f"    {e.event_id} at {e.where}{': ' if e.detail else ''}{e.detail}" for e in finding.examples]
    if finding.count > len(finding.examples):
        lines.append(f"    and {finding.count - len(finding.examples):,} more")
    return [*lines, f"    what to do: {finding.meaning.remedy}"]
