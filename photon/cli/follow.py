"""`photon follow`: what each release shows first, delivered as releases are made."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from photon.cli.ending import INTERRUPTED, TERMINATED, fail
from photon.cli.output import expected_errors, log_to_stderr, pipeline_argument, standard_output
from photon.process.operating_system import handled_by

if TYPE_CHECKING:
    from photon.feed.following import Follower, Start
    from photon.feed.stdout import Form
    from photon.feed.step import FedTable


def start_of(_: click.Context, option: click.Parameter, given: str) -> str | int:
    """Where a feed begins."""
    if given in ("start", "now"):
        return given
    if given.isdecimal():
        return int(given)
    raise click.BadParameter(f"{given!r}: expected start, now or the number of a release", param=option)


@click.command()
@pipeline_argument
@click.option(
    "--table",
    type=click.Choice(["joined", "unjoined", "unmatched"]),
    default="joined",
    show_default=True,
    help="Whose rows.",
)
@click.option(
    "--from",
    "start",
    metavar="start|now|N",
    default="start",
    show_default=True,
    callback=start_of,
    help="Where nothing is yet: from all rows on, behind the newest release, or behind release N.",
)
@click.option(
    "--to", "target", metavar="URL|FOLDER", help="postgresql://..., or a folder. [default: standard output]"
)
@click.option("--into", metavar="TABLE", help="The table of PostgreSQL. [default: called as the pipeline]")
@click.option(
    "--cursor",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With standard output: this file says how far it is, and the next run goes on there.",
)
@click.option("--format", "form", type=click.Choice(["jsonl", "arrow"]), default="jsonl", show_default=True)
@click.option("--changes", "takes_changes", is_flag=True, help="Also rows that were changed or taken back.")
@click.option(
    "--resync", is_flag=True, help="First all rows of the newest release, in place of what is there."
)
@click.option("--once", is_flag=True, help="End when all that is there is delivered.")
def follow(
    pipeline_file: Path,
    table: FedTable,
    start: str | int,
    target: str | None,
    into: str | None,
    cursor: Path | None,
    form: Form,
    takes_changes: bool,
    resync: bool,
    once: bool,
) -> None:
    """Deliver the rows of PIPELINE release by release, each row with its release.

    Without --changes it ends with status 3 before a release that takes something back: a rebuild, or the join
    of an event whose row of --table unjoined was delivered.
    Started again, it goes on behind the release that was delivered last. No registry is asked.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.feed.following import Follower
        from photon.feed.sink import Fed
        from photon.feed.sinks import sink_of
        from photon.pipeline.file import load_pipeline
        from photon.process.clock import SystemClock

        pipeline = load_pipeline(pipeline_file)
        begins: Start = start if isinstance(start, int) else "now" if start == "now" else "oldest"
        fed = Fed(pipeline.file, pipeline.name, table)
        with sink_of(
            target,
            fed,
            standard_output(),
            cursor_file=cursor,
            into=into,
            takes_changes=takes_changes,
            form=form,
        ) as sink:
            if begins == "oldest" and sink.is_table:
                begins = "newest"
            follower = Follower(pipeline, sink, begins, SystemClock(), table)
            with ended_by_signals(follower):
                if resync:
                    follower.resync()
                follower.run(once)


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def ended_by_signals(follower: Follower) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end the command, which says what it has delivered."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    try:
        with handled_by(terminate, signal.SIGTERM):
            yield
    except KeyboardInterrupt as told:
        last = follower.delivered
        stands = "nothing was delivered" if last is None else f"delivered up to release {last.number}"
        fail(f"interrupted; {stands}", TERMINATED if isinstance(told, Terminated) else INTERRUPTED)
