"""Stores of a registry as one machine has them: servers that are killed, stalled, wiped and started again.

For tests and measurements on real servers. What is then done with a registry over them does not belong here.
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from photon.errors import UserError
from photon.pipeline.file import Datacenter, Endpoint, ForeignLog, Pipeline, PrimaryLog, Registry
from photon.registry.dynamodb.credentials import LOCAL_REGION
from photon.registry.dynamodb.local_server import (
    ServerKind,
    answers,
    die_with_parent,
    server_command,
    use_write_ahead_log,
)

START_SECONDS = 60.0  # DynamoDB Local on a busy machine; dynoxide takes milliseconds
START_POLL_SECONDS = 0.02
# Below the ports that a kernel gives to connections: one of those could take a killed server's port.
PORTS = range(20_000, 30_000)


class StoreServer:
    """One server with its folder and port, which it keeps through kills.

    Its process ends with the thread that started it.
    """

    def __init__(self, kind: ServerKind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.port = _free_steady_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may be stalled."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers. TimeoutError if it does not."""
        if self.is_running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        use_write_ahead_log(self.kind, self.folder)
        command = server_command(self.kind, self.folder, self.port)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"{self.url} does not answer; see {self.folder / 'server.log'}")
            time.sleep(START_POLL_SECONDS)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stall(self) -> None:
        """Let it answer nobody, with its connections open, until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, with all that was asked since it stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Kill it and start it again without any of its data."""
        self.kill()
        shutil.rmtree(self.folder)
        self.start()

    def client(self) -> Any:
        """A boto3 client of it, for its tables."""
        return dynamodb_client(self.url, LOCAL_REGION, timedelta(seconds=10), 4)


def dynamodb_client(url: str, region: str, timeout: timedelta, connections: int) -> Any:
    """A client of boto3: one attempt a request, none longer than `timeout`; no credentials in `local`."""
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout.total_seconds(),
        read_timeout=timeout.total_seconds(),
        max_pool_connections=connections,
        tcp_keepalive=True,
    )
    keys = (
        {"aws_access_key_id": "photon", "aws_secret_access_key": "photon"} if region == LOCAL_REGION else {}
    )
    # A session of its own: boto3's default one is not safe to share between threads while it is made.
    return boto3.session.Session().client(
        "dynamodb", endpoint_url=url, region_name=region, config=config, **keys
    )


@contextmanager
def store_servers(kind: ServerKind, folder: Path, count: int) -> Iterator[list[StoreServer]]:
    """Run `count` servers, each in a folder of its own; killed at the end."""
    servers = [StoreServer(kind, folder / str(number)) for number in range(count)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.kill()


def is_available(kind: ServerKind) -> bool:
    """Whether this machine has such a server."""
    try:
        server_command(kind, Path(), 0)
    except UserError:
        return False
    return True


def fastest_kind() -> ServerKind:
    """dynoxide where it is installed, else DynamoDB Local."""
    return "dynoxide" if is_available("dynoxide") else "dynamodb-local"


def registry_pipeline(name: str, urls: Sequence[str], settings: Registry) -> Pipeline:
    """A pipeline that is nothing but its registry, over these endpoints, inserting by transactions."""
    nowhere = Path("/nowhere")
    endpoints = tuple(Endpoint(url=url, transactions=True) for url in urls)
    return Pipeline(
        name=name,
        file=nowhere / "events.yaml",
        datacenters={"east": Datacenter(logs=nowhere, lake=nowhere / "lake", state=nowhere / "state")},
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=ForeignLog(files="*", format="csv", id=("id",), key=("key",), time="t"),
        registry=settings.model_copy(update={"endpoints": endpoints}),
    )


def _free_steady_port() -> int:
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
