"""`photon trace`: what happened to one event, in every datacenter."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import expected_errors, json_option, log_to_stderr, pipeline_argument, print_json

if TYPE_CHECKING:
    from photon.verification.trace import SearchProgress
    from photon.verification.trace_report import DatacenterTrace, Trace

LINE_EVERY_SECONDS = 5.0
MEBIBYTE = 2**20


@click.command()
@pipeline_argument
@click.argument("event_id")
@click.option("--no-logs", is_flag=True, help="Do not search the raw logs, which takes a while.")
@json_option
def trace(pipeline_file: Path, event_id: str, no_logs: bool, as_json: bool) -> None:
    """What happened to the foreign event EVENT_ID of PIPELINE, in every datacenter.

    Asks the registry, every datacenter's tables and waiting list, and the raw logs. What can't be asked is
    named. Exit status 0 whatever is found, also for an id that nobody knows: the verdict says so.
    """
    log_to_stderr()
    with expected_errors():
        from photon.pipeline.file import load_pipeline
        from photon.registry.open import close_registries
        from photon.verification.trace import trace as trace_event

        pipeline = load_pipeline(pipeline_file)
        try:
            with showing_progress() as progress:
                found = trace_event(pipeline, event_id, not no_logs, progress)
        finally:
            close_registries()
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(trace_text(found))


@contextmanager
def showing_progress() -> Iterator[SearchProgress]:
    """How far the search of the logs is: a spinner on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("asking") as status:
            yield lambda what, done, all_of: status.update(f"searching the {_how_far(what, done, all_of)}")
        return
    said_at = time.monotonic()

    def say(what: str, done_bytes: int, all_bytes: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= LINE_EVERY_SECONDS:
            said_at = time.monotonic()
            click.echo(f"photon: searching the {_how_far(what, done_bytes, all_bytes)}", err=True)

    yield say


def _how_far(what: str, done_bytes: int, all_bytes: int) -> str:
    return f"{what}: {done_bytes / MEBIBYTE:,.0f} of {all_bytes / MEBIBYTE:,.0f} MiB"


def trace_text(found: Trace) -> str:
    """The trace for people: the verdict, then what it rests on."""
    lines = [click.wrap_text(f"{found.event_id}: {found.verdict}", width=100), ""]
    for answer in found.registry:
        held = f" by {answer.token or answer.datacenter}" if answer.standing == "held" else ""
        time_of = f" (time {answer.time_us} us)" if answer.time_us is not None else ""
        lines.append(f"registry: {answer.standing}{held}{time_of}")
    for name, one in found.datacenters.items():
        lines += [f"{name}:", *(f"  {line}" for line in _datacenter(one) or ["nothing"])]
    return "\n".join([*lines, *(f"NOT ASKED {problem}" for problem in found.problems)])


def _datacenter(one: DatacenterTrace) -> list[str]:
    from photon.verification.trace_report import moment

    lines = [f"row          {_columns(row)}" for row in one.rows]
    lines += [
        f"waiting      {w.occurrence} ({w.reason}), {w.attempts} attempts, "
        f"first seen {moment(w.first_seen_us)}, "
        + ("given up until the next start" if w.status == "unjoinable" else f"due {moment(w.due_us)}")
        for w in one.waiting
    ]
    lines += [f"dead letter  {_columns(row)}" for row in one.dead_letters]
    lines += [f"unjoined     {_columns(row)}" for row in one.unjoined]
    lines += [f"too old      {_columns(row)}" for row in one.too_old]
    for kind, records in (("foreign", one.records), ("primary", one.primaries)):
        lines += [
            f"{kind:12} {r.path} at {r.offset_bytes}, time {moment(r.time_us)}"
            f"{f', key {r.key}' if r.key else ''}{'' if r.was_read else ', not yet read'}"
            for r in records
        ]
    return lines


def _columns(row: dict[str, object]) -> str:
    return ", ".join(f"{name.lstrip('_')} {value}" for name, value in row.items())
