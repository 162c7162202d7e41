"""`photon acknowledge`: a person says that he knows what a datacenter has lost, and of its bad records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from photon.cli.output import (
    chosen,
    dry_run_option,
    json_option,
    opened,
    pipeline_argument,
    print_outcome,
)
from photon.process.readable import counted

if TYPE_CHECKING:
    from photon.upkeep.acknowledged_rows import AcknowledgedRows

LATE = (
    "Files that are read after all join as long as the registry keeps the ids of their time "
    "(registry.keep_days). Later, events that are older than the ids it keeps count as joined, without a row."
)


@click.command()
@pipeline_argument
@click.argument("datacenter")
@click.option("--rows", is_flag=True, help="Rows that others took from its table: they stay away for good.")
@dry_run_option
@json_option
def acknowledge(pipeline_file: Path, datacenter: str, rows: bool, dry_run: bool, as_json: bool) -> None:
    """Say that you know what DATACENTER of PIPELINE has lost: no alarm tells of it any more.

    These are log files that went away unread, messages that a broker removed before they were landed, and
    waiting records that are nowhere any more; and records that are dead letters, too old, or found no primary
    event. All of them stay as they are: files that come back
    are read, records that are mended are joined. What comes later is told. Run it where the state folder
    is, beside a join or not; elsewhere it ends with 3.

    With --rows it is about rows that others took from the joined events of DATACENTER, and about nothing
    else: no recovery, duplicate or lost state brings them back, and verification calls them joined. Rows
    that others changed are made again by photon backfill --rebuild. Every lake must answer.
    """
    if rows:
        _acknowledge_rows(pipeline_file, datacenter, dry_run, as_json)
        return
    with opened(pipeline_file) as pipeline:
        from photon.process.clock import SystemClock
        from photon.state.losses import plan_acknowledgement
        from photon.upkeep.acknowledged_topics import acknowledge_topics
        from photon.upkeep.plans import carry_out

        chosen(pipeline, datacenter)
        folder = pipeline.datacenters[datacenter].state
        of_topics = acknowledge_topics(pipeline, datacenter, dry_run)
        if of_topics and not folder.exists():  # landed, and not joined yet
            _tell(datacenter, of_topics, {"topics": list(of_topics)}, dry_run, as_json)
            return
        found = carry_out(lambda: plan_acknowledgement(folder, SystemClock().now_us()), dry_run)
    said = (*found.names, *of_topics)
    if any(one.state != "gone" for one in found.losses.unread):
        said = (*said, LATE)
    _tell(datacenter, said, {**found.as_dict(), "topics": list(of_topics)}, dry_run, as_json)


def _tell(
    datacenter: str, named: Sequence[str], value: Mapping[str, Any], dry_run: bool, as_json: bool
) -> None:
    lines = [f"{datacenter}: there is nothing that is not acknowledged yet"]
    if named:
        lines = ["would be acknowledged:" if dry_run else "acknowledged:"]
        lines += [one if one == LATE else f"{datacenter}: {one}" for one in named]
    print_outcome(value, lines, dry_run, as_json)


def _acknowledge_rows(pipeline_file: Path, datacenter: str, dry_run: bool, as_json: bool) -> None:
    with opened(pipeline_file) as pipeline:
        from photon.dispatcher.shift.people import ask_first
        from photon.registry.opening import open_reader
        from photon.upkeep.acknowledged_rows import plan_acknowledgement_of_rows
        from photon.upkeep.plans import carry_out

        chosen(pipeline, datacenter)
        ask_first(pipeline)
        done = carry_out(
            lambda: plan_acknowledgement_of_rows(pipeline, open_reader(pipeline), datacenter), dry_run
        )
        verify = f"photon verify {pipeline.typed}"
    print_outcome(done.as_dict(), _rows_text(datacenter, done, dry_run, verify), dry_run, as_json)


def _rows_text(datacenter: str, done: AcknowledgedRows, dry_run: bool, verify: str) -> list[str]:
    verb = "would stay" if dry_run else "stay"
    joined = counted(done.rows, "joined event", verb)
    lines = [f"{datacenter}: {joined} without a row, those that were acknowledged before among them"]
    over = "would be over" if dry_run else "is over"
    lines += [f"{datacenter}: {over}: {one}" for one in done.ended]
    if done.is_open:
        lines.append(f"{datacenter}: others took rows meanwhile: acknowledge again, or {verify}")
    return lines
