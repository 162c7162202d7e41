"""One store by the DynamoDB API, through boto3: the requests of `copies.Store`, one attempt each (B1, B2).

Tried on dynoxide 1.2.1 and 3.2.0 and DynamoDB Local 2.6.1: all three return the item that is in the way of a
conditional put or update (`ReturnValuesOnConditionCheckFailure`). A server that does not is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from photon.registry.errors import RegistryUnavailable
from photon.registry.fields import CHECKSUM_BYTES
from photon.registry.stores.answers import ERRORS, error_code, no_reply
from photon.registry.stores.copies import (
    ABSENT,
    FAST_BALLOT,
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

# `p`: the ledger, `s`: the position, so that a Query reads them in order. `v`, `a`, `b`: see `Copy`.
# `n`: the number of a sign of life, which has no other of them.
LEDGER_TABLE: Mapping[str, Any] = {
    "AttributeDefinitions": [
        {"AttributeName": "p", "AttributeType": "S"},
        {"AttributeName": "s", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
DELETES_PER_REQUEST = 25  # the API's limit
FORGOTTEN_AT_ONCE = 200  # items of a ledger: a quarter of a second, in which other requests wait for a thread
_TIMEOUTS = (ReadTimeoutError, ConnectTimeoutError)
_CONDITION_FAILED = "ConditionalCheckFailedException"
# A refused write returns the item in its way. A write that was done says what it consumed: a proxy's empty
# page does not.
_WRITE = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD", "ReturnConsumedCapacity": "TOTAL"}

T = TypeVar("T")
Response = Mapping[str, Any]


class DynamoStore:
    """The items of one table at one endpoint.

    `connect` returns a client of boto3, and may start a local server first, or raise RegistryUnavailable. It
    is called again after a connection failed.
    """

    def __init__(self, table: str, connect: Callable[[], Any]) -> None:
        self.table = table
        self._connect = connect
        self._client: Any = None
        self._failed: Exception | None = None  # the last try to connect that did
        self._lock = threading.Lock()

    def insert(self, insert: Insert) -> Done | Refused | NoReply:
        item = {**attributes(insert.key), "v": {"B": insert.value}, "e": {"B": _end(insert.value)}}
        return self._write(
            lambda client: client.put_item(
                TableName=self.table, Item=item, ConditionExpression="attribute_not_exists(p)", **_WRITE
            ),
            lambda _: Done(),
            insert.key,
        )

    def prepare(self, prepare: Prepare) -> Promised | Refused | NoReply:
        return self._write(
            lambda client: client.update_item(
                TableName=self.table,
                Key=attributes(prepare.key),
                UpdateExpression="SET b = :b",
                ConditionExpression="attribute_not_exists(b) OR b < :b",
                ExpressionAttributeValues={":b": {"S": prepare.ballot}},
                ReturnValues="ALL_OLD",
                **_WRITE,
            ),
            lambda response: Promised(_copy(response.get("Attributes", {}))),
            prepare.key,
        )

    def accept(self, accept: Accept) -> Done | Refused | NoReply:
        return self._write(
            lambda client: client.update_item(
                TableName=self.table,
                Key=attributes(accept.key),
                UpdateExpression="SET b = :b, a = :b, v = :v, e = :e",
                ConditionExpression="attribute_not_exists(b) OR b <= :b",
                ExpressionAttributeValues={
                    ":b": {"S": accept.ballot},
                    ":v": {"B": accept.value},
                    ":e": {"B": _end(accept.value)},
                },
                **_WRITE,
            ),
            lambda _: Done(),
            accept.key,
        )

    def get(self, key: Key) -> Copy | NoReply:
        return self._call(
            lambda client: client.get_item(TableName=self.table, Key=attributes(key), ConsistentRead=True),
            lambda response: _copy(response["Item"]) if "Item" in response else ABSENT,
        )

    def ending(self, key: Key) -> bytes | NoReply:
        return self._call(
            lambda client: client.get_item(
                TableName=self.table, Key=attributes(key), ConsistentRead=True, ProjectionExpression="e"
            ),
            lambda response: bytes(response.get("Item", {}).get("e", {"B": b""})["B"]),
        )

    def page(self, first: Key) -> Page | NoReply:
        def read(response: Response) -> Page:
            copies = {int(item["s"]["N"]): _copy(item) for item in response["Items"]}
            last = response.get("LastEvaluatedKey")
            return Page(first.position, None if last is None else int(last["s"]["N"]), copies)

        return self._call(lambda client: self._query(client, first), read)

    def forget(self, ledger: str) -> int | NoReply:
        def delete(client: Any) -> int | NoReply:
            found = self._query(client, Key(ledger, 0), ProjectionExpression="p, s", Limit=FORGOTTEN_AT_ONCE)
            deletes = [{"DeleteRequest": {"Key": {"p": i["p"], "s": i["s"]}}} for i in found["Items"]]
            deleted = 0
            for first in range(0, len(deletes), DELETES_PER_REQUEST):
                deleted += self._write_batch(client, deletes[first : first + DELETES_PER_REQUEST])
            if deletes and not deleted:
                return NoReply("the store left all deletes unprocessed", "throttled")
            return deleted

        return self._call(delete, lambda count: count)

    def beat(self, key: Key, number: int) -> Done | NoReply:
        return self._call(
            lambda client: client.update_item(
                TableName=self.table,
                Key=attributes(key),
                UpdateExpression="SET n = :n",
                ConditionExpression="attribute_not_exists(n) OR n < :n",
                ExpressionAttributeValues={":n": {"N": str(number)}},
                ReturnConsumedCapacity="TOTAL",
            ),
            _done,
            lambda _: Done(),
        )

    def last_beat(self, key: Key) -> int | NoReply:
        return self._call(
            lambda client: client.get_item(TableName=self.table, Key=attributes(key), ConsistentRead=True),
            lambda response: int(response.get("Item", {}).get("n", {"N": "0"})["N"]),
        )

    # -- requests

    def _query(self, client: Any, first: Key, **more: Any) -> Any:
        return client.query(
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="p = :p AND s >= :s",
            ExpressionAttributeValues={":p": {"S": first.ledger}, ":s": {"N": str(first.position)}},
            **more,
        )

    def _write_batch(self, client: Any, requests: Sequence[Any]) -> int:
        """Put or delete several items at once: how many of these were done."""
        response = client.batch_write_item(RequestItems={self.table: requests})
        return len(requests) - len(response.get("UnprocessedItems", {}).get(self.table, []))

    def _write(
        self, request: Callable[[Any], Any], done: Callable[[Response], T], key: Key
    ) -> T | Refused | NoReply:
        def read(response: Response) -> T | Refused:
            _done(response)
            return done(response)

        reply: T | Refused | NoReply = self._call(request, read, _refused)
        if isinstance(reply, Refused) and reply.now == ABSENT:  # it says nothing of what is in the way
            there = self.get(key)
            return there if isinstance(there, NoReply) else Refused(there)
        return reply

    def _call(
        self,
        request: Callable[[Any], Any],
        read: Callable[[Any], T],
        refused: Callable[[Response], T] | None = None,
    ) -> T | NoReply:
        """What the response says, or NoReply: in spite of any error the request may have been applied."""
        try:
            client = self._connected()
        except (RegistryUnavailable, ValueError) as error:  # ValueError: a URL that is none
            return NoReply(str(error), "unreachable")
        try:
            return read(request(client))
        except ERRORS as error:
            if refused is not None and error_code(error) == _CONDITION_FAILED:
                return refused(cast(ClientError, error).response)
            if isinstance(error, BotoCoreError) and not isinstance(error, _TIMEOUTS):
                self._disconnect(client)  # refused or closed: a local server may have moved
            return no_reply(error)

    def _connected(self) -> Any:
        """A client. A start that failed is not tried again by each request that waited for it."""
        failed = self._failed
        with self._lock:
            if self._client is None:
                if self._failed is not failed and self._failed is not None:
                    raise self._failed
                try:
                    self._client = self._connect()
                except (RegistryUnavailable, ValueError) as error:
                    self._failed = error
                    raise
            return self._client

    def _disconnect(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None


def _done(response: Response) -> Done:
    if "ConsumedCapacity" not in response:
        raise ValueError("it does not say that the write was done")
    return Done()


def _refused(error: Response) -> Refused:
    return Refused(_copy(error.get("Item") or {}))


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
    """What can be read without the value: whether an entry is still there is asked at each append."""
    return value[-CHECKSUM_BYTES:]


def _copy(item: Response) -> Copy:
    """What an item says: without `v` there is no value, whatever else is there (protocol B8)."""
    value, accepted, promised = item.get("v"), item.get("a"), item.get("b")
    return Copy(
        None if value is None else bytes(value["B"]),
        FAST_BALLOT if accepted is None else str(accepted["S"]),
        FAST_BALLOT if promised is None else str(promised["S"]),
    )
