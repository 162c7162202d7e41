"""`photon dead-letters`: what could not be used and why; mend it, and have it looked at again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
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
    print_result,
)
from photon.process.errors import WRONG_USAGE
from photon.process.readable import counted, readable

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.upkeep.dead_letters.mending import MendedLine, Mending

MOST_SHOWN = 20


@click.command("dead-letters")
@pipeline_argument
@click.option("--datacenter", "-d", help="Only this one's. Without it: those of every datacenter.")
@click.option("--reason", default="", help="Only those whose reason has this text.")
@click.option(
    "--most", default=MOST_SHOWN, show_default=True, type=click.IntRange(min=0), help="How many are shown."
)
@click.option("--mend", "function", metavar="MODULE:FUNCTION", help="Mend each line by this function.")
@click.option(
    "--mend-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Mend the lines that this file names, as --export writes it.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write them to this new file, to be edited and given back by --mend-file.",
)
@dry_run_option
@json_option
def dead_letters(
    pipeline_file: Path,
    datacenter: str | None,
    reason: str,
    most: int,
    function: str | None,
    mend_file: Path | None,
    export: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List the dead letters of PIPELINE's foreign logs, or mend them.

    A function gets the line as bytes and the reason, and returns the mended line, or None to leave it. What
    is a record then is looked at again in its place by the datacenter's dispatcher, also while it runs. What
    an adapter failed on needs no mended line: photon recover --dead-letters.
    """
    if sum(option is not None for option in (function, mend_file, export)) > 1:
        raise click.UsageError("expected one of --mend, --mend-file and --export")
    if dry_run and function is None and mend_file is None:
        raise click.UsageError("--dry-run goes with --mend or --mend-file: without them nothing is ordered")
    with opened(pipeline_file) as pipeline:
        names = chosen(pipeline, datacenter)
        if export is not None:
            print_result(*_export(pipeline, names, reason, export), as_json)
        elif function is None and mend_file is None:
            print_result(*_list(pipeline, names, reason, most), as_json)
        else:
            done = _mend(pipeline, names, function, mend_file, reason, most, dry_run)
            value = {name: one.as_dict(most) for name, one in done.items()}
            lines = _lines_of_mending(done, most, dry_run)
            print_outcome({"datacenters": value}, lines, dry_run, as_json)


def _list(pipeline: Pipeline, names: Sequence[str], reason: str, most: int) -> tuple[dict[str, Any], str]:
    from photon.upkeep.dead_letters.open_letters import most_common, open_letters

    value, text = {}, []
    for name in names:
        found = open_letters(pipeline, name)
        of_primary, others = most_common(found.reasons_of_primary())
        value[name] = found.with_reason(reason).as_dict(most) | {
            "primary_reasons": of_primary,
            "other_primary_reasons": others,
        }
        text += _lines_of_list(name, value[name])
    return value, "\n".join(text)


def _lines_of_list(name: str, value: Mapping[str, Any]) -> list[str]:
    if value["problem"]:
        return [f"{name}: {value['problem']}"]
    lines = [f"{name}: {counted(value['count'], 'dead letter')} of the foreign log"]
    lines += _counts(value["reasons"], value["other_reasons"])
    for one in value["letters"]:
        event = f", event {readable(one['event_id'])}" if one["event_id"] is not None else ""
        lines += [
            f"  {readable(one['file'])} at {one['offset']}{event}: {one['reason']}",
            f"    {one['line']}",
        ]
    if (more := value["count"] - len(value["letters"])) > 0:
        lines.append(f"  and {more:,} more: --most shows more of them, --export writes them to a file")
    if of_primary := value["primary_reasons"]:
        lines.append(
            f"{name}: dead letters of the primary log, which are not mended: put corrected lines into a new "
            "file of that log. The table dead_letters has their places"
        )
        lines += _counts(of_primary, value["other_primary_reasons"])
    return lines


def _counts(reasons: Mapping[str, int], others: int) -> list[str]:
    lines = [f"  {count:>9,}  {reason}" for reason, count in reasons.items()]
    return lines + [f"  {others:>9,}  of other reasons"] * bool(others)


def _export(
    pipeline: Pipeline, names: Sequence[str], reason: str, target: Path
) -> tuple[dict[str, Any], str]:
    from photon.upkeep.dead_letters.mending import export_letters

    value, text = {}, []
    try:
        sink = target.open("x")
    except FileExistsError:
        fail(f"--export: {target} is there already; expected a new file", WRONG_USAGE)
    with sink:
        for name in names:
            done = export_letters(pipeline, name, reason, sink)
            value[name] = asdict(done)
            text.append(f"{name}: {counted(done.exported, 'dead letter', 'are')} in {target}")
            text += [f"{name}: the lines of {done.gone:,} are gone from their logs"] * bool(done.gone)
            text += [f"{name}: {done.left_out:,} more: mend these, then export again"] * bool(done.left_out)
    return value, "\n".join(text)


def _mend(
    pipeline: Pipeline,
    names: Sequence[str],
    function: str | None,
    mend_file: Path | None,
    reason: str,
    most: int,
    dry_run: bool,
) -> dict[str, Mending]:
    """Mend the letters of each datacenter, the first `most` of them tried before anything is ordered."""
    from photon.upkeep.dead_letters.mending import MendingPlan, load_mend, plan_mending, read_edits
    from photon.upkeep.plans import carry_out

    mend = load_mend(function, pipeline.file.parent) if function is not None else None
    edits = {name: read_edits(mend_file, name) for name in names} if mend_file is not None else {}

    def plan(name: str) -> MendingPlan:
        made = plan_mending(pipeline, name, mend or edits[name], reason)
        return replace(made, expected=made.expected.tried(pipeline, name, most))

    return {name: carry_out(partial(plan, name), dry_run) for name in names}


def _lines_of_mending(done: Mapping[str, Mending], most: int, dry_run: bool) -> list[str]:
    from photon.upkeep.dead_letters.open_letters import most_common
    from photon.upkeep.recovery import ORDERED_BEFORE

    lines: list[str] = []
    verb = "would be" if dry_run else "are"
    for name, one in done.items():
        if one.ordered.problem:
            lines.append(f"{name}: PROBLEM {one.ordered.problem}")
            continue
        lines.append(
            f"{name}: {counted(one.ordered.ordered, 'mended line', verb)} looked at again, "
            f"{counted(one.left, 'dead letter', 'are')} left as {'it is' if one.left == 1 else 'they are'}"
        )
        if waiting := one.ordered.waiting.total():
            lines.append(
                f"  {counted(waiting, 'mended line')} {ORDERED_BEFORE}, with the line that was mended first"
            )
        problems, others = most_common(one.problems)
        lines += [f"  {count:,} not: {problem}" for problem, count in problems.items()]
        lines += [f"  {others:,} not, for other reasons"] * bool(others)
        if one.ordered.left_out:
            lines.append(f"  {one.ordered.left_out:,} more than one run takes: run it again afterwards")
        if dry_run:
            for line in one.lines[:most]:
                lines += _before_and_after(line)
    return lines


def _before_and_after(line: MendedLine) -> list[str]:
    from photon.process.clock import in_utc
    from photon.upkeep.dead_letters.open_letters import shown

    lines = [
        f"  {readable(line.letter.path)} at {line.letter.occurrence.offset_bytes}: {line.letter.reason}",
        f"    before  {shown(line.before)}",
        f"    after   {shown(line.after)}",
    ]
    if line.problem:
        return [*lines, f"    {line.problem}"]
    moment = in_utc(line.time_us or 0, "milliseconds")
    return [*lines, f"    a record: id {line.event_id}, key {line.key}, time {moment}; {line.join}"]
