"""One endpoint of a registry, whatever keeps its data: its directory, and its stores with their upkeep.

`dynamo` and `dynamo_directory` have them by the DynamoDB API, `sqlite` in a file of this machine. A repair
fills one of several endpoints from the others: it knows those with the DynamoDB API alone.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol

from photon.registry.address import EndpointAddress
from photon.registry.errors import RegistryUnavailable
from photon.registry.stores.copies import Done, NoReply, Store


class StoreSilent(RegistryUnavailable):
    """The store gave no answer that we can use: `reply`, which does not name it, says why."""

    def __init__(self, endpoint: EndpointAddress, reply: NoReply) -> None:
        super().__init__(f"{endpoint} {reply.problem} ({reply.reason})")
        self.reply = reply


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Items and bytes of a store by its own count, on AWS up to six hours old; None: it does not count."""

    items: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many positions from `first` on have a value; 0: all of the ledger was looked through."""

    first: int
    values: int


class UpkeepStore(Store, Protocol):
    """A store, with what upkeep asks of it beside."""

    table: str

    def touch(self) -> Done | NoReply:
        """Write something that changes no answer: whether it takes writes."""
        ...

    def size(self) -> StoreSize | NoReply:
        """How much it has, by its own count."""
        ...

    def count(self, ledger: str, below: int, most_pages: int) -> ValueCount | NoReply:
        """How many of the last positions below this one have a value, in at most so many pages."""
        ...


class Directory(Protocol):
    """Which table of an endpoint belongs to which pipeline (protocol B9).

    A table's name has the incarnation of the store in it; the register's members say which incarnation
    counts. Methods raise StoreSilent, which names the endpoint, if it does not answer.
    """

    def table_of(self, pipeline: str) -> str | None:
        """The table that is named for a pipeline; None if there is none."""
        ...

    def ensure_table_of(self, pipeline: str) -> str:
        """The pipeline's table, made if there is none; of two who make one at once, that of the first."""
        ...


class StoreEndpoint(Protocol):
    """One endpoint: nobody is asked before its directory or a store of it is."""

    @property
    def directory(self) -> Directory:
        """Its tables. One thread asks it at a time."""
        ...

    def store(self, table: str) -> UpkeepStore:
        """The store that a table is; it need not be there."""
        ...


def new_incarnation() -> str:
    """A random name for a store that is empty: 16 hex digits."""
    return secrets.token_hex(8)
