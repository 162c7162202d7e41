"""`photon ui`: the live page of a pipeline, for a browser."""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import click

from photon.cli.output import opened, pipeline_argument

HOST, PORT = "127.0.0.1", 4280
log = logging.getLogger(__name__)


@click.command()
@pipeline_argument
@click.option("--host", default=HOST, show_default=True, help="The address to listen at.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0: any.")
def ui(pipeline_file: Path, host: str, port: int) -> None:
    """Serve a page that shows PIPELINE's datacenters live, until Ctrl-C.

    It reads what photon status, trace and dead-letters read, and disturbs no join.
    """
    with opened(pipeline_file) as pipeline:
        from photon.page.app import page_of
        from photon.page.serving import listen_at, server_of, url_of
        from photon.process.clock import SystemClock

        gc.enable()  # which a command that only asks does without
        listening = listen_at(host, port)
        log.info("the page of %s is at %s, until Ctrl-C", pipeline.name, url_of(host, listening))
        server_of(page_of(pipeline, SystemClock())).run(sockets=[listening])
