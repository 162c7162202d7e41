"""`photon trace`: what happened to one event, in every datacenter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import (
    json_option,
    opened,
    pipeline_argument,
    print_result,
    showing_progress,
    within_option,
)
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.tracing.past import Past
    from photon.tracing.report import DatacenterTrace, RegistryAnswer, Trace

LINE_EVERY_SECONDS = 5.0
SAID_OF = {
    "on hold": "on hold",
    "retired": "retired; its rows count",
    "lake gone": "retired, its lake is gone; its rows don't count",
}


@click.command()
@pipeline_argument
@click.argument("event_id")
@click.option("--no-logs", is_flag=True, help="Do not search the raw logs, which takes a while.")
@within_option
@json_option
def trace(pipeline_file: Path, event_id: str, no_logs: bool, within: float, as_json: bool) -> None:
    """Tell what happened to the foreign event EVENT_ID of PIPELINE, in every datacenter.

    Asks the registry, every datacenter's tables and waiting list, and the raw logs. Names what can't be
    asked. Where a feed writes the primary log, it goes on with the row's own story in the pipeline before.
    Exit status 0 whatever is found, also for an id that nobody knows: the verdict says so.
    """
    if not event_id:
        raise click.UsageError("EVENT_ID is empty; expected the id of a foreign event")
    try:
        event_id.encode()
    except UnicodeEncodeError as error:
        raise click.UsageError(f"EVENT_ID {event_id!r} is no UTF-8, as every id in a log is") from error
    with opened(pipeline_file) as pipeline, showing_progress(LINE_EVERY_SECONDS) as say:
        from photon.tracing.chain import events_before
        from photon.tracing.trace import trace as trace_event

        say("asking")
        found = trace_event(pipeline, event_id, not no_logs, say, within / 2)
        told, texts = found.as_dict(), [trace_text(found)]
        for one in events_before(pipeline, found):
            texts.append(
                f"\nits primary event {one.event_id} is an event of pipeline {one.name}: {one.command}"
            )
            if one.pipeline is not None:
                say(f"asking pipeline {one.name}")
                there = trace_event(one.pipeline, one.event_id, not no_logs, say, within / 2)
                told.setdefault("before", []).append(there.as_dict())
                texts.append(trace_text(there))
    print_result(told, "\n".join(texts), as_json)


def trace_text(found: Trace) -> str:
    """The trace for people: the verdict, then what it rests on."""
    lines = [click.wrap_text(f"{found.event_id}: {found.verdict}", width=100), ""]
    if found.what_to_do:
        lines += [f"WHAT TO DO: {found.what_to_do}", ""]
    if found.registry is not None:
        lines += _ledgers(found.registry)
    for name, one in found.datacenters.items():
        said = SAID_OF.get(one.decision) or ("has never joined" if one.has_joined is False else "")
        lines += [
            f"{name} ({said}):" if said else f"{name}:",
            *(f"  {line}" for line in _datacenter(one) or ["nothing"]),
        ]
    return "\n".join([*lines, *(f"NOT ASKED {problem}" for problem in found.problems)])


def _ledgers(answer: RegistryAnswer) -> list[str]:
    from photon.tracing.report import moment

    by = f" by {answer.holder}, whose epoch is {answer.holder_state}" if answer.holder is not None else ""
    lines = [f"registry: {answer.id_status}{by}"]
    if answer.position is not None:
        time_of = f", time {moment(answer.time_us)}" if answer.time_us is not None else ""
        place = f"position {answer.position} of ledger {answer.ledger}"
        lines.append(f"  claimed      {place}, for the record {answer.occurrence}{time_of}")
    lines += [f"  too late     {other}" for other in answer.also_claimed]
    if answer.boundary_us is not None:
        lines.append(f"  boundary     {moment(answer.boundary_us)}: earlier events are too old")
    return lines


def _datacenter(one: DatacenterTrace) -> list[str]:
    from photon.state.waiting.reasons import WHY
    from photon.tracing.report import moment

    lines = [f"row          {_columns(row)}" for row in one.rows] + _past(one.past)
    for w in one.waiting:
        next_try = (
            "given up until its primary is read" if w.status == "unjoinable" else f"due {moment(w.due_us)}"
        )
        since = f"{counted(w.attempts, 'attempt')}, first seen {moment(w.first_seen_us)}"
        lines.append(f"waiting      {w.occurrence} ({w.reason}) {WHY[w.reason]}, {since}, {next_try}")
    for order in one.orders:
        mended = ", with a mended line" if order.is_mended else ""
        lines.append(
            f"ordered      {order.occurrence} by {order.why}, written {moment(order.written_us)}{mended}"
        )
    lines += [f"removed      {_columns(row)}" for row in one.removed]
    lines += [f"mended       {_columns(row)}" for row in one.mended]
    lines += [f"lost         {occurrence}" for occurrence in one.lost]
    tables = {"dead letter": one.dead_letters, "unjoined": one.unjoined, "too old": one.too_old}
    lines += [f"{kind:12} {_columns(row)}" for kind, rows in tables.items() for row in rows]
    for kind, records in (("foreign", one.records), ("primary", one.primaries)):
        lines += [
            f"{kind:12} {r.path} at {r.offset_bytes}, time {moment(r.time_us)}"
            f"{f', key {r.key}' if r.key else ''}{'' if r.was_read else ', not yet read'}"
            f"{f'; a join now: {r.outcome}' if r.outcome else ''}"
            for r in records
        ]
    for log in one.searched:
        read = f"{counted(log.searched_bytes, 'byte')} searched, {log.read_bytes:,} of them read"
        lines.append(f"searched     {log.side} log: {counted(log.files, 'file')}, {read}")
        lines += [
            f"             {f.path} to byte {f.searched_bytes:,}, read to {f.read_bytes:,}, "
            f"{_seen(f.grown_us)}"
            for f in log.last
        ]
        if more := log.files - len(log.last):
            lines.append(f"             and {counted(more, 'more file')}")
    return lines


def _past(past: Past) -> list[str]:
    from photon.tracing.past import NOT_KNOWN, at_time
    from photon.tracing.report import moment

    lines = []
    for row in past.gone:
        taken_out = f"{row.removed}{at_time(row.removed_us)}"
        lines.append(f"row gone     {row.joined}; taken out by {taken_out}; still in {row.file}")
    if not past.is_known:
        lines.append(f"row gone     {NOT_KNOWN}")
    for one in past.told:
        last = "" if one.last_us == one.first_us else f", last at {moment(one.last_us)}"
        lines.append(f"verified     {one.says}, at {moment(one.first_us)}{last}")
    return lines + [
        f"taken up     {one.occurrence} by a work order, after batch {one.batch}" for one in past.taken_up
    ]


def _seen(grown_us: int | None) -> str:
    from photon.tracing.report import moment

    return "seen by no join yet" if grown_us is None else f"seen to grow last at {moment(grown_us)}"


def _columns(row: Mapping[str, object]) -> str:
    from photon.tracing.report import in_words

    return ", ".join(f"{name.lstrip('_')} {in_words(value)}" for name, value in row.items())
