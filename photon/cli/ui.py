"""`photon ui`: the live page of a pipeline, for a browser."""

from __future__ import annotations

import gc
import logging
import os
import socket
from functools import partial
from pathlib import Path

import click

from photon.cli.output import opened, pipeline_argument

HOST, PORT = "127.0.0.1", 4280
EVERYWHERE = ("0.0.0.0", "::")
log = logging.getLogger(__name__)


@click.command()
@pipeline_argument
@click.option("--host", default=HOST, show_default=True, help="The address to listen at.")
@click.option("--name", "names", multiple=True, help="Another name that browsers reach it by, as of a proxy.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0: any.")
def ui(pipeline_file: Path, host: str, names: tuple[str, ...], port: int) -> None:
    """Serve a page that shows PIPELINE's datacenters live, until Ctrl-C.

    It reads what photon status, trace and dead-letters read, and disturbs no join. With another --host than
    this machine's own it asks for a token: that of the environment variable PHOTON_UI_TOKEN, or one that is
    made and printed now.
    """
    with opened(pipeline_file) as pipeline:
        from photon.cli.offered import offered_in
        from photon.page.access import TOKEN_VARIABLE, Access, token_for
        from photon.page.app import page_of
        from photon.page.serving import listen_at, server_of, url_of
        from photon.process.clock import SystemClock

        gc.enable()  # which a command that only asks does without
        listening = listen_at(host, port)
        address, at = listening.getsockname()[:2]
        token, is_made = token_for(address, os.environ.get(TOKEN_VARIABLE))
        here = socket.gethostname()
        known = {host, here, *names}
        access = Access(frozenset(name.lower() for name in known), token, f"photon-ui-{at}")
        url = url_of(here if address in EVERYWHERE else host, at)
        log.info("the page of %s is at %s, until Ctrl-C", pipeline.name, url)
        if is_made:  # on standard output: what is logged stays
            click.echo(f"its token, for {url}login.html: {token}")
        context = click.get_current_context().find_root()  # of this thread; requests come in others
        assert isinstance(context.command, click.Group)
        command_named = partial(context.command.get_command, context)
        offered = partial(offered_in, pipeline_file=pipeline.file, command_named=command_named)
        server_of(page_of(pipeline, access, SystemClock(), offered)).run(sockets=[listening])
