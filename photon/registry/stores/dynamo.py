"""One store by the DynamoDB API, through boto3: the requests of `copies.Store` and those of upkeep (B1, B2).

Each request is sent once.

Tried on dynoxide 1.2.1 and 3.2.0 and DynamoDB Local 2.6.1: all three return the item that is in the way of a
conditional put or update (`ReturnValuesOnConditionCheckFailure`). Where a server does not, a get follows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from photon.registry.fields import CHECKSUM_BYTES
from photon.registry.stores.answers import ERRORS, error_code, no_reply
from photon.registry.stores.copies import (
    ABSENT,
    FAST_BALLOT,
    REGISTER_KEY,
    Accept,
    Copy,
    Done,
    Insert,
    Key,
    NoReply,
    Page,
    Prepare,
    Promised,
    Refused,
)
from photon.registry.stores.endpoint import StoreSize, ValueCount

# `p`: the ledger, `s`: the position, so that a Query reads them in order. `v`, `a`, `b`: value and ballots of
# a `Copy`. `e`: the end of `v`. A sign of life has `n` alone, its number.
LEDGER_TABLE: Mapping[str, Any] = {
    "AttributeDefinitions": [
        {"AttributeName": "p", "AttributeType": "S"},
        {"AttributeName": "s", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
WRITTEN_AT_ONCE = 25  # items in one request: the API's limit
FORGOTTEN_AT_ONCE = 200  # items of a ledger: a quarter of a second, in which other requests wait for a thread
_TIMEOUTS = (ReadTimeoutError, ConnectTimeoutError)
_CONDITION_FAILED = "ConditionalCheckFailedException"

T = TypeVar("T")
Response = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Endings:
    """The last bytes of values, which are entries' checksums, from a position through another (None: all)."""

    first: int
    through: int | None
    checksums: Mapping[int, bytes]


class DynamoStore:
    """The items of one table at one endpoint.

    `connect` returns a client of boto3. It is called again after a connection failed.
    """

    def __init__(self, table: str, connect: Callable[[], Any]) -> None:
        self.table = table
        self._connect = connect
        self._client: Any = None
        self._lock = threading.Lock()

    def insert(self, insert: Insert) -> Done | Refused | NoReply:
        return self._write(
            "put_item",
            insert.key,
            lambda _: Done(),
            Item={**attributes(insert.key), "v": {"B": insert.value}, "e": {"B": _end(insert.value)}},
            ConditionExpression="attribute_not_exists(p)",
        )

    def prepare(self, prepare: Prepare) -> Promised | Refused | NoReply:
        return self._write(
            "update_item",
            prepare.key,
            lambda response: Promised(_copy(response.get("Attributes", {}))),
            Key=attributes(prepare.key),
            UpdateExpression="SET b = :b",
            ConditionExpression="attribute_not_exists(b) OR b < :b",
            ExpressionAttributeValues={":b": {"S": prepare.ballot}},
            ReturnValues="ALL_OLD",
        )

    def accept(self, accept: Accept) -> Done | Refused | NoReply:
        end = _end(accept.value)
        return self._write(
            "update_item",
            accept.key,
            lambda _: Done(),
            Key=attributes(accept.key),
            UpdateExpression="SET b = :b, a = :b, v = :v, e = :e",
            ConditionExpression="attribute_not_exists(b) OR b <= :b",
            ExpressionAttributeValues={
                ":b": {"S": accept.ballot},
                ":v": {"B": accept.value},
                ":e": {"B": end},
            },
        )

    def get(self, key: Key) -> Copy | NoReply:
        return self._get(key, lambda item: _copy(item) if item else ABSENT)

    def ending(self, key: Key) -> bytes | NoReply:
        return self._get(key, lambda item: _bytes(item, "e"), ProjectionExpression="e")

    def page(self, first: Key) -> Page | NoReply:
        return self._query(
            first,
            lambda items, through: Page(first.position, through, {at: _copy(i) for at, i in items.items()}),
        )

    def forget(self, ledger: str) -> int | NoReply:
        found = self._query(
            Key(ledger, 0), lambda items, _: list(items), ProjectionExpression="s", Limit=FORGOTTEN_AT_ONCE
        )
        if isinstance(found, NoReply):
            return found
        deleted = 0
        for first in range(0, len(found), WRITTEN_AT_ONCE):
            some = found[first : first + WRITTEN_AT_ONCE]
            keys = [attributes(Key(ledger, position)) for position in some]
            done = self._write_batch([{"DeleteRequest": {"Key": key}} for key in keys])
            if isinstance(done, NoReply):
                return done
            deleted += done
        if found and not deleted:
            return NoReply("the store left all deletes unprocessed", "throttled")
        return deleted

    def beat(self, key: Key, number: int) -> Done | NoReply:
        return self._call(
            "update_item",
            _done,
            lambda _: Done(),  # a greater number is there
            TableName=self.table,
            Key=attributes(key),
            UpdateExpression="SET n = :n",
            ConditionExpression="attribute_not_exists(n) OR n < :n",
            ExpressionAttributeValues={":n": {"N": str(number)}},
            ReturnConsumedCapacity="TOTAL",
        )

    def last_beat(self, key: Key) -> int | NoReply:
        return self._get(key, lambda item: int(item.get("n", {"N": "0"})["N"]))

    # -- what upkeep asks beside

    def touch(self) -> Done | NoReply:
        return self._call(
            "update_item",
            lambda _: Done(),
            lambda _: Done(),  # it has no register yet: the next change brings one
            TableName=self.table,
            Key=attributes(REGISTER_KEY),
            UpdateExpression="SET b = b",
            ConditionExpression="attribute_exists(b)",
            ReturnConsumedCapacity="TOTAL",
        )

    def size(self) -> StoreSize | NoReply:
        def read(response: Response) -> StoreSize:
            table = response["Table"]
            return StoreSize(table.get("ItemCount") or None, table.get("TableSizeBytes") or None)

        return self._call("describe_table", read, TableName=self.table)

    def count(self, ledger: str, below: int, most_pages: int) -> ValueCount | NoReply:
        found, after = 0, dict[str, Any]()
        for _ in range(most_pages):
            page = self._call(
                "query",
                lambda response: (int(response["Count"]), response.get("LastEvaluatedKey")),
                TableName=self.table,
                ConsistentRead=True,
                ScanIndexForward=False,
                Select="COUNT",
                KeyConditionExpression="p = :p AND s < :s",
                FilterExpression="attribute_exists(v)",
                ExpressionAttributeValues={":p": {"S": ledger}, ":s": {"N": str(below)}},
                **after,
            )
            if isinstance(page, NoReply):
                return page
            found += page[0]
            if page[1] is None:
                return ValueCount(0, found)
            after = {"ExclusiveStartKey": page[1]}
        return ValueCount(int(after["ExclusiveStartKey"]["s"]["N"]), found)

    def endings(self, first: Key) -> Endings | NoReply:
        """The checksums of a ledger's values from a position on, as many as one page has."""

        def read(items: Mapping[int, Response], through: int | None) -> Endings:
            return Endings(
                first.position, through, {at: _bytes(i, "e") for at, i in items.items() if "e" in i}
            )

        return self._query(first, read, ProjectionExpression="s, e")

    def last(self, ledger: str) -> int | NoReply:
        """The last position of a ledger that has an item; -1 without one."""
        return self._query(
            Key(ledger, 0),
            lambda items, _: max(items, default=-1),
            ScanIndexForward=False,
            Limit=1,
            ProjectionExpression="s",
        )

    def fill(self, copies: Sequence[tuple[Key, Copy]]) -> int | NoReply:
        """Put copies over what is there, and count those that are in. For a store that nobody else asks."""
        return self._write_batch(
            [{"PutRequest": {"Item": copy_attributes(key, copy)}} for key, copy in copies]
        )

    # -- requests

    def _get(self, key: Key, read: Callable[[Response], T], **more: Any) -> T | NoReply:
        """Read an item; an absent one is empty."""
        return self._call(
            "get_item",
            lambda response: read(response.get("Item", {})),
            TableName=self.table,
            Key=attributes(key),
            ConsistentRead=True,
            **more,
        )

    def _query(
        self, first: Key, read: Callable[[Mapping[int, Response], int | None], T], **more: Any
    ) -> T | NoReply:
        """Read a page: its items by position, and the last position that it covers; None: it covers all."""

        def of_page(response: Response) -> T:
            last = response.get("LastEvaluatedKey")
            items = {int(item["s"]["N"]): item for item in response["Items"]}
            return read(items, None if last is None else int(last["s"]["N"]))

        return self._call(
            "query",
            of_page,
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="p = :p AND s >= :s",
            ExpressionAttributeValues={":p": {"S": first.ledger}, ":s": {"N": str(first.position)}},
            **more,
        )

    def _write_batch(self, requests: Sequence[Any]) -> int | NoReply:
        """Put or delete several items at once, and count those that the store did."""
        return self._call(
            "batch_write_item",
            lambda response: len(requests) - len(response.get("UnprocessedItems", {}).get(self.table, [])),
            RequestItems={self.table: requests},
        )

    def _write(
        self, operation: str, key: Key, done: Callable[[Response], T], **request: Any
    ) -> T | Refused | NoReply:
        """Write on a condition, or return the item in its way."""

        def read(response: Response) -> T | Refused:
            _done(response)
            return done(response)

        reply: T | Refused | NoReply = self._call(
            operation,
            read,
            lambda error: Refused(_copy(error.get("Item") or {})),
            TableName=self.table,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            ReturnConsumedCapacity="TOTAL",
            **request,
        )
        if isinstance(reply, Refused) and reply.now == ABSENT:  # the server does not say what is in the way
            there = self.get(key)
            return there if isinstance(there, NoReply) else Refused(there)
        return reply

    def _call(
        self,
        operation: str,
        read: Callable[[Any], T],
        refused: Callable[[Response], T] | None = None,
        **request: Any,
    ) -> T | NoReply:
        """Read the response, or NoReply: in spite of any error the request may have been applied."""
        try:
            client = self._connected()
        except ValueError as error:  # the URL is none
            return NoReply(str(error), "unreachable")
        try:
            return read(getattr(client, operation)(**request))
        except ERRORS as error:
            if refused is not None and error_code(error) == _CONDITION_FAILED:
                return refused(cast(ClientError, error).response)
            if isinstance(error, BotoCoreError) and not isinstance(error, _TIMEOUTS):
                self._disconnect(client)  # the connection was refused, or is closed
            return no_reply(error)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _disconnect(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None


def _done(response: Response) -> Done:
    """Take a write as done if it says what it consumed: a proxy's empty page does not. ValueError."""
    if "ConsumedCapacity" not in response:
        raise ValueError("it does not say that the write was done")
    return Done()


def copy_attributes(key: Key, copy: Copy) -> dict[str, Any]:
    """The item of a copy."""
    item = attributes(key)
    if copy.value is not None:
        item |= {"v": {"B": copy.value}, "e": {"B": _end(copy.value)}}
    ballots = (("a", copy.accepted), ("b", copy.promised))
    return item | {name: {"S": text} for name, text in ballots if text != FAST_BALLOT}


def attributes(key: Key) -> dict[str, Any]:
    """The key of an item."""
    return {"p": {"S": key.ledger}, "s": {"N": str(key.position)}}


def _end(value: bytes) -> bytes:
    """The end of a value, which is read alone: each append asks whether the entry before is still there."""
    return value[-CHECKSUM_BYTES:]


def _bytes(item: Response, name: str) -> bytes:
    return bytes(item[name]["B"]) if name in item else b""


def _copy(item: Response) -> Copy:
    """The copy in an item: without `v` there is no value, whatever else is there (protocol B8)."""
    accepted, promised = item.get("a"), item.get("b")
    return Copy(
        _bytes(item, "v") if "v" in item else None,
        FAST_BALLOT if accepted is None else str(accepted["S"]),
        FAST_BALLOT if promised is None else str(promised["S"]),
    )
