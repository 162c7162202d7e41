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
from photon.registry.stores.sqlite.store import SqliteStore, delete_table

T = TypeVar("T")


class SqliteEndpoint:
    """See `photon.registry.stores.endpoint.Endpoint`."""

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
        return self._asked(lambda connection: _named(connection, pipeline), None)

    def ensure_table_of(self, pipeline: str) -> str:
        new = table_name(pipeline, new_incarnation())
        if (named := self.table_of(pipeline)) is not None:
            return named
        self.replace_table_of(pipeline, None, new)
        return self.table_of(pipeline) or new

    def replace_table_of(self, pipeline: str, old: str | None, new: str) -> bool:
        def change(connection: Connection) -> bool:
            if _named(connection, pipeline) != old:
                return False
            connection.execute("INSERT INTO stores (name) VALUES (?) ON CONFLICT DO NOTHING", (new,))
            sql = "INSERT INTO pipelines VALUES (?, ?) ON CONFLICT DO UPDATE SET store = excluded.store"
            connection.execute(sql, (pipeline, new))
            return True

        def make() -> bool:
            self._file.make(self._timeout_seconds)
            return self._file.ask(change, self._timeout_seconds)

        return self._told(make)

    def tables_of(self, pipeline: str) -> list[str]:
        own, digits = table_name(pipeline, ""), len(new_incarnation())  # and of no pipeline-more
        found: list[tuple[str]] = self._asked(lambda c: c.execute("SELECT name FROM stores").fetchall(), [])
        return [name for (name,) in found if name.startswith(own) and len(name) == len(own) + digits]

    def has(self, table: str) -> bool:
        sql = "SELECT count(*) FROM stores WHERE name = ?"
        return self._asked(lambda connection: bool(connection.execute(sql, (table,)).fetchone()[0]), False)

    def remove(self, table: str) -> None:
        self._told(lambda: delete_table(self._file, table, self._timeout_seconds))

    def _asked(self, ask: Callable[[Connection], T], without_file: T) -> T:
        return self._told(
            lambda: self._file.ask(ask, self._timeout_seconds) if self._file.exists() else without_file
        )

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except NoAnswer as error:
            raise StoreSilent(self._address, error.reply) from error


def _named(connection: Connection, pipeline: str) -> str | None:
    found = connection.execute("SELECT store FROM pipelines WHERE name = ?", (pipeline,)).fetchone()
    return None if found is None else str(found[0])
