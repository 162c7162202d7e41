"""A local registry's server, held for the length of a `with`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from photon.registry.servers.local_server import LocalServer, kind_of
from photon.registry.servers.local_supervisor import ServerKind


@contextmanager
def local_server(folder: Path, kind: ServerKind | None = None) -> Iterator[str]:
    """Hold the folder's server, and yield its URL. `kind` None: the kind whose data is there."""
    server = LocalServer(folder, kind or kind_of(folder))
    try:
        yield server.ensure()
    finally:
        server.leave()
