"""What an endpoint's answers mean, bad ones above all: a server that answers from a script."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from photon.ledger.stores.copies import Done, NoReply
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import (
    ABSENT,
    Accept,
    Delete,
    Insert,
    Page,
    Prepare,
    Promised,
    ReadReply,
    Refused,
    Replace,
    Scanned,
    Stored,
    StoreSize,
    Unchanged,
)
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import access
from photon.registry.dynamodb.wire import WireClient
from photon.registry.interface import Claim, Joined, Won
from photon.testing.faulty_store import TIMED_OUT, FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.simulation.keyword_client import KeywordClient

TABLE = "photon-events-1"
A, B, C = (ItemKey("p", s) for s in "abc")
BALLOT = ballot(1, "0" * 16)


class Scripted:
    """An endpoint that gives one answer after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.script: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scripted.asked.append((self.headers["X-Amz-Target"].split(".")[1], body))
                status, answer = scripted.script.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        url = f"http://127.0.0.1:{self.server.server_port}"
        self.url = url
        client = WireClient(url, access("local"), 10, 2)
        self.acceptor = DynamoAcceptor(TABLE, lambda: client)

    def says(self, *answers: Any, status: int = 200) -> DynamoAcceptor:
        """Give these answers: bytes as they are, others as JSON."""
        self.script += [(status, a if isinstance(a, bytes) else json.dumps(a).encode()) for a in answers]
        return self.acceptor


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    thread = threading.Thread(target=scripted.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    scripted.server.shutdown()
    thread.join()
    scripted.server.server_close()


@pytest.fixture
def endpoint(server: Scripted) -> Scripted:
    server.script.clear()
    server.asked.clear()
    return server


def batch(*codes: str | None) -> dict[str, Any]:
    """The answer to a batch of statements: done, or an error of this code."""
    return {
        "Responses": [{} if code is None else {"Error": {"Code": code, "Message": "m"}} for code in codes]
    }


def inserts(*keys: ItemKey) -> list[Insert]:
    return [Insert(key, "T:east:e:1#p:1:0") for key in keys]


# -- part of a batch fails


@pytest.mark.parametrize(
    "code",
    [
        "TransactionConflict",
        "InternalServerError",
        "ItemCollectionSizeLimitExceeded",
        "ValidationError",
        "NobodyKnows",
    ],
)
def test_of_a_batch_only_the_inserts_that_failed_are_without_a_reply(endpoint: Scripted, code: str) -> None:
    replies = endpoint.says(batch(None, code, "DuplicateItem")).insert(inserts(A, B, C))
    assert replies == [Done(), NoReply(f"{code}: m"), Unchanged()]


def test_a_right_that_is_missing_for_one_insert_is_no_reply_of_a_kind_of_its_own(endpoint: Scripted) -> None:
    done, denied = endpoint.says(batch(None, "AccessDenied")).insert(inserts(A, B))
    assert done == Done()
    assert isinstance(denied, NoReply)
    assert denied.kind == "denied"
    assert denied.reason.startswith("AccessDenied: m; mend this endpoint's credentials or rights")


@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"])
def test_what_was_throttled_of_a_batch_says_so(endpoint: Scripted, code: str) -> None:
    replies = endpoint.says(batch(None, code, "DuplicateItem")).insert(inserts(A, B, C))
    assert replies == [Done(), NoReply(f"{code}: m", "throttled"), Unchanged()]


def test_a_condition_that_failed_says_nothing_of_the_item_until_it_is_read(endpoint: Scripted) -> None:
    there = {"p": {"S": "p"}, "s": {"S": "a"}, "t": {"S": "T:x"}, "b": {"S": "9"}}
    found = {"Responses": {TABLE: [there]}, "UnprocessedKeys": {}}
    replies = endpoint.says(batch("ConditionalCheckFailed", "ThrottlingError"), found).prepare(
        [Prepare(A, BALLOT), Prepare(B, BALLOT)]
    )
    assert replies == [Refused(Stored("T:x", promised="9")), NoReply("ThrottlingError: m", "throttled")]


def test_an_item_that_vanished_into_an_unprocessed_key_is_not_taken_for_absent(endpoint: Scripted) -> None:
    left = {TABLE: {"Keys": [{"p": {"S": "p"}, "s": {"S": "a"}}]}}
    refused = batch("ConditionalCheckFailed")
    unprocessed = {"Responses": {}, "UnprocessedKeys": left}
    (reply,) = endpoint.says(refused, unprocessed).accept([Accept(A, BALLOT, "T:x")])
    assert isinstance(reply, NoReply)


def test_an_accept_that_somebody_was_faster_with_is_refused(endpoint: Scripted) -> None:
    nothing = {"Responses": {TABLE: []}, "UnprocessedKeys": {}}
    acceptor = endpoint.says(batch("ConditionalCheckFailed"), nothing, batch("DuplicateItem"))
    assert acceptor.accept([Accept(A, BALLOT, "T:x")]) == [Refused(ABSENT)]


def promise_made(item: dict[str, Any]) -> dict[str, Any]:
    return {"Responses": [{"Item": item}]}


def item_at(key: ItemKey) -> dict[str, Any]:
    return {"p": {"S": key.p}, "s": {"S": key.s}, "t": {"S": "T:x"}, "a": {"S": "1"}, "b": {"S": "2"}}


def test_a_promise_tells_what_was_there_before(endpoint: Scripted) -> None:
    acceptor = endpoint.says(promise_made(item_at(A)))
    assert acceptor.prepare([Prepare(A, BALLOT)]) == [Promised(Stored("T:x", "1", "2"))]


@pytest.mark.parametrize(
    "answer",
    [batch(None), promise_made({}), promise_made(item_at(B)), promise_made({"t": {"S": "T:x"}})],
    ids=["no item", "an empty one", "another one", "one without its key"],
)
def test_a_promise_that_does_not_tell_what_was_there_is_no_reply(endpoint: Scripted, answer: Any) -> None:
    (reply,) = endpoint.says(answer).prepare([Prepare(A, BALLOT)])
    assert isinstance(reply, NoReply)


def test_of_a_clearing_only_what_failed_its_condition_is_unchanged(endpoint: Scripted) -> None:
    acceptor = endpoint.says(batch(None, "ConditionalCheckFailed", "TransactionConflict"))
    replies = acceptor.replace([Replace(key, "T:x", "C:east") for key in (A, B, C)])
    assert replies == [Done(), Unchanged(), NoReply("TransactionConflict: m")]


def test_an_unprocessed_key_is_no_reply_and_the_others_are_absent_or_there(endpoint: Scripted) -> None:
    there = {"p": {"S": "p"}, "s": {"S": "a"}, "t": {"S": "T:x"}}
    left = {TABLE: {"Keys": [{"p": {"S": "p"}, "s": {"S": "b"}}]}}
    one, other, third = endpoint.says({"Responses": {TABLE: [there]}, "UnprocessedKeys": left}).read(
        [A, B, C]
    )
    assert (one, third) == (Stored("T:x"), ABSENT)
    assert isinstance(other, NoReply)


def test_a_shard_goes_on_where_its_page_ended(endpoint: Scripted) -> None:
    item = {"p": {"S": "p"}, "s": {"S": "a"}, "t": {"S": "T:x"}, "e": {"S": "5"}}
    key = {"p": {"S": "p"}, "s": {"S": "a"}}
    acceptor = endpoint.says({"Items": [item], "LastEvaluatedKey": key}, {"Items": []})
    assert acceptor.scan_shard("p", "", None, 1) == Page((Scanned(A, "5", Stored("T:x")),), A)
    assert acceptor.scan_shard("p", "", A, 1) == Page((), None)
    assert endpoint.asked[1][1]["ExclusiveStartKey"] == key


# -- the whole request fails

ERRORS = [
    (400, {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "m"}, "throttled"),
    (400, {"__type": "x#ProvisionedThroughputExceededException", "message": "m"}, "throttled"),
    (400, {"__type": "x#RequestLimitExceeded", "message": "m"}, "throttled"),
    (400, {"__type": "x#ResourceNotFoundException", "message": "m"}, "unreachable"),
    (400, {"__type": "x#AccessDeniedException", "message": "m"}, "denied"),
    (400, {"__type": "com.amazon.coral.service#UnrecognizedClientException", "message": "m"}, "denied"),
    (403, {"__type": "x#ExpiredTokenException", "message": "m"}, "denied"),
    (500, {"__type": "x#InternalServerError", "message": "m"}, "unclear"),
    (503, b"<html>Service Unavailable</html>", "unclear"),
    (502, b"", "unclear"),
    (200, b"<html>a proxy's page</html>", "unclear"),
    (200, b'{"Responses": [{}', "unclear"),
    (200, [], "unclear"),
    (200, {}, "unclear"),
    (200, {"Responses": None, "Items": None}, "unclear"),
    (200, {"Responses": "text", "Items": "text"}, "unclear"),
    (200, {"Responses": [{"Error": "text"}], "Items": [{"p": "text"}]}, "unclear"),
]


@pytest.mark.parametrize(("status", "answer", "kind"), ERRORS, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize(
    "call", ["insert", "read", "prepare", "accept", "replace", "delete", "scan_shard", "size"]
)
def test_an_error_or_an_answer_that_can_not_be_read_is_no_reply(
    endpoint: Scripted, call: str, status: int, answer: Any, kind: str
) -> None:
    acceptor = endpoint.says(answer, status=status)
    calls: dict[str, Any] = {
        "insert": lambda: acceptor.insert(inserts(A)),
        "read": lambda: acceptor.read([A]),
        "prepare": lambda: acceptor.prepare([Prepare(A, BALLOT)]),
        "accept": lambda: acceptor.accept([Accept(A, BALLOT, "T:x")]),
        "replace": lambda: acceptor.replace([Replace(A, "T:x", "C:east")]),
        "delete": lambda: acceptor.delete([Delete(A)]),
        "scan_shard": lambda: [acceptor.scan_shard("p", "", None, 10)],
        "size": lambda: [acceptor.size()],
    }
    (reply,) = calls[call]()
    assert isinstance(reply, NoReply)
    assert reply.kind == kind


@pytest.mark.parametrize("answer", [{"__type": "x#InternalServerError", "message": "m"}, b"<html>"])
def test_an_error_of_a_whole_request_names_its_endpoint(endpoint: Scripted, answer: Any) -> None:
    (reply,) = endpoint.says(answer, status=500).read([A])
    assert isinstance(reply, NoReply)
    assert endpoint.url in reply.reason


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_or_too_many_answers_to_a_batch_belong_to_nobody(endpoint: Scripted, count: int) -> None:
    replies = endpoint.says(batch(*[None] * count)).insert(inserts(A, B))
    assert [type(reply) for reply in replies] == [NoReply, NoReply]


class Silent(KeywordClient):
    """A client whose requests are never answered."""

    def batch_get_item(self, **_: Any) -> Any:
        raise ReadTimeoutError(endpoint_url="http://endpoint")


def test_a_time_out_is_of_one_kind_for_the_product_and_for_what_tests_it() -> None:
    in_memory = FaultyStore()
    in_memory.fail("lost_request")
    (of_product,) = DynamoAcceptor(TABLE, Silent).read([A])
    (of_request,) = in_memory.read([A])
    in_memory.fail("lost_answer")
    (of_answer,) = in_memory.read([A])
    assert isinstance(of_product, NoReply)
    assert of_request == of_answer == TIMED_OUT
    assert of_product.kind == TIMED_OUT.kind


# -- what the wire sees


def test_a_request_is_sent_once_whatever_comes_of_it(endpoint: Scripted) -> None:
    acceptor = endpoint.says({"__type": "x#InternalServerError"}, status=500)
    acceptor.insert(inserts(A))
    assert [operation for operation, _ in endpoint.asked] == ["BatchExecuteStatement"]


def test_statements_and_parameters_arrive_as_they_were_written(endpoint: Scripted) -> None:
    odd = ItemKey("p", "i\u00e9\u0000\U0001f600\"'\\")
    endpoint.says(batch(None)).insert([Insert(odd, "T:x", "5")])
    ((_, body),) = endpoint.asked
    (statement,) = body["Statements"]
    assert statement["Statement"] == f"INSERT INTO \"{TABLE}\" VALUE {{'p': ?, 's': ?, 'e': ?, 't': ?}}"
    assert statement["Parameters"] == [{"S": odd.p}, {"S": odd.s}, {"S": "5"}, {"S": "T:x"}]


# -- and a commit over it


class LeavesSomeUnread(FaultyStore):
    """A store that leaves every twentieth key of all that it is ever asked for unprocessed."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self._asked = itertools.count(1)

    def read(self, batch: Sequence[ItemKey]) -> list[ReadReply]:
        return [
            reply if next(self._asked) % 20 else NoReply("left unprocessed") for reply in super().read(batch)
        ]


def test_a_lookup_asks_again_only_for_what_was_left_unprocessed() -> None:
    store = LeavesSomeUnread()
    registry = memory_registry(
        store, settings=Registry(total_timeout=timedelta(seconds=1), concurrent_requests=1)
    )
    claims = [Claim(EventKey(f"id-{i}"), "east:e:1#p:1:0") for i in range(2_000)]
    assert registry.commit(claims) == [Won()] * 2_000
    asked: list[int] = []
    store.on_request = lambda kind, batch: asked.append(len(batch))
    keys = [claim.key for claim in claims]
    assert all(isinstance(outcome, Joined) for outcome in registry.lookup(keys))
    assert registry.tokens_anywhere(keys) == [frozenset({"east:e:1#p:1:0"})] * 2_000
    assert sum(asked) < 2 * 2_000 * 1.1
    registry.close()


@pytest.mark.parametrize(
    ("counted", "size"),
    [((5, 275), StoreSize(5, 275)), ((0, 0), StoreSize(0, 0)), ((5, 0), StoreSize(5, None))],
)
def test_a_table_with_items_and_no_bytes_is_one_whose_bytes_nobody_counts(
    server: Scripted, counted: tuple[int, int], size: StoreSize
) -> None:
    items, size_bytes = counted
    assert server.says({"Table": {"ItemCount": items, "TableSizeBytes": size_bytes}}).size() == size
