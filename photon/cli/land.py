"""`photon land`: topics of a broker, and objects of a store, become log files, which joins read."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.ending import fail
from photon.cli.output import chosen, expected_errors, log_to_stderr, pipeline_argument
from photon.process.errors import NOT_DONE, WRONG_USAGE
from photon.process.operating_system import handled_by

if TYPE_CHECKING:
    from photon.pipeline.file import Pipeline


@click.command()
@pipeline_argument
@click.option("-d", "--datacenter", help="Of this one only. Default: all.")
@click.option("--complete", is_flag=True, help="End when all that is there now is landed.")
def land(pipeline_file: Path, datacenter: str | None, complete: bool) -> None:
    """Land topics and objects of PIPELINE's datacenters in their logs folders, until Ctrl-C.

    Run it beside joins, on the machine that has the logs folder. Started again, it goes on where it was.
    Messages that the broker has no more are told, and their partition waits for photon acknowledge; so are
    objects that can't be read. With --complete it ends with 3 where anything waits so.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.landing.service import Landing
        from photon.landing.sources import sources_of
        from photon.pipeline.file import load_pipeline

        pipeline = load_pipeline(pipeline_file)
        landing = Landing(sources_of(pipeline, chosen(pipeline, datacenter)), complete)
        if not landing.sources:
            says = f"no datacenter of {pipeline.typed} has a topic or objects to land (datacenters.NAME.land)"
            fail(says, WRONG_USAGE)
        with handled_by(lambda *_: landing.stopped.set(), signal.SIGTERM, signal.SIGINT):
            not_landed = landing.run()
        if complete:
            _end_with(not_landed)


def land_first(pipeline: Pipeline, names: list[str], stop_requested: Callable[[], bool]) -> None:
    """Land what these datacenters' sources have now, if there are any, before a complete join."""
    from photon.landing.service import Landing
    from photon.landing.sources import sources_of

    _end_with(Landing(sources_of(pipeline, names), complete=True, stop_requested=stop_requested).run())


def _end_with(not_landed: list[str]) -> None:
    """End the command if something stands still: what is in it is not landed."""
    if not_landed:
        fail("; ".join(not_landed), NOT_DONE)
