"""A server with the DynamoDB API, for the length of a `with`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.servers.stores import fastest_kind, store_servers


@contextmanager
def local_server(folder: Path) -> Iterator[str]:
    """Run one in the folder, and yield its URL."""
    with store_servers(fastest_kind(), folder, 1) as (server,):
        yield server.url
