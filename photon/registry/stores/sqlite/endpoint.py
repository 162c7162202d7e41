"""The endpoint of a local registry: the directory of its file, and the stores in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

from photon.registry.address import EndpointAddress, table_name
from photon.registry.stores.endpoint import StoreSilent, new_incarnation
from photon.registry.stores.sqlite.file import RegistryFile
from photon.registry.stores.sqlite.problems import NoAnswer
from photon.registry.stores.sqlite.store import SqliteStore

T = TypeVar("T")


class SqliteEndpoint:
    """See `photon.registry.stores.endpoint.StoreEndpoint`."""

    def __init__(self, address: EndpointAddress, timeout: timedelta) -> None:
        assert isinstance(address.where, Path)
        self._file = RegistryFile(address.where)
        self._timeout_seconds = timeout.total_seconds()
        self.directory = SqliteDirectory(address, self._file, self._timeout_seconds)

    def store(self, table: str) -> SqliteStore:
        return SqliteStore(self._file, table, self._timeout_seconds)


class SqliteDirectory:
    """See `photon.registry.stores.endpoint.Directory`. The file is made with the first table."""

    def __init__(self, address: EndpointAddress, file: RegistryFile, timeout_seconds: float) -> None:
        self._address = address
        self._file = file
        self._timeout_seconds = timeout_seconds

    def table_of(self, pipeline: str) -> str | None:
        def read() -> str | None:
            if not self._file.exists():
                return None
            return self._file.ask(lambda connection: _named(connection, pipeline), self._timeout_seconds)

        return self._told(read)

    def ensure_table_of(self, pipeline: str) -> str:
        def ensure(connection: Connection) -> str:
            if (named := _named(connection, pipeline)) is not None:
                return named
            new = table_name(pipeline, new_incarnation())
            connection.execute("INSERT INTO stores (name) VALUES (?)", (new,))
            connection.execute("INSERT INTO pipelines VALUES (?, ?)", (pipeline, new))
            return new

        def make() -> str:
            self._file.make(self._timeout_seconds)
            return self._file.ask(ensure, self._timeout_seconds)

        return self._told(make)

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except NoAnswer as error:
            raise StoreSilent(self._address, error.reply) from error


def _named(connection: Connection, pipeline: str) -> str | None:
    found = connection.execute("SELECT store FROM pipelines WHERE name = ?", (pipeline,)).fetchone()
    return None if found is None else str(found[0])
