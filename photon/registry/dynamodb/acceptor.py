"""One endpoint of a registry: an acceptor over the DynamoDB API.

The statements of protocol B, tried on DynamoDB Local 2.6.1 and dynoxide 1.2.1 and 3.2.0. What AWS alone
enforces, such as `ConsistentRead`, tests look for in the requests (protocol B17).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from photon.ledger.errors import RegistryUnavailable
from photon.registry.consensus.acceptor import (
    ABSENT,
    Accept,
    AcceptReply,
    Delete,
    Done,
    Insert,
    NoReply,
    Page,
    Prepare,
    PrepareReply,
    Promised,
    ReadReply,
    Refused,
    Replace,
    Same,
    Stored,
    StoreSize,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.columns import AcceptColumn, InsertColumn, ItemColumn
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.answers import (
    CANCELLED,
    UNREADABLE,
    Answer,
    batch_answers,
    denied,
    error_code,
    is_done,
    items_of,
    no_reply,
    page_of,
    promised_before,
    size_of,
    transaction_answers,
    write_replies,
    write_reply,
)
from photon.registry.dynamodb.bodies import (
    accepts_in_batch,
    accepts_in_transaction,
    inserts_in_batch,
    keys_to_read,
    puts_in_transaction,
)
from photon.registry.dynamodb.wire import CredentialsMissing

# The limits of DynamoDB for one request.
STATEMENTS_PER_REQUEST = 25
STATEMENTS_PER_TRANSACTION = 100
KEYS_PER_READ = 100

# Then write singly: transactions could cancel each other for ever.
TRANSACTION_TRIES = 3

T = TypeVar("T")
C = TypeVar("C", InsertColumn, AcceptColumn)
Row = tuple[str, ...]  # the parameters of one statement


class DynamoAcceptor:
    """The items of one table at one endpoint.

    `connect` returns a client, and may start a local server first, or raise RegistryUnavailable. It is called
    again after a connection failed. `transactions`: write in transactions, which pays where each write costs
    a sync of its own (docs/adr/0013-inserts-in-transactions.md).
    """

    reads_per_request = KEYS_PER_READ

    def __init__(self, table: str, connect: Callable[[], Any], transactions: bool = False) -> None:
        self.table = table
        self.writes_per_request = STATEMENTS_PER_TRANSACTION if transactions else STATEMENTS_PER_REQUEST
        self._transactions = transactions
        self._connect = connect
        self._client: Any = None
        self._failure: RegistryUnavailable | None = None  # the latest one of `connect`
        self._lock = threading.Lock()

    # -- the acceptor

    def insert(self, batch: Sequence[Insert]) -> Sequence[WriteReply]:
        return write_replies(
            self._write(_Columns(InsertColumn.of(batch), self.table, _PUTS, inserts_in_batch))
        )

    def read(self, batch: Sequence[ItemKey]) -> Sequence[ReadReply]:
        items = ItemColumn.of(batch)
        body = keys_to_read(items, self.table)
        replies = self._call(
            lambda client: client.post("batch_get_item", body),
            lambda response: items_of(response, self.table, items),
        )
        return Same(replies, len(items)) if isinstance(replies, NoReply) else replies

    def prepare(self, batch: Sequence[Prepare]) -> Sequence[PrepareReply]:
        update = f'UPDATE "{self.table}" SET b = ? WHERE p = ? AND s = ? AND (b IS MISSING OR b < ?)'
        rows = [(p.ballot, p.key.p, p.key.s, p.ballot) for p in batch]
        if self._transactions:
            replies = self._promised(batch, self._write(_Statements.of(update, rows)))
        else:
            answers = self._write(_Statements.of(update + " RETURNING ALL OLD *", rows))
            replies = [
                promised_before(answer, prepare.key) if is_done(answer) else write_reply(answer)
                for prepare, answer in zip(batch, answers, strict=True)
            ]
        insert = f"INSERT INTO \"{self.table}\" VALUE {{'p': ?, 's': ?, 'e': ?, 'b': ?}}"

        def new(index: int) -> Row:
            one = batch[index]
            return (one.key.p, one.key.s, one.time, one.ballot)

        return self._insert_where_absent(insert, new, replies, Promised(ABSENT))

    def _promised(self, batch: Sequence[Prepare], answers: Sequence[Answer]) -> list[Any]:
        """Replies to promises made in a transaction. It does not say what was there; a read afterwards does.

        As long as our promise is there, nothing was accepted since. So what we read was there before, or has
        been cleared since then, which we may know at any time. Without our promise, another one was faster.
        """
        replies: list[Any] = [write_reply(answer) for answer in answers]
        made = [index for index, reply in enumerate(replies) if isinstance(reply, Done)]
        there = self.read([batch[index].key for index in made]) if made else []
        for index, found in zip(made, there, strict=True):
            if isinstance(found, Stored):
                is_ours = found.promised == batch[index].ballot
                replies[index] = Promised(found) if is_ours else Refused(found)
            else:
                replies[index] = found
        return replies

    def accept(self, batch: Sequence[Accept]) -> Sequence[AcceptReply]:
        insert = f"INSERT INTO \"{self.table}\" VALUE {{'p': ?, 's': ?, 'e': ?, 'b': ?, 'a': ?, 't': ?}}"

        def new(index: int) -> Row:
            one = batch[index]
            return (one.key.p, one.key.s, one.time, one.ballot, one.ballot, one.value)

        replies = write_replies(
            self._write(_Columns(AcceptColumn.of(batch), self.table, _UPDATES, accepts_in_batch))
        )
        return self._insert_where_absent(insert, new, replies, Done())

    def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
        statement = f'UPDATE "{self.table}" SET t = ? WHERE p = ? AND s = ? AND t = ?'
        rows = [(r.new, r.key.p, r.key.s, r.old) for r in batch]
        return list(write_replies(self._write(_Statements.of(statement, rows))))

    def delete(self, batch: Sequence[Delete]) -> list[WriteReply]:
        whole = f'DELETE FROM "{self.table}" WHERE p = ? AND s = ?'
        writes: list[tuple[str, Row]] = [
            (f"{whole} AND e = ?", (d.key.p, d.key.s, d.time)) if d.time else (whole, (d.key.p, d.key.s))
            for d in batch
        ]
        return list(write_replies(self._write(_Statements(writes))))

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        values = {":p": {"S": shard}, **({":s": {"S": below}} if below else {})}
        request: dict[str, Any] = {
            "TableName": self.table,
            "ConsistentRead": True,
            "Limit": limit,
            "KeyConditionExpression": "p = :p AND s < :s" if below else "p = :p",
            "ExpressionAttributeValues": values,
        }
        if after is not None:
            request["ExclusiveStartKey"] = {"p": {"S": after.p}, "s": {"S": after.s}}
        return self._call(lambda client: client.query(**request), page_of)

    def size(self) -> StoreSize | NoReply:
        return self._call(lambda client: client.describe_table(TableName=self.table), size_of)

    # -- requests

    def _insert_where_absent(
        self, statement: str, new: Callable[[int], Row], update_replies: Sequence[Any], done: Promised | Done
    ) -> Sequence[Any]:
        """Complete the replies of updates that met no item, or a higher ballot.

        An update says the same of both (Unchanged). A read tells them apart, and an insert of the row that is
        `new` decides.
        """
        refused = [index for index, reply in enumerate(update_replies) if isinstance(reply, Unchanged)]
        if not refused:
            return update_replies
        replies, rows = list(update_replies), {index: new(index) for index in refused}
        now = self.read([ItemKey(*rows[index][:2]) for index in refused])
        for index, stored in zip(refused, now, strict=True):
            replies[index] = Refused(stored) if isinstance(stored, Stored) else stored
        absent = [index for index in refused if replies[index] == Refused(ABSENT)]
        answers = self._write(_Statements.of(statement, [rows[index] for index in absent]))
        for index, answer in zip(absent, answers, strict=True):
            reply = write_reply(answer)
            if isinstance(reply, Done):
                replies[index] = done
            elif isinstance(reply, NoReply):
                replies[index] = reply
            # else somebody was faster: refused, and the next round sees what is there
        return replies

    def _write(self, writes: _Writes) -> Sequence[Answer]:
        """The answer to each write; the outcome of each is independent of the others.

        A transaction is done as a whole or not at all. One that is cancelled goes again without the writes
        that it was cancelled for; after a few tries each write goes for itself.
        """
        answers: dict[int, Answer] = {}
        left = list(range(len(writes)))
        for _ in range(TRANSACTION_TRIES if self._transactions and left else 0):
            together = self._transact(writes.take(left))
            if isinstance(together, Same) and not answers:
                return cast(Same[Answer], together)
            answers.update((i, a) for i, a in zip(left, together, strict=True) if a is not None)
            left = [index for index in left if index not in answers]
            if not left:
                break
        for start in range(0, len(left), STATEMENTS_PER_REQUEST):
            part = left[start : start + STATEMENTS_PER_REQUEST]
            answers.update(zip(part, self._batch(writes.take(part)), strict=True))
        return [answers[index] for index in range(len(writes))]

    def _transact(self, writes: _Writes) -> Sequence[Answer | None]:
        """The answers of one transaction; None for each write to send again."""

        def request(client: Any) -> Any:
            try:
                return writes.transact(client)
            except ClientError as error:
                if error_code(error.response) != CANCELLED:
                    raise
                return error.response

        answers = self._call(request, lambda response: transaction_answers(response, len(writes)))
        return Same(answers, len(writes)) if isinstance(answers, NoReply) else answers

    def _batch(self, writes: _Writes) -> Sequence[Answer]:
        """The answers of one batch, in which each statement goes for itself."""
        answers = self._call(writes.batch, lambda response: batch_answers(response, len(writes)))
        return Same(answers, len(writes)) if isinstance(answers, NoReply) else answers

    def _call(self, request: Callable[[Any], Any], read: Callable[[Any], T]) -> T | NoReply:
        """What the response says, or NoReply: in spite of any error the request may have been applied."""
        try:
            client = self._connected()
        except (RegistryUnavailable, ValueError) as error:  # ValueError: a proxy's URL that is none
            return NoReply(str(error), "unreachable")
        try:
            return read(request(client))
        except ClientError as error:
            return _naming(client, no_reply(error.response))
        except CredentialsMissing as error:
            return denied(str(error))
        except (ReadTimeoutError, ConnectTimeoutError) as error:
            # It is slow: other requests to it go on, over the connections that they have.
            return NoReply(str(error), "unreachable")
        except BotoCoreError as error:  # connection refused or closed: a local server may have moved
            self._disconnect(client)
            return NoReply(str(error), "unreachable")
        except UNREADABLE as error:
            return NoReply(f"an answer that can't be read: {error!r}")

    def _connected(self) -> Any:
        failure = self._failure
        with self._lock:
            if self._client is None:
                if self._failure is not None and self._failure is not failure:
                    raise self._failure  # a server takes long to fail: who waited need not try it too
                try:
                    self._client = self._connect()
                except RegistryUnavailable as error:
                    self._failure = error
                    raise
            return self._client

    def _disconnect(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None


def _naming(client: Any, reply: NoReply) -> NoReply:
    """The reply with its endpoint, where the error could be anybody's."""
    url = getattr(client, "url", None)
    if reply.kind not in ("unclear", "throttled") or url is None:
        return reply
    return NoReply(f"{reply.reason} ({url})", reply.kind)


# -- how requests are written


class _Writes(Protocol):
    """Writes to distinct items, as requests of both kinds."""

    def __len__(self) -> int: ...

    def take(self, indices: Sequence[int]) -> _Writes:
        """Those with these indices."""
        ...

    def transact(self, client: Any) -> Any:
        """Send them as one transaction, whose answer says what it consumed."""
        ...

    def batch(self, client: Any) -> Any:
        """Send them as one batch."""
        ...


class _Statements:
    """Statements, each with its parameters."""

    def __init__(self, writes: Sequence[tuple[str, Row]]) -> None:
        self._writes = writes

    @staticmethod
    def of(statement: str, rows: Iterable[Row]) -> _Statements:
        """The same statement for each item."""
        return _Statements([(statement, row) for row in rows])

    def __len__(self) -> int:
        return len(self._writes)

    def take(self, indices: Sequence[int]) -> _Statements:
        return _Statements([self._writes[index] for index in indices])

    def transact(self, client: Any) -> Any:
        return client.execute_transaction(TransactStatements=self._json(), ReturnConsumedCapacity="TOTAL")

    def batch(self, client: Any) -> Any:
        return client.batch_execute_statement(Statements=self._json())

    def _json(self) -> list[Mapping[str, Any]]:
        return [
            {"Statement": statement, "Parameters": [{"S": text} for text in row]}
            for statement, row in self._writes
        ]


@dataclass(frozen=True, slots=True)
class _Columns(Generic[C]):
    """Writes in columns, with what writes the bodies of requests and how a transaction of them is called."""

    column: C
    table: str
    transaction: tuple[str, Callable[[C, str], bytes]]
    in_batch: Callable[[C, str], bytes]

    def __len__(self) -> int:
        return len(self.column)

    def take(self, indices: Sequence[int]) -> _Columns[C]:
        if len(indices) == len(self.column):
            return self  # with the body that is written already
        return replace(self, column=self.column.take(np.array(indices)))

    def transact(self, client: Any) -> Any:
        operation, body = self.transaction
        return client.post(operation, body(self.column, self.table))

    def batch(self, client: Any) -> Any:
        return client.post("batch_execute_statement", self.in_batch(self.column, self.table))


# DynamoDB Local takes 1.2 times as many inserts if they are puts.
_PUTS = ("transact_write_items", puts_in_transaction)
_UPDATES = ("execute_transaction", accepts_in_transaction)
