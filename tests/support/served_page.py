"""The live page of a test: served by its own server on a thread, and asked over a socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from typing import Any

import uvicorn

from photon.cli.commands import command_named
from photon.cli.offered import offered_in
from photon.page.access import Access
from photon.page.app import page_of
from photon.page.serving import listen_at, server_of
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock, SystemClock


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Browser:
    """Asks the page at a port, each time on a connection of its own."""

    port: int
    server: uvicorn.Server

    @property
    def open_connections(self) -> int:
        return len(self.server.server_state.connections)

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """Ask; `headers` by name with _ for -."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            connection.close()

    def log_in(self, token: str, **headers: str) -> Answer:
        return self.ask("/api/login", "POST", json.dumps({"token": token}).encode(), **headers)


@contextmanager
def served(pipeline: Pipeline, access: Access | None = None, clock: Clock | None = None) -> Iterator[Browser]:
    """Serve the page of a pipeline."""
    listening = listen_at("127.0.0.1", 0)
    offered = partial(offered_in, pipeline_file=pipeline.file, command_named=command_named)
    server = server_of(page_of(pipeline, access or Access(), clock or SystemClock(), offered))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)  # its thread has no clock to inject
        yield Browser(listening.getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join()
