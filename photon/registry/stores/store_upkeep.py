"""What upkeep asks one store beside positions: how it is, what it has of a ledger, and filling it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from photon.registry.address import LedgersAddress, tables_of
from photon.registry.register import Members
from photon.registry.stores.copies import REGISTER_KEY, Copy, Done, Key, NoReply
from photon.registry.stores.directory import ADMIN_TIMEOUT
from photon.registry.stores.dynamo import DynamoStore, attributes, copy_attributes
from photon.registry.stores.opening import Connection

FILLED_AT_ONCE = 25  # items in one request: the API's limit


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


class StoreUpkeep(DynamoStore):
    """A store, and what upkeep asks of it. Each method is one request, or as many as it says."""

    def touch(self) -> Done | NoReply:
        """Write its register over itself: whether it takes writes."""
        return self._call(
            lambda client: client.update_item(
                TableName=self.table,
                Key=attributes(REGISTER_KEY),
                UpdateExpression="SET b = b",
                ConditionExpression="attribute_exists(b)",
                ReturnConsumedCapacity="TOTAL",
            ),
            lambda _: Done(),
            lambda _: Done(),  # its register comes with the next change
        )

    def size(self) -> StoreSize | NoReply:
        """How much it has, by its own count."""

        def read(response: Mapping[str, Any]) -> StoreSize:
            table = response["Table"]
            return StoreSize(table.get("ItemCount") or None, table.get("TableSizeBytes") or None)

        return self._call(lambda client: client.describe_table(TableName=self.table), read)

    def count(self, ledger: str, below: int, most_pages: int) -> Counted | NoReply:
        """How many of the last positions below this one have a value, in at most so many pages of 1 MB."""
        found = 0
        after: Any = None
        for _ in range(most_pages):
            page = self._call(
                partial(self._count, ledger=ledger, below=below, after=after),
                lambda response: (int(response["Count"]), response.get("LastEvaluatedKey")),
            )
            if isinstance(page, NoReply):
                return page
            found, after = found + page[0], page[1]
            if after is None:
                return Counted(0, found)
        return Counted(int(after["s"]["N"]), found)

    def _count(self, client: Any, ledger: str, below: int, after: Any) -> Any:
        return client.query(
            TableName=self.table,
            ConsistentRead=True,
            ScanIndexForward=False,
            Select="COUNT",
            KeyConditionExpression="p = :p AND s < :s",
            FilterExpression="attribute_exists(v)",
            ExpressionAttributeValues={":p": {"S": ledger}, ":s": {"N": str(below)}},
            **({} if after is None else {"ExclusiveStartKey": after}),
        )

    def endings(self, first: Key) -> Endings | NoReply:
        """The checksums of a ledger's values from a position on, as many as one page has."""

        def read(response: Mapping[str, Any]) -> Endings:
            there = {int(i["s"]["N"]): bytes(i["e"]["B"]) for i in response["Items"] if "e" in i}
            last = response.get("LastEvaluatedKey")
            return Endings(first.position, None if last is None else int(last["s"]["N"]), there)

        return self._call(lambda client: self._query(client, first, ProjectionExpression="s, e"), read)

    def last(self, ledger: str) -> int | NoReply:
        """The last position of a ledger that has an item; -1 without one."""
        return self._call(
            lambda client: client.query(
                TableName=self.table,
                ConsistentRead=True,
                ScanIndexForward=False,
                Limit=1,
                ProjectionExpression="s",
                KeyConditionExpression="p = :p",
                ExpressionAttributeValues={":p": {"S": ledger}},
            ),
            lambda response: int(response["Items"][0]["s"]["N"]) if response["Items"] else -1,
        )

    def fill(self, copies: Sequence[tuple[Key, Copy]]) -> int | NoReply:
        """Put these copies, whatever is there: how many of them are in. For a store that nobody else asks."""
        puts = [{"PutRequest": {"Item": copy_attributes(key, copy)}} for key, copy in copies]
        return self._call(lambda client: self._write_batch(client, puts), lambda count: count)


def upkeep_stores(address: LedgersAddress, members: Members) -> list[StoreUpkeep]:
    """The stores of these members, by slot, for one thread each."""
    tables = tables_of(address.pipeline, members)
    return [
        StoreUpkeep(table, Connection(endpoint, ADMIN_TIMEOUT, 1))
        for endpoint, table in zip(address.endpoints, tables, strict=True)
    ]
