"""`photon init`: a pipeline file for logs that are there."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from photon.cli.ending import fail, say
from photon.cli.output import (
    dry_run_option,
    expected_errors,
    json_option,
    log_to_stderr,
    print_outcome,
)
from photon.process.errors import NOT_DONE
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.profile.column_roles import Answers, Guess
    from photon.profile.findings import OpenQuestion
    from photon.profile.sample import SideSample
    from photon.profile.trial_join import SideSeen, Trial

UNITS = click.Choice(["s", "ms", "us", "ns", "iso8601"])
NOT_SURE = 1  # nothing was written, and a person has to say what nobody can tell from the logs
SHOWN_REASONS = 3
OUTPUT = "pipeline.yaml"
# A log file that was written to so lately may grow still: few live logs are silent for a minute.
GROWS_SECONDS = 60


@click.command(
    epilog="""\b
Examples:
  photon init logs/queries logs/clicks
  photon init 'logs/ssl/*.csv' 'logs/events/*.csv' --foreign-key key
  photon init queries clicks -d east=logs/east -d west=logs/west
"""
)
@click.argument("primary")
@click.argument("foreign")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=Path(OUTPUT), show_default=True,
    help="The pipeline file to write.",
)  # fmt: skip
@click.option("--name", help="The pipeline's name.  [default: of both logs, such as queries_clicks]")
@click.option(
    "--datacenter", "-d", "datacenters", multiple=True, metavar="NAME=LOGS",
    help="A datacenter and its folder of logs; may be repeated. PRIMARY and FOREIGN are then below it.",
)  # fmt: skip
@click.option("--primary-id", metavar="COLUMN", help="The primary's id; several: a,b.")
@click.option(
    "--primary-time", metavar="COLUMN", help="When the primary event was; day and time of day: a,b."
)
@click.option("--primary-unit", type=UNITS, help="The unit of that time.")
@click.option(
    "--primary-time-format", metavar="FORMAT", help="How that time is written, in strptime's codes."
)
@click.option("--foreign-id", metavar="COLUMN", help="The foreign event's own id; several: a,b.")
@click.option("--foreign-key", metavar="COLUMN", help="The primary id that it belongs to; several: a,b.")
@click.option(
    "--foreign-time", metavar="COLUMN", help="When the foreign event was; day and time of day: a,b."
)
@click.option("--foreign-unit", type=UNITS, help="The unit of that time.")
@click.option(
    "--foreign-time-format", metavar="FORMAT", help="How that time is written, in strptime's codes."
)
@click.option(
    "--force", is_flag=True, help="Write over a pipeline file, or into the folders of tables, that are there."
)
@dry_run_option
@json_option
def init(
    primary: str,
    foreign: str,
    output: Path,
    name: str | None,
    datacenters: tuple[str, ...],
    force: bool,
    dry_run: bool,
    as_json: bool,
    **said: Any,
) -> None:
    """Look at logs PRIMARY and FOREIGN, write a pipeline file for them, and try it on a sample.

    Each is a folder, a file, or a glob in quotes. PRIMARY has what is waited for (queries, impressions),
    FOREIGN what names one of them (clicks, conversions). JSON lines, CSV and TSV are known, also gzipped.
    Where it is not sure it asks; without a terminal it ends with 1, writes nothing, and names the option that
    says it. Ends with 3, and writes nothing, if no row of the sample would join and the key was not named.
    """
    log_to_stderr()
    with expected_errors():
        from photon.profile.new_file import NewFile, places_of
        from photon.profile.proposal import logs_of, pipeline_text, proposed_name, with_window
        from photon.profile.sample import read_sample
        from photon.profile.trial_join import try_join

        name = name or proposed_name(primary, foreign)
        folders, places = places_of(primary, foreign, datacenters)
        new_file = NewFile(output, name, tuple(folders))
        before = new_file.checked(is_tried_only=dry_run, may_write_over=force)
        samples = read_sample("primary", places[0]), read_sample("foreign", places[1])
        found, answers = _guess(samples, _answers(said))
        logs = logs_of(found, *samples, places)
        relative = {one: os.path.relpath(folder, output.absolute().parent) for one, folder in folders.items()}
        longest_bytes = max(sample.longest_bytes for sample in samples)
        leads_out = any(sample.links_lead_out for sample in samples)
        text = pipeline_text(name, relative, before, *logs, longest_bytes, leads_out)
        trial = try_join(*samples, new_file.loaded(text))
        text = with_window(text, trial.ids_used_again)
    is_empty = not trial.joined
    is_written = not dry_run and (not is_empty or answers.foreign_key is not None)
    if is_written:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
    told = {
        "written": str(output) if is_written else None,
        "pipeline": text,
        "findings": [asdict(finding) for finding in found.findings],
        "passed_over": [file for sample in samples for file in sample.passed_over],
        "trial": asdict(trial) | {"key_share": trial.key_share},
    }
    report = _report(text, found, samples, trial)
    problem = _nothing_joins(trial, found) if is_empty else None
    if is_written:
        with expected_errors():
            problem, next_step = _next_step(output, problem)
        report += f"\n\n{output} is written. {next_step}".rstrip()
    print_outcome(told, [report], dry_run, as_json)
    if problem:
        fail(problem, NOT_DONE)


def _next_step(written: Path, problem: str | None) -> tuple[str | None, str]:
    """Say on what a join would fail, or else which command comes next."""
    from photon.logs.columns import check_columns
    from photon.pipeline.file import load_pipeline
    from photon.registry.opening import begin_anew

    pipeline = load_pipeline(written)
    join = _join_command(pipeline, f"photon join {shlex.quote(str(written))}")
    if problem is None and (refused := check_columns(pipeline)):
        problem = "\n".join(refused)
    if problem:
        return problem, ""
    if any(place.exists() for each in pipeline.datacenters.values() for place in (each.lake, each.state)):  # type: ignore[union-attr]
        return (
            None,
            f"There is what was joined before. Next, to begin anew: {begin_anew(pipeline)}; then {join}",
        )
    return None, f"Next: {join}"


def _join_command(pipeline: Pipeline, join: str) -> str:
    """The join that fits the logs: one that follows them where a file was written to just now."""
    from photon.logs.folders import watch_of
    from photon.process.clock import MICROSECONDS, SystemClock

    watches = [
        watch_of(place.logs, log.files, pipeline.tailing.links_lead_out)
        for place in pipeline.datacenters.values()
        for log in (pipeline.primary, pipeline.foreign)
    ]
    written_us = max((file.modified_ns // 1_000 for one in watches for file in one.scan().files), default=0)
    if SystemClock().now_us() - written_us < GROWS_SECONDS * MICROSECONDS:
        return f"{join}, which follows the logs until Ctrl-C. If nothing is added to them: {join} --complete"
    return f"{join} --complete. If lines are still added to the logs: {join}"


def _answers(said: dict[str, Any]) -> Answers:
    from photon.profile.column_roles import Answers

    return Answers(**_as_columns(said))


def _guess(samples: tuple[SideSample, SideSample], answers: Answers) -> tuple[Guess, Answers]:
    """Return what was found out, with the answers of a person at a terminal to each open question."""
    from photon.profile.column_roles import Guess, guess

    while not isinstance(found := guess(*samples, answers), Guess):
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            asked = "\n".join(f"not sure: {question}" for question in found)
            passed_over = "".join(f"\npassed over: {file}" for each in samples for file in each.passed_over)
            fail(asked + passed_over, NOT_SURE)
        for question in found:
            answers = _asked(question, answers)
    return found, answers


def _asked(question: OpenQuestion, answers: Answers) -> Answers:
    """The answers with those of a person to one question."""
    say(f"{question.why}.", err=True)
    for choice in question.choices:
        say(f"  likely: {question.said(choice)}", err=True)
    likeliest = question.choices[0] if question.choices else (None,) * len(question.options)
    said = {
        option.removeprefix("--").replace("-", "_"): click.prompt(option, default=default, err=True)
        for option, default in zip(question.options, likeliest, strict=True)
    }
    return replace(answers, **_as_columns(said))


def _as_columns(said: dict[str, Any]) -> dict[str, Any]:
    """Answers as options take them, with a list of columns for each id, key and time."""
    return {
        name: tuple(value.split(","))
        if value and name in ("primary_id", "primary_time", "foreign_id", "foreign_key", "foreign_time")
        else value
        for name, value in said.items()
    }


def _nothing_joins(trial: Trial, found: Guess) -> str:
    keys = f", such as {', '.join(map(repr, trial.unmatched_keys))}" if trial.unmatched_keys else ""
    return (
        f"no row of the sample would join: of {trial.foreign.events:,} foreign events "
        f"{trial.without_primary:,} have a key in {', '.join(found.foreign_key)} that no primary event of "
        "the sample has in "
        f"{', '.join(found.primary_id)}{keys}, and {trial.without_key:,} have none. "
        "Look whether both logs are of the same time; else say --foreign-key and --primary-id"
    )


def _report(text: str, found: Guess, samples: tuple[SideSample, SideSample], trial: Trial) -> str:
    from photon.adapters import foreign_name
    from photon.profile.column_types import decimal_commas

    lines = [text, *map(str, found.findings), ""]
    lines += [*_side("primary", trial.primary), *_used_again(trial), *_side("foreign", trial.foreign)]
    lines += [f"PASSED OVER {file}" for sample in samples for file in sample.passed_over]
    lines += [
        f"{sample.side}: {name} has decimal commas, and stays text: an adapter makes numbers of them"
        for sample in samples
        for name in decimal_commas(sample)
    ]
    lines += [
        f"foreign: column {name} is stored as {foreign_name(name)}, since Photon uses such names"
        for name in samples[1].columns
        if foreign_name(name) != name
    ]
    conflicting = f" ({trial.conflicting:,} of them with other content)" if trial.conflicting else ""
    whole = "" if trial.primary.is_whole else "; others may be in what was not read"
    lines += [
        f"would join: {trial.joined:,} of {trial.foreign.events:,} foreign events "
        f"({trial.key_share:.1%} of the keys are in the primary's sample{whole})",
        f"would not: {trial.without_primary:,} without a primary, {trial.without_key:,} without a key, "
        f"{counted(trial.foreign.duplicates, 'duplicate')}{conflicting}, "
        f"{counted(sum(trial.foreign.dead_letters.values()), 'dead letter')}",
    ]
    if trial.example:
        lines.append("a row: " + ", ".join(f"{k} {v!r}" for k, v in trial.example.items()))
    return "\n".join(lines)


def _used_again(trial: Trial) -> list[str]:
    """Ids of primaries that come again, and the rows of which it is doubtful which primary they name."""
    from photon.profile.ids_used_again import said

    if (again := trial.ids_used_again) is None:
        return []
    apart = f"{said(again.shortest_us)} to {said(again.longest_us)} apart"
    first = f"  {again.ids:,} of {again.of_ids:,} primary ids are used again for other content, {apart}"
    if again.lookup_window is None:
        return [
            first,
            f"  DOUBTFUL: no retry.lookup_window below half of that holds enough pairs: {again.doubtful:,} "
            f"of {counted(trial.joined, 'row')} have several primaries to choose from, and the nearest joins."
            " Expected an id that no other primary event has, such as one of several columns: --primary-id "
            "a,b with --foreign-key a,b",
        ]
    return [
        first,
        f"  retry.lookup_window: {again.lookup_window} is below half of that, so that no row has two to "
        f"choose from. Farther from their primary, and not joined: {counted(again.beyond, 'foreign event')}",
    ]


def _side(name: str, seen: SideSeen) -> list[str]:
    read = "all of them" if seen.is_whole else "a sample of them"
    order = f"{seen.out_of_order:.1%} out of order, by {seen.latest_by_seconds:,.1f} s at most"
    lines = [
        f"{name}: {counted(seen.files, 'file')}, {read} read: {counted(seen.events, 'event')}, "
        f"{counted(seen.duplicates, 'duplicate')}, {order}, "
        f"the longest record has {counted(seen.longest_bytes, 'byte')}"
    ]
    reasons = list(seen.dead_letters.items())
    lines += [f"  {counted(count, 'dead letter')}: {reason}" for reason, count in reasons[:SHOWN_REASONS]]
    if others := reasons[SHOWN_REASONS:]:
        more = sum(count for _, count in others)
        lines.append(f"  {counted(more, 'dead letter')} for {counted(len(others), 'other reason')}")
    return lines
