"""`photon land`: the topics of a broker become log files, which joins read."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.ending import fail
from photon.cli.output import chosen, expected_errors, log_to_stderr, pipeline_argument
from photon.process.errors import NOT_DONE, WRONG_USAGE
from photon.process.extras import need_extra
from photon.process.operating_system import handled_by

if TYPE_CHECKING:
    from photon.landing.service import Landing, TopicToLand
    from photon.pipeline.file import Pipeline


@click.command()
@pipeline_argument
@click.option("-d", "--datacenter", help="Of this one only. Default: all.")
@click.option("--complete", is_flag=True, help="End when all that is in the topics now is landed.")
def land(pipeline_file: Path, datacenter: str | None, complete: bool) -> None:
    """Land the topics of PIPELINE's datacenters in their logs folders, until Ctrl-C.

    Run it beside joins, on the machine that has the logs folder. Started again, it goes on where it was.
    Messages that the broker has no more are told, and their partition waits for photon acknowledge.
    With --complete it ends with 3 where a partition waits so.
    """
    log_to_stderr()
    with expected_errors(pipeline_file):
        from photon.landing.service import Landing
        from photon.pipeline.file import load_pipeline
        from photon.process.clock import SystemClock

        pipeline = load_pipeline(pipeline_file)
        topics = topics_of(pipeline, chosen(pipeline, datacenter))
        if not topics:
            fail(
                f"no datacenter of {pipeline.typed} has a topic to land (datacenters.NAME.land)", WRONG_USAGE
            )
        landing = Landing(topics, SystemClock(), complete)
        with handled_by(lambda *_: landing.stopped.set(), signal.SIGTERM, signal.SIGINT):
            landing.run()
        _refuse_losses(landing)


def land_first(pipeline: Pipeline, names: list[str], stop_requested: Callable[[], bool]) -> None:
    """Land what is in the topics of these datacenters now, if they have any, before a complete join."""
    from photon.landing.service import Landing
    from photon.process.clock import SystemClock

    if topics := topics_of(pipeline, names):
        landing = Landing(topics, SystemClock(), complete=True, stop_requested=stop_requested)
        landing.run()
        _refuse_losses(landing)


def _refuse_losses(landing: Landing) -> None:
    """End the command if a partition stands still: what is in it is not landed."""
    if landing.complete and landing.not_landed:
        fail("; ".join(landing.not_landed), NOT_DONE)


def topics_of(pipeline: Pipeline, names: list[str]) -> list[TopicToLand]:
    """The topics that these datacenters land."""
    if not any(pipeline.datacenters[name].land for name in names):
        return []
    need_extra("kafka")
    from photon.landing.kafka import KafkaTopic
    from photon.landing.service import TopicToLand

    found = []
    for name in names:
        place = pipeline.datacenters[name]
        for one in place.land:
            assert isinstance(place.logs, Path), "the pipeline file refuses others"
            connect = partial(KafkaTopic, one.kafka.servers, one.kafka.topic, one.kafka.settings)
            found.append(TopicToLand(one.kafka.topic, place.logs / one.into, connect))
    return found
