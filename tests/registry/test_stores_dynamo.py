"""A store interprets the answers of a server with the DynamoDB API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from botocore.parsers import ResponseParserError

from photon.registry.stores.copies import Accept, Copy, Done, Insert, Key, NoReply, Page, Prepare, Refused
from photon.registry.stores.dynamo import DynamoStore

AT = Key("1.0-0", 7)
ITEM = {"p": {"S": "1.0-0"}, "s": {"N": "7"}, "v": {"B": b"there"}, "b": {"S": "a3-x"}}
THERE = Copy(b"there", "", "a3-x")
DONE = {"ConsumedCapacity": {}}


class Client:
    """Answers each request as it is told, and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def answer(**request: Any) -> Any:
            self.asked.append((operation, request))
            told = self.answers[operation]
            if isinstance(told, Exception):
                raise told
            return told

        return answer


def error(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}, **more}, "PutItem")


def store(**answers: Any) -> DynamoStore:
    return DynamoStore("table", lambda: Client(**answers))


def test_a_refused_insert_says_what_is_there_without_a_read() -> None:
    refused = error("ConditionalCheckFailedException", Item=ITEM)
    assert store(put_item=refused).insert(Insert(AT, b"own")) == Refused(THERE)


def test_what_is_there_is_read_from_a_server_that_does_not_say_it() -> None:
    refused = error("ConditionalCheckFailedException")
    assert store(put_item=refused, get_item={"Item": ITEM}).insert(Insert(AT, b"own")) == Refused(THERE)
    lost = store(put_item=refused, get_item=ReadTimeoutError(endpoint_url="x")).insert(Insert(AT, b"own"))
    assert isinstance(lost, NoReply)


def test_a_write_that_does_not_say_it_was_done_is_no_reply() -> None:
    assert store(put_item=DONE).insert(Insert(AT, b"own")) == Done()
    empty = store(put_item={}, update_item={"Attributes": {}})
    for reply in (
        empty.insert(Insert(AT, b"own")),
        empty.prepare(Prepare(AT, "a1-x")),
        empty.accept(Accept(AT, "a1-x", b"own")),
    ):
        assert isinstance(reply, NoReply)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (error("ThrottlingException"), "throttled"),
        (error("ProvisionedThroughputExceededException"), "throttled"),
        (error("ResourceNotFoundException"), "unreachable"),
        (error("AccessDeniedException"), "denied"),
        (NoCredentialsError(), "denied"),
        (error("InternalServerError"), "unclear"),
        (ReadTimeoutError(endpoint_url="x"), "unreachable"),
        (EndpointConnectionError(endpoint_url="x"), "unreachable"),
        (ResponseParserError("a proxy's page"), "unclear"),
    ],
)
def test_any_other_error_is_no_reply_of_its_kind(raised: Exception, kind: str) -> None:
    for reply in (
        store(put_item=raised).insert(Insert(AT, b"own")),
        store(get_item=raised).get(AT),
        store(query=raised).page(AT),
    ):
        assert isinstance(reply, NoReply)
        assert reply.kind == kind


def test_a_page_that_is_not_the_last_says_how_far_it_goes() -> None:
    last = {"p": {"S": "1.0-0"}, "s": {"N": "9"}}
    page = store(query={"Items": [ITEM], "LastEvaluatedKey": last}).page(AT)
    assert page == Page(7, 9, {7: THERE})
    assert isinstance(page, Page)
    assert [page.covers(position) for position in (6, 7, 9, 10)] == [False, True, True, False]


def test_all_reads_are_consistent() -> None:
    client = Client(get_item={}, query={"Items": []})
    one = DynamoStore("table", lambda: client)
    one.get(AT)
    one.page(AT)
    assert all(request["ConsistentRead"] for _, request in client.asked)


def test_deletes_that_a_store_leaves_undone_are_asked_for_again() -> None:
    left = {"UnprocessedItems": {"table": [{}]}}
    reply = store(query={"Items": [ITEM]}, batch_write_item=left).forget("1.0-0")
    assert isinstance(reply, NoReply)
    assert reply.kind == "throttled"
    assert store(query={"Items": [ITEM]}, batch_write_item={}).forget("1.0-0") == 1
    assert store(query={"Items": []}).forget("1.0-0") == 0


def test_after_a_connection_failed_another_one_is_made() -> None:
    clients = [Client(get_item=EndpointConnectionError(endpoint_url="x")), Client(get_item={"Item": ITEM})]
    one = DynamoStore("table", lambda: clients.pop(0))
    assert isinstance(one.get(AT), NoReply)
    assert one.get(AT) == THERE


def test_a_sign_of_life_that_is_behind_a_greater_one_is_kept_by_that() -> None:
    assert store(update_item=DONE).beat(AT, 3) == Done()
    assert store(update_item=error("ConditionalCheckFailedException")).beat(AT, 3) == Done()
    assert isinstance(store(update_item={}).beat(AT, 3), NoReply)
    assert isinstance(store(update_item=ReadTimeoutError(endpoint_url="x")).beat(AT, 3), NoReply)


def test_without_a_sign_of_life_it_is_none() -> None:
    assert store(get_item={}).last_beat(AT) == 0
    assert store(get_item={"Item": {**ITEM, "n": {"N": "12"}}}).last_beat(AT) == 12
