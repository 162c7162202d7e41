"""What a cancelled transaction says, with a client that answers from a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from photon.ledger.stores.copies import Done, NoReply
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import ABSENT, Insert, Prepare, Promised, Refused, Stored, Unchanged
from photon.registry.consensus.layout import ItemKey, stored_time
from photon.registry.dynamodb.acceptor import TRANSACTION_TRIES, DynamoAcceptor
from photon.registry.interface import Claim
from tests.simulation.keyword_client import KeywordClient

DUPLICATE_LOCAL = {"Code": "ValidationError", "Message": "Duplicate primary key exists in table"}
DUPLICATE_AWS = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}
THERE_ALREADY = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}  # of a put
NOT_THE_CAUSE = {"Code": "None"}
CONFLICT = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
THROTTLED = {"Code": "ThrottlingError", "Message": "slow down"}
DONE = {"ConsumedCapacity": [{"TableName": "table", "CapacityUnits": 2.0}]}
A, B, C = (Insert(ItemKey("p", s), "T:east:e:1#p:1:0") for s in "abc")


def cancelled(*reasons: dict[str, str]) -> ClientError:
    response = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": list(reasons)}
    return ClientError(response, "ExecuteTransaction")


class Scripted(KeywordClient):
    """Answers transactions from the script, then with the last answer again; None: done."""

    def __init__(self, *script: Exception | dict[str, Any] | None) -> None:
        self._script = list(script)
        self.transactions: list[str] = []  # the keys of each
        self.batches: list[str] = []
        self.times: list[str] = []

    def transact_write_items(self, TransactItems: Sequence[Any], **_: Any) -> Any:
        items = [write["Put"]["Item"] for write in TransactItems]
        self.times += [item["e"]["S"] for item in items]
        return self._answer("".join(item["s"]["S"] for item in items))

    def _answer(self, keys: str) -> Any:
        self.transactions.append(keys)
        answer = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(answer, Exception):
            raise answer
        return DONE if answer is None else answer

    def batch_execute_statement(self, Statements: Sequence[Any]) -> Any:
        self.batches.append(keys_of(Statements))
        return {"Responses": [{} for _ in Statements]}


def keys_of(statements: Sequence[Any]) -> str:
    return "".join(statement["Parameters"][1]["S"] for statement in statements)


def insert(client: Scripted) -> list[Any]:
    return list(DynamoAcceptor("table", lambda: client, transactions=True).insert([A, B, C]))


@pytest.mark.parametrize("duplicate", [DUPLICATE_LOCAL, DUPLICATE_AWS, THERE_ALREADY])
def test_what_is_there_already_is_left_out_of_the_next_transaction(duplicate: dict[str, str]) -> None:
    client = Scripted(cancelled(NOT_THE_CAUSE, duplicate, NOT_THE_CAUSE), None)
    assert insert(client) == [Done(), Unchanged(), Done()]
    assert (client.transactions, client.batches) == (["abc", "ac"], [])


def test_a_transaction_of_nothing_but_duplicates_is_not_repeated() -> None:
    client = Scripted(cancelled(*[DUPLICATE_LOCAL] * 3))
    assert insert(client) == [Unchanged()] * 3
    assert (client.transactions, client.batches) == (["abc"], [])


def test_a_conflict_is_tried_again() -> None:
    client = Scripted(cancelled(CONFLICT, NOT_THE_CAUSE, NOT_THE_CAUSE), None)
    assert insert(client) == [Done()] * 3
    assert client.transactions == ["abc", "abc"]


def test_under_endless_contention_each_insert_goes_for_itself_after_a_few_tries() -> None:
    client = Scripted(cancelled(CONFLICT, CONFLICT, NOT_THE_CAUSE))
    assert insert(client) == [Done()] * 3
    assert (client.transactions, client.batches) == (["abc"] * TRANSACTION_TRIES, ["abc"])


def test_a_throttled_insert_is_left_to_a_later_attempt_and_does_not_hold_up_the_others() -> None:
    client = Scripted(cancelled(NOT_THE_CAUSE, THROTTLED, NOT_THE_CAUSE), None)
    assert insert(client) == [Done(), NoReply("ThrottlingError: slow down", "throttled"), Done()]


@pytest.mark.parametrize("code", ["ValidationError", "NobodyKnows"])
def test_a_reason_that_is_not_understood_is_no_duplicate_and_the_batch_says_what_it_is(code: str) -> None:
    unclear = {"Code": code, "Message": "range primary key values must be under 1024 bytes"}
    client = Scripted(cancelled(unclear, NOT_THE_CAUSE, NOT_THE_CAUSE))
    assert insert(client) == [Done()] * 3
    assert client.batches == ["abc"]


@pytest.mark.parametrize("answer", [{}, {"status": "ok"}, {"Responses": None}, {"ConsumedCapacity": "2"}])
def test_an_answer_that_is_not_one_to_a_transaction_does_not_say_that_it_was_done(
    answer: dict[str, Any],
) -> None:
    client = Scripted(answer)
    assert [type(reply) for reply in insert(client)] == [NoReply] * 3
    assert [type(reply) for reply in prepare(Stateful(answer))] == [NoReply] * 2


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "ThrottlingException"}}, "ExecuteTransaction"),
        ClientError({"Error": {"Code": "InternalServerError"}}, "ExecuteTransaction"),
        ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "ExecuteTransaction"),
        ConnectionClosedError(endpoint_url="http://gone"),
        cancelled(),  # without reasons
        cancelled(DUPLICATE_LOCAL),  # with fewer reasons than inserts: whose are they?
    ],
)
def test_any_other_error_is_no_reply_for_all(error: Exception) -> None:
    client = Scripted(error)
    assert [type(reply) for reply in insert(client)] == [NoReply] * 3
    assert (client.transactions, client.batches) == (["abc"], [])


@pytest.mark.parametrize(
    ("claim", "stored"),
    [
        (Claim(EventKey("c", at_us=5), "t"), f"{2**63 + 5:020d}"),
        (Claim(EventKey("c", time_us=5), "t"), ""),
        (Claim(EventKey("c"), "t"), ""),
    ],
    ids=["id without a time", "id with its time", "nobody said"],
)
def test_an_item_keeps_the_time_of_its_event_where_its_key_has_none(claim: Claim, stored: str) -> None:
    client = Scripted(None)
    made = Insert(ItemKey("p", "a"), "T:east:e:1#p:1:0", stored_time(claim))
    DynamoAcceptor("table", lambda: client, transactions=True).insert([made])
    assert client.times == [stored]


# -- conditional writes

REFUSED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
OWN, HIGHER = ballot(1, "0" * 16), ballot(2, "0" * 16)


class Stateful(Scripted):
    """The same, and reads find these items."""

    def __init__(self, *script: Exception | None, **items: dict[str, str]) -> None:
        super().__init__(*script)
        self._items = items

    def execute_transaction(self, TransactStatements: Sequence[Any], **_: Any) -> Any:
        # An update names the key after what it sets.
        return self._answer("".join(s["Parameters"][-2]["S"] for s in TransactStatements))

    def batch_get_item(self, RequestItems: Any) -> Any:
        ((table, wanted),) = RequestItems.items()
        keys = [key["s"]["S"] for key in wanted["Keys"]]
        found = [
            {name: {"S": text} for name, text in {"p": "p", "s": key, **self._items[key]}.items()}
            for key in keys
            if key in self._items
        ]
        return {"Responses": {table: found}, "UnprocessedKeys": {}}


def prepare(client: Stateful) -> list[Any]:
    acceptor = DynamoAcceptor("table", lambda: client, transactions=True)
    return list(acceptor.prepare([Prepare(ItemKey("p", s), OWN) for s in "ab"]))


def test_a_promise_made_in_a_transaction_tells_what_a_read_afterwards_finds() -> None:
    client = Stateful(None, a={"b": OWN, "t": "T:x"}, b={"b": OWN})
    assert prepare(client) == [Promised(Stored("T:x", promised=OWN)), Promised(Stored(promised=OWN))]
    assert client.transactions == ["ab"]


def test_a_promise_that_was_overtaken_before_the_read_is_none() -> None:
    client = Stateful(None, a={"b": HIGHER, "a": HIGHER, "t": "T:x"}, b={"b": OWN})
    overtaken, promised = prepare(client)
    assert overtaken == Refused(Stored("T:x", HIGHER, HIGHER))
    assert promised == Promised(Stored(promised=OWN))


def test_a_promise_that_gc_deleted_before_the_read_is_none() -> None:
    assert prepare(Stateful(None, b={"b": OWN})) == [Refused(ABSENT), Promised(Stored(promised=OWN))]


def test_a_refused_promise_is_left_out_of_the_next_transaction() -> None:
    client = Stateful(cancelled(REFUSED, NOT_THE_CAUSE), None, a={"b": HIGHER}, b={"b": OWN})
    assert prepare(client) == [Refused(Stored(promised=HIGHER)), Promised(Stored(promised=OWN))]
    assert client.transactions == ["ab", "b"]
