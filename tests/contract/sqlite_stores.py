"""The SQLite store of a local registry, as its tests use it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from photon.registry.address import EndpointAddress
from photon.registry.stores.copies import Key, NoReply
from photon.registry.stores.sqlite.endpoint import SqliteEndpoint
from photon.registry.stores.sqlite.store import SqliteStore
from tests.support.registry_claimants import FORKS

AT = Key("1.0-0", 0)
PATIENT = timedelta(seconds=60)


def at(position: int) -> Key:
    return Key("1.0-0", position)


def store_in(folder: Path, timeout: timedelta = PATIENT) -> SqliteStore:
    """The store of a pipeline in this folder, made if need be."""
    endpoint = SqliteEndpoint(EndpointAddress(folder), timeout)
    return endpoint.store(endpoint.directory.ensure_table_of("events"))


def kind_of(reply: object) -> str:
    assert isinstance(reply, NoReply), reply
    return reply.kind


def value_at(store: SqliteStore, position: int) -> bytes | None:
    found = store.get(at(position))
    assert not isinstance(found, NoReply), found
    return found.value


def in_a_process(work: Callable[..., None], *arguments: object) -> Any:
    """What `work` sends, from a process that it may spoil."""
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=work, args=(*arguments, theirs))
    process.start()
    try:
        assert ours.poll(60), "no answer"
        return ours.recv()
    finally:
        process.kill()
        process.join()
