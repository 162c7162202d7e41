"""`photon verify`: classify all foreign records anew; print the equations and what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
)
from photon.process.errors import NOT_DONE
from photon.process.readable import counted, table_lines, typed

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.verification.days import Window
    from photon.verification.report import DatacenterReport, Finding, VerificationReport


@click.command()
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's records. Without it: those of every datacenter.")
@click.option(
    "--record",
    is_flag=True,
    help="Store reports and results in the lakes, as Dagster does: for photon registry gc, and so that the "
    "next verification reads only what is new.",
)
@click.option("--all", "anew", is_flag=True, help="Read all logs again, also those whose results are kept.")
@click.option("--day", help="Only events of this UTC day, such as 2026-01-31.")
@click.option("--from", "first", help="In place of --day: the first day, or an hour: 2026-01-31T10:00.")
@click.option("--to", "last", help="The last day, or the hour before which it ends.")
@json_option
def verify(
    pipeline_file: Path,
    datacenter: str | None,
    record: bool,
    anew: bool,
    day: str | None,
    first: str | None,
    last: str | None,
    as_json: bool,
) -> None:
    """Classify every foreign record that PIPELINE's datacenters have read, and print the equation.

    Reads the raw logs and the tables of all datacenters while joins go on: with Spark, or in this process if
    there are at most 64 MiB to read. What a recorded verification has settled is read again only where
    something changed. Exit status 1 if a promise is broken: an event is missing, has two rows, or a row says
    what its logs do not. 3 if a datacenter's state or a data file of a table can't be read, so that nothing
    of it is verified.
    """
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import ask_first
        from photon.process.errors import WrongUsage
        from photon.verification.days import window_of

        names, window = chosen(pipeline, datacenter), window_of(day, first, last)
        if window is not None and record:
            raise WrongUsage("--record stores reports of all times: leave out --day, --from and --to")
        ask_first(pipeline)
        if window is None:
            report, more, told = _of_all_times(pipeline, names, record, anew)
        else:
            report, more, told = _of_window(pipeline, names, window, anew), {}, []
    text = "\n".join([report_text(report, pipeline_file), *told])
    print_result({**report.typed(pipeline_file), **more}, text, as_json)
    sys.exit(VIOLATION if not report.ok else NOT_DONE if report.not_done else DONE)


def _of_all_times(
    pipeline: Pipeline, names: Sequence[str], record: bool, anew: bool
) -> tuple[VerificationReport, dict[str, Any], list[str]]:
    """The report, with what else there is to tell: for programs, and in sentences."""
    from photon.jobs.log_copies import compare
    from photon.jobs.verification import verify as verify_logs
    from photon.process.clock import MICROSECONDS, SystemClock
    from photon.verification.availability.report import judge_all
    from photon.verification.example_places import with_places
    from photon.verification.fed_rows import with_fed_rows
    from photon.verification.report import MOST_EXAMPLES
    from photon.verification.stored_reports import append

    clock = SystemClock()
    began_us = clock.now_us()
    with showing_progress() as say:
        say("reading what there is to verify")
        report = verify_logs(pipeline, names, say, keep=record, anew=anew, pages=record)
        names = list(report.datacenters)
        copies = compare(pipeline, names, clock.now_us(), record, say)
        report = with_places(pipeline, copies.added_to(report, MOST_EXAMPLES))
        report = with_fed_rows(pipeline, report, MOST_EXAMPLES)
    if record:
        at_us = clock.now_us()
        append(pipeline, report, at_us, "photon verify", (at_us - began_us) / MICROSECONDS)
    to_judge = report.datacenters if record else {}
    availability = judge_all(pipeline, to_judge, clock.now_us(), "photon verify")
    told = [*copies.problems, *availability.sentences()]
    return report, {"availability": availability.as_dict()}, told


def _of_window(pipeline: Pipeline, names: Sequence[str], window: Window, anew: bool) -> VerificationReport:
    from photon.jobs.verification import verify as verify_logs
    from photon.verification.days import is_closed, watermark_of
    from photon.verification.example_places import with_places
    from photon.verification.report import ReportedWindow

    closed = {name: is_closed(window, watermark_of(pipeline, name)) for name in names}
    with showing_progress() as say:
        say("reading what there is to verify")
        report = verify_logs(pipeline, names, say, anew=anew, window=window)
    closed = {name: closed[name] for name in report.datacenters}
    return replace(with_places(pipeline, report), window=ReportedWindow(window, closed))


def report_text(report: VerificationReport, pipeline_file: Path | str) -> str:
    """The report for people: the equations side by side, then what is wrong and what to do."""
    from photon.verification.unmatched_scope import identity_sentence

    lines = [report.window.sentence()] if report.window is not None else []
    if report.datacenters:
        lines += [*table_lines(report.equations()), f"rows of all datacenters: {report.rows:,}"]
        of_primaries = {name: one.primaries for name, one in report.datacenters.items() if one.primaries}
        lines += [f"{name}: {identity_sentence(found)}" for name, found in of_primaries.items()]
    lines += [
        f"{name} is retired, and never joins again: what was its is verified where it is to be joined"
        for name in report.retired
    ]
    for name, one in report.datacenters.items():
        lines += _remarks(name, one)
        for finding in one.findings:
            lines += _finding(name, finding, report.datacenters, pipeline_file)
    if report.not_done:
        lines.append(f"NOTHING IS VERIFIED of {', '.join(report.not_done)}, see above")
    if not report.ok:
        lines.append("PROMISES ARE BROKEN, see above")
    elif report.datacenters and not report.not_done:
        lines.append("no promise is broken")
    return "\n".join(lines)


def _remarks(name: str, report: DatacenterReport) -> list[str]:
    lines = [f"{name}: NOTE {note}" for note in report.notes]
    lines += [
        f"{name}: NOT VERIFIED {counted(file.bytes, 'byte')} of the {file.side} log {file.path}: "
        f"{file.reason}"
        for file in report.unverified
    ]
    earlier = report.verified_earlier
    if earlier.files:
        lines.append(
            f"{name}: {counted(earlier.files, 'foreign log')} ({counted(earlier.bytes, 'byte')}) can't be "
            f"read again, and had been verified before, such as {earlier.example}"
        )
    if report.rows_not_compared:
        lines.append(
            f"{name}: {counted(report.rows_not_compared, 'row')} not compared: "
            "their logs can't be read again, or their batch was being completed"
        )
    return lines


def _finding(name: str, finding: Finding, told: Collection[str], pipeline_file: Path | str) -> list[str]:
    """The lines on one finding; `told`: the datacenters whose reports are here."""
    word = "VIOLATION" if finding.meaning.violation else "FINDING"
    lines = [f"{name}: {word} {finding.kind}: {finding.number()} {finding.meaning.says}"]
    acting = ", ".join(sorted(finding.acting))
    if finding.is_left_to_others(name) and set(finding.acting) <= set(told):
        return [*lines, f"    {acting} has to act: see there"]
    if set(finding.acting) - {name}:
        lines.append(f"    to act: {', '.join(f'{n} ({c:,})' for n, c in sorted(finding.acting.items()))}")
    lines += [f"    {e.event_id} at {e.where}{': ' if e.detail else ''}{e.detail}" for e in finding.examples]
    if finding.count > len(finding.examples):
        lines.append(f"    and {finding.count - len(finding.examples):,} more")
    return [*lines, f"    what to do: {typed(finding.remedy, pipeline_file, name)}"]
