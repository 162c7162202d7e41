"""The PostgreSQL of a test: without the program the test is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infra.servers import postgres as servers
from tests.support.programs import needed


@contextmanager
def postgres(port: int) -> Iterator[servers.Postgres]:
    """A server that runs."""
    needed("PostgreSQL")
    with servers.postgres(port) as found:
        yield found
