"""One endpoint of a registry: an acceptor over the DynamoDB API.

The statements of protocol B, tried on DynamoDB Local 2.6.1 and dynoxide 1.2.1 and 3.2.0. What AWS alone
enforces, such as `ConsistentRead`, tests look for in the requests (protocol B17).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

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
    Stored,
    StoreSize,
    Unchanged,
    WriteReply,
)
from photon.registry.consensus.layout import ABOVE_CLEARED, ItemKey
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
    write_reply,
)
from photon.registry.dynamodb.wire import CredentialsMissing
from photon.registry.interface import RegistryUnavailable

# The limits of DynamoDB for one request.
STATEMENTS_PER_REQUEST = 25
STATEMENTS_PER_TRANSACTION = 100
KEYS_PER_READ = 100

_CONSUMED = "TOTAL"  # asked for: an answer that has it is of a transaction

# Then write singly: transactions could cancel each other for ever.
TRANSACTION_TRIES = 3

T = TypeVar("T")
Row = tuple[str, ...]  # the parameters of one statement
Write = tuple[str, Row]  # a statement and its parameters; the request is made of it as it goes out


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
        self._lock = threading.Lock()

    # -- the acceptor

    def insert(self, batch: Sequence[Insert]) -> list[WriteReply]:
        statement = f"INSERT INTO \"{self.table}\" VALUE {{'p': ?, 's': ?, 'e': ?, 't': ?}}"
        writes = [(statement, (i.key.p, i.key.s, i.time, i.value)) for i in batch]
        return [write_reply(answer) for answer in self._write(writes, as_puts=True)]

    def read(self, batch: Sequence[ItemKey]) -> list[ReadReply]:
        keys = [{"p": {"S": key.p}, "s": {"S": key.s}} for key in batch]
        request = {self.table: {"Keys": keys, "ConsistentRead": True}}
        replies = self._call(
            lambda client: client.batch_get_item(RequestItems=request),
            lambda response: items_of(response, self.table, batch),
        )
        return [replies] * len(batch) if isinstance(replies, NoReply) else replies

    def prepare(self, batch: Sequence[Prepare]) -> list[PrepareReply]:
        update = f'UPDATE "{self.table}" SET b = ? WHERE p = ? AND s = ? AND (b IS MISSING OR b < ?)'
        rows = [(p.ballot, p.key.p, p.key.s, p.ballot) for p in batch]
        if self._transactions:
            replies = self._promised(batch, self._write([(update, row) for row in rows]))
        else:
            returning = update + " RETURNING ALL OLD *"
            answers = self._write([(returning, row) for row in rows])
            replies = [
                promised_before(answer, prepare.key) if is_done(answer) else write_reply(answer)
                for prepare, answer in zip(batch, answers, strict=True)
            ]
        insert = f"INSERT INTO \"{self.table}\" VALUE {{'p': ?, 's': ?, 'e': ?, 'b': ?}}"
        new = [(p.key.p, p.key.s, p.time, p.ballot) for p in batch]
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

    def accept(self, batch: Sequence[Accept]) -> list[AcceptReply]:
        # What is cleared stays cleared: a proposer who prepared before that would bring the token back (B6).
        statement = (
            # One SET with commas: dynoxide 1.2.1 takes no second SET.
            f'UPDATE "{self.table}" SET b = ?, a = ?, t = ?'
            " WHERE p = ? AND s = ? AND (b IS MISSING OR b <= ?) AND (t IS MISSING OR t > ? OR t = ?)"
        )
        rows = [
            (x.ballot, x.ballot, x.value, x.key.p, x.key.s, x.ballot, ABOVE_CLEARED, x.value) for x in batch
        ]
        replies = [write_reply(answer) for answer in self._write([(statement, row) for row in rows])]
        insert = f"INSERT INTO \"{self.table}\" VALUE {{'p': ?, 's': ?, 'e': ?, 'b': ?, 'a': ?, 't': ?}}"
        new = [(x.key.p, x.key.s, x.time, x.ballot, x.ballot, x.value) for x in batch]
        return self._insert_where_absent(insert, new, replies, Done())

    def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
        statement = f'UPDATE "{self.table}" SET t = ? WHERE p = ? AND s = ? AND t = ?'
        answers = self._write([(statement, (r.new, r.key.p, r.key.s, r.old)) for r in batch])
        return [write_reply(answer) for answer in answers]

    def delete(self, batch: Sequence[Delete]) -> list[WriteReply]:
        whole = f'DELETE FROM "{self.table}" WHERE p = ? AND s = ?'
        writes: list[Write] = [
            (f"{whole} AND e = ?", (d.key.p, d.key.s, d.time)) if d.time else (whole, (d.key.p, d.key.s))
            for d in batch
        ]
        return [write_reply(answer) for answer in self._write(writes)]

    def scan(self, after: ItemKey | None, limit: int) -> Page | NoReply:
        return self._page("scan", after, limit, {})

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        condition = "p = :p AND s < :s" if below else "p = :p"
        values = {":p": {"S": shard}, **({":s": {"S": below}} if below else {})}
        where = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values}
        return self._page("query", after, limit, where)

    def size(self) -> StoreSize | NoReply:
        return self._call(lambda client: client.describe_table(TableName=self.table), size_of)

    def _page(
        self, operation: str, after: ItemKey | None, limit: int, where: Mapping[str, Any]
    ) -> Page | NoReply:
        request: dict[str, Any] = {"TableName": self.table, "ConsistentRead": True, "Limit": limit, **where}
        if after is not None:
            request["ExclusiveStartKey"] = {"p": {"S": after.p}, "s": {"S": after.s}}
        return self._call(lambda client: getattr(client, operation)(**request), page_of)

    # -- requests

    def _insert_where_absent(
        self, statement: str, rows: Sequence[Row], update_replies: Sequence[Any], done: Promised | Done
    ) -> list[Any]:
        """Complete the replies of updates that met no item, or a higher ballot.

        An update says the same of both (Unchanged). A read tells them apart, and an insert decides.
        """
        replies = list(update_replies)
        refused = [index for index, reply in enumerate(replies) if isinstance(reply, Unchanged)]
        if not refused:
            return replies
        now = self.read([ItemKey(*rows[index][:2]) for index in refused])
        for index, stored in zip(refused, now, strict=True):
            replies[index] = Refused(stored) if isinstance(stored, Stored) else stored
        absent = [index for index in refused if replies[index] == Refused(ABSENT)]
        answers = self._write([(statement, rows[index]) for index in absent])
        for index, answer in zip(absent, answers, strict=True):
            reply = write_reply(answer)
            if isinstance(reply, Done):
                replies[index] = done
            elif isinstance(reply, NoReply):
                replies[index] = reply
            # else somebody was faster: refused, and the next round sees what is there
        return replies

    def _write(self, writes: Sequence[Write], as_puts: bool = False) -> list[Answer]:
        """The answer to each write; the outcome of each is independent of the others.

        A transaction is done as a whole or not at all. One that is cancelled goes again without the writes
        that it was cancelled for; after a few tries each write goes for itself. `as_puts`: send inserts as
        puts in transactions; DynamoDB Local takes 1.2 times as many.
        """
        answers: dict[int, Answer] = {}
        left = list(range(len(writes)))
        for _ in range(TRANSACTION_TRIES if self._transactions else 0):
            if left:
                together = self._transact([writes[index] for index in left], as_puts)
                answers.update((i, a) for i, a in zip(left, together, strict=True) if a is not None)
                left = [index for index in left if index not in answers]
        for start in range(0, len(left), STATEMENTS_PER_REQUEST):
            part = left[start : start + STATEMENTS_PER_REQUEST]
            answers.update(zip(part, self._batch([writes[index] for index in part]), strict=True))
        return [answers[index] for index in range(len(writes))]

    def _transact(self, writes: Sequence[Write], as_puts: bool) -> Sequence[Answer | None]:
        """The answers of one transaction; None for each write to send again."""

        def request(client: Any) -> Any:
            try:
                if as_puts:
                    puts = [_put_if_absent(self.table, row) for _, row in writes]
                    return client.transact_write_items(TransactItems=puts, ReturnConsumedCapacity=_CONSUMED)
                return client.execute_transaction(
                    TransactStatements=_statements(writes), ReturnConsumedCapacity=_CONSUMED
                )
            except ClientError as error:
                if error_code(error.response) != CANCELLED:
                    raise
                return error.response

        answers = self._call(request, lambda response: transaction_answers(response, len(writes)))
        return [answers] * len(writes) if isinstance(answers, NoReply) else answers

    def _batch(self, writes: Sequence[Write]) -> Sequence[Answer]:
        """The answers of one batch, in which each statement goes for itself."""
        answers = self._call(
            lambda client: client.batch_execute_statement(Statements=_statements(writes)),
            lambda response: batch_answers(response, len(writes)),
        )
        return [answers] * len(writes) if isinstance(answers, NoReply) else answers

    def _call(self, request: Callable[[Any], Any], read: Callable[[Any], T]) -> T | NoReply:
        """What the response says, or NoReply: in spite of any error the request may have been applied."""
        try:
            client = self._connected()
        except (RegistryUnavailable, ValueError) as error:  # ValueError: a proxy's URL that is none
            return NoReply(str(error), "unreachable")
        try:
            return read(request(client))
        except ClientError as error:
            return no_reply(error.response)
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
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _disconnect(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None


# -- how requests are written


def _statements(writes: Sequence[Write]) -> list[Mapping[str, Any]]:
    return [
        {"Statement": statement, "Parameters": [{"S": text} for text in row]} for statement, row in writes
    ]


def _put_if_absent(table: str, row: Row) -> Mapping[str, Any]:
    item = {name: {"S": text} for name, text in zip("pset", row, strict=True)}
    return {"Put": {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(p)"}}
