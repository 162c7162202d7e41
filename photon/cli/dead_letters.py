"""`photon dead-letters`: what could not be used and why; mend it, and have it looked at again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from photon.cli.ending import fail
from photon.cli.output import chosen, counted, json_option, opened, pipeline_argument, print_result
from photon.errors import WRONG_USAGE
from photon.process.readable import readable

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline
    from photon.upkeep.dead_letters.mending import MendedLine, Mending
    from photon.upkeep.dead_letters.open_letters import OpenLetters

MOST_REASONS = 20  # so many are counted one by one
SHOWN_BYTES = 160  # a longer line is cut
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
@click.option("--dry-run", is_flag=True, help="Show what would be mended, and order nothing.")
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
            done = _mend(pipeline, names, function, mend_file, reason, dry_run)
            trials = {name: _trials(pipeline, name, one, most) for name, one in done.items() if dry_run}
            value = {name: _as_dict(one, trials.get(name, []), most) for name, one in done.items()}
            print_result(value, mending_text(done, trials, most, dry_run), as_json)


# -- a list


def _list(pipeline: Pipeline, names: Sequence[str], reason: str, most: int) -> tuple[dict[str, Any], str]:
    from photon.upkeep.dead_letters.open_letters import open_letters

    value, text = {}, []
    for name in names:
        found = open_letters(pipeline, name)
        every = found.reasons_of_primary()
        of_primary = dict(every.most_common(MOST_REASONS))
        others = every.total() - sum(of_primary.values())
        value[name] = _listed(found.with_reason(reason), most) | {
            "primary_reasons": of_primary,
            "other_primary_reasons": others,
        }
        text += _lines_of_list(name, value[name])
    return value, "\n".join(text)


def _listed(found: OpenLetters, most: int) -> dict[str, Any]:
    reasons = found.reasons()
    return {
        "count": len(found),
        "reasons": dict(reasons.most_common(MOST_REASONS)),
        "other_reasons": sum(reasons.values()) - sum(dict(reasons.most_common(MOST_REASONS)).values()),
        "letters": [
            {
                "event_id": one.event_id,
                "file": one.path,
                "offset": one.occurrence.offset_bytes,
                "occurrence": str(one.occurrence),
                "reason": one.reason,
                "line": shown(one.raw),
            }
            for one in found.first(most, with_raw=True)
        ],
        "problem": found.problem,
    }


def _lines_of_list(name: str, value: Mapping[str, Any]) -> list[str]:
    if value["problem"]:
        return [f"{name}: {value['problem']}"]
    lines = [f"{name}: {counted(value['count'], 'dead letter')} of the foreign log"]
    lines += [f"  {count:>9,}  {reason}" for reason, count in value["reasons"].items()]
    if value["other_reasons"]:
        lines.append(f"  {value['other_reasons']:>9,}  of other reasons")
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
        lines += [f"  {count:>9,}  {reason}" for reason, count in of_primary.items()]
        if others := value["other_primary_reasons"]:
            lines.append(f"  {others:>9,}  of other reasons")
    return lines


def shown(line: bytes | None) -> str:
    """The beginning of a line, for people."""
    if line is None:
        return ""
    return readable(line[:SHOWN_BYTES]) + (" ..." if len(line) > SHOWN_BYTES else "")


# -- a file to edit


def _export(
    pipeline: Pipeline, names: Sequence[str], reason: str, target: Path
) -> tuple[dict[str, Any], str]:
    from photon.dispatcher.recovery.orders import MOST_RECORDS
    from photon.upkeep.dead_letters.mending import exported, lines_of
    from photon.upkeep.dead_letters.open_letters import open_letters

    value, text = {}, []
    try:
        sink = target.open("x")
    except FileExistsError:
        fail(f"--export: {target} is there already; expected a new file", WRONG_USAGE)
    with sink:
        for name in names:
            found = open_letters(pipeline, name).with_reason(reason)
            letters = found.first(MOST_RECORDS, with_raw=True)
            written = list(exported(name, lines_of(pipeline, name, found, letters)))
            sink.writelines(f"{line}\n" for line in written)
            left_out, gone = len(found) - len(letters), len(letters) - len(written)
            value[name] = {"exported": len(written), "gone": gone, "left_out": left_out}
            text.append(f"{name}: {len(written):,} dead letters are in {target}")
            text += [f"{name}: the lines of {gone:,} are gone from their logs"] * bool(gone)
            text += [f"{name}: {left_out:,} more: mend these, then export again"] * bool(left_out)
    return value, "\n".join(text)


# -- mending


def _mend(
    pipeline: Pipeline,
    names: Sequence[str],
    function: str | None,
    mend_file: Path | None,
    reason: str,
    dry_run: bool,
) -> dict[str, Mending]:
    from photon.upkeep.dead_letters.mending import load_mend, plan_mending, read_edits
    from photon.upkeep.plans import carry_out

    mend = load_mend(function, pipeline.file.parent) if function is not None else None
    edits = {name: read_edits(mend_file, name) for name in names} if mend_file is not None else {}
    return {
        name: carry_out(partial(plan_mending, pipeline, name, mend or edits[name], reason), dry_run)
        for name in names
    }


def _trials(pipeline: Pipeline, name: str, done: Mending, most: int) -> list[str]:
    from photon.upkeep.dead_letters.trial_join import try_joins

    return try_joins(pipeline, name, done.events.slice(0, most))


def _as_dict(done: Mending, trials: Sequence[str], most: int) -> dict[str, Any]:
    return {
        **done.ordered.as_dict(),
        "left_as_they_are": done.left,
        "problems": dict(done.problems.most_common(MOST_REASONS)),
        "lines": [_line_as_dict(line, said) for line, said in _with_trials(done, trials, most)],
    }


def _line_as_dict(line: MendedLine, said: str) -> dict[str, Any]:
    return {
        "file": line.letter.path,
        "offset": line.letter.occurrence.offset_bytes,
        "reason": line.letter.reason,
        "before": shown(line.before),
        "after": shown(line.after),
        "problem": line.problem,
        "id": line.event_id,
        "key": line.key,
        "time_us": line.time_us,
        "join": said,
    }


def _with_trials(done: Mending, trials: Sequence[str], most: int) -> list[tuple[MendedLine, str]]:
    """The first lines, with what would come of each."""
    places = zip(done.events["_file"].to_pylist(), done.events["_offset"].to_pylist(), strict=True)
    said = dict(zip(places, trials, strict=False))
    shown_lines = done.lines[:most]
    return [
        (line, said.get((line.letter.occurrence.file_number, line.letter.occurrence.offset_bytes), ""))
        for line in shown_lines
    ]


def mending_text(
    done: Mapping[str, Mending], trials: Mapping[str, Sequence[str]], most: int, dry_run: bool
) -> str:
    """The mended lines and their orders, for people."""
    lines: list[str] = []
    for name, one in done.items():
        if one.ordered.problem:
            lines.append(f"{name}: PROBLEM {one.ordered.problem}")
            continue
        verb = "would be" if dry_run else "are"
        lines.append(
            f"{name}: {one.ordered.ordered:,} mended lines {verb} looked at again, {one.left:,} dead letters "
            "are left as they are"
        )
        lines += _problems(one.problems)
        if one.ordered.left_out:
            lines.append(f"  {one.ordered.left_out:,} more than one run takes: run it again afterwards")
        if dry_run:
            for line, said in _with_trials(one, trials.get(name, []), most):
                lines += _before_and_after(line, said)
    return "\n".join(lines)


def _problems(problems: Counter[str]) -> list[str]:
    lines = [f"  {count:,} not: {problem}" for problem, count in problems.most_common(MOST_REASONS)]
    more = sum(problems.values()) - sum(count for _, count in problems.most_common(MOST_REASONS))
    return lines + [f"  {more:,} not, for other reasons"] * bool(more)


def _before_and_after(line: MendedLine, said: str) -> list[str]:
    from photon.process.clock import in_utc

    lines = [
        f"  {readable(line.letter.path)} at {line.letter.occurrence.offset_bytes}: {line.letter.reason}",
        f"    before  {shown(line.before)}",
        f"    after   {shown(line.after)}",
    ]
    if line.problem:
        return [*lines, f"    {line.problem}"]
    moment = in_utc(line.time_us or 0, "milliseconds")
    return [*lines, f"    a record: id {line.event_id}, key {line.key}, time {moment}; {said}"]
