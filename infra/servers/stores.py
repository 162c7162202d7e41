"""Stores of a registry as one machine has them: servers that are killed, stalled, wiped and started again.

For tests and measurements on real servers. What is then done with a registry over them does not belong here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from infra.servers.dynamodb import ServerKind, answers, server_command, use_write_ahead_log
from infra.servers.process import ServerProcess
from photon.process.errors import UserError
from photon.registry.address import LOCAL_REGION


class StoreServer(ServerProcess):
    """One store of a registry."""

    def __init__(self, kind: ServerKind, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.kind = kind

    def command(self) -> Sequence[str]:
        use_write_ahead_log(self.kind, self.folder)
        return server_command(self.kind, self.folder, self.port)

    def answers(self) -> bool:
        return answers(self.url)

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
    with ExitStack() as started:
        yield [started.enter_context(StoreServer(kind, folder / str(number))) for number in range(count)]


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
