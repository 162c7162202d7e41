"""Listens at an address, and serves the page there until the process is interrupted."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from photon.page.connections import PageConnection
from photon.process.errors import WrongUsage

MOST_HEADER_BYTES = 32 * 1024


def listen_at(host: str, port: int) -> socket.socket:
    """Listen there, at any free port for 0. WrongUsage, with what to do."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        remedy = "give an address of this machine with --host"
        if error.errno == errno.EADDRINUSE:
            remedy = f"somebody serves there already; choose another port, as in --port {port + 1}"
        elif error.errno in (errno.EACCES, errno.EPERM):
            remedy = "choose a port from 1024 on with --port"
        # A socket's own text repeats the address; a name that is not known has no number of the system's.
        why = os.strerror(error.errno or 0) if error.errno in errno.errorcode else error.strerror
        raise WrongUsage(f"{host}:{port} can't be listened at: {why}; {remedy}") from error


def url_of(host: str, port: int) -> str:
    """The address of the page, as a browser takes it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server of `app`. It writes no access log: addresses hold ids of events."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # of what clients send wrong, and of Ctrl-C
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=PageConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Leaves signals to the command: Ctrl-C ends it at once, also while something is being read."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
