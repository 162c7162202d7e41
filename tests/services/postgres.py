"""The PostgreSQL of a test: without the program the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infra.servers import postgres as servers
from tests.programs import end_without


@contextmanager
def postgres(port: int) -> Iterator[servers.Postgres]:
    """A server that runs."""
    try:
        servers.programs()
    except servers.PostgresMissing as missing:
        end_without(str(missing))
    with servers.postgres(port) as found:
        yield found
