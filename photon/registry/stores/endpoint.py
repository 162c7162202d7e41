"""One endpoint of a registry, whatever keeps its data: its directory, and its stores with their upkeep.

`dynamo` and `dynamo_directory` have them by the DynamoDB API, `sqlite` in a file of this machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from photon.registry.address import EndpointAddress
from photon.registry.errors import RegistryUnavailable
from photon.registry.stores.copies import Copy, Done, Key, NoReply, Store

WRITTEN_AT_ONCE = 25  # copies in one `fill`: the limit of DynamoDB's API


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
class Counted:
    """How many positions from `first` on have a value; 0: all of the ledger was looked through."""

    first: int
    values: int


@dataclass(frozen=True, slots=True)
class Endings:
    """The last bytes of values, which are entries' checksums, from a position through another (None: all)."""

    first: int
    through: int | None
    checksums: Mapping[int, bytes]


class UpkeepStore(Store, Protocol):
    """A store, with what upkeep asks of it beside."""

    table: str

    def touch(self) -> Done | NoReply:
        """Write something that changes no answer: whether it takes writes."""
        ...

    def size(self) -> StoreSize | NoReply:
        """How much it has, by its own count."""
        ...

    def count(self, ledger: str, below: int, most_pages: int) -> Counted | NoReply:
        """How many of the last positions below this one have a value, in at most so many pages."""
        ...

    def endings(self, first: Key) -> Endings | NoReply:
        """The checksums of a ledger's values from a position on, as many as one page has."""
        ...

    def last(self, ledger: str) -> int | NoReply:
        """The last position of a ledger that has an item; -1 without one."""
        ...

    def fill(self, copies: Sequence[tuple[Key, Copy]]) -> int | NoReply:
        """Put these copies, whatever is there: how many of them are in. For a store that nobody else asks."""
        ...


class Directory(Protocol):
    """The tables at an endpoint, and which of them belongs to which pipeline (protocol B9).

    A table's name has the incarnation of the store in it; the register's members say which incarnation
    counts. Methods raise StoreSilent, which names the endpoint, if it does not answer.
    """

    def table_of(self, pipeline: str) -> str | None:
        """The table that is named for a pipeline; None if there is none."""
        ...

    def ensure_table_of(self, pipeline: str) -> str:
        """The pipeline's table, made if there is none; of two who make one at once, that of the first."""
        ...

    def replace_table_of(self, pipeline: str, old: str | None, new: str) -> bool:
        """Make a table and name it for the pipeline, if `old` is what is named."""
        ...

    def tables_of(self, pipeline: str) -> list[str]:
        """All tables of a pipeline that are there, also those that are named no more."""
        ...

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        ...

    def remove(self, table: str) -> None:
        """Remove a table, if it is there."""
        ...


class Endpoint(Protocol):
    """One endpoint: nobody is asked before its directory or a store of it is."""

    @property
    def directory(self) -> Directory:
        """What tables it has. One thread asks it at a time."""
        ...

    def store(self, table: str) -> UpkeepStore:
        """The store that a table is; it need not be there."""
        ...


def new_incarnation() -> str:
    """A random name for a store that is empty: 16 hex digits."""
    return secrets.token_hex(8)
