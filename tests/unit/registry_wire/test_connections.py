"""Connections to an endpoint: kept, replaced, and never waited for longer than the deadline."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from photon.ledger.stores.copies import NoReply
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import access
from photon.registry.dynamodb.keep_alive import KeepAliveClient
from tests.unit.registry_wire.servers import (
    NOW_AND_THEN,
    OK,
    STATEMENTS,
    Endpoint,
    RawServer,
    always,
    client_of,
    request_on,
    says,
)


def test_a_connection_serves_one_request_after_the_other() -> None:
    with RawServer(always()) as server:
        client = client_of(server.url)
        for _ in range(3):
            assert client.scan(TableName="t") == {}
    assert server.connections == 1


def test_as_many_connections_are_kept_as_may_be() -> None:
    together = threading.Barrier(3)

    def talk(connection: socket.socket) -> None:
        while request_on(connection):
            together.wait(5)
            connection.sendall(OK)

    with RawServer(talk) as server, ThreadPoolExecutor(3) as threads:
        client = client_of(server.url, connections=2)
        for _ in range(2):
            assert list(threads.map(lambda _: client.scan(TableName="t"), range(3))) == [{}] * 3
    assert server.connections == 4


def test_one_that_the_server_has_closed_is_replaced_before_anything_is_sent() -> None:
    asked: list[bytes] = []
    with RawServer(says(OK, asked=asked)) as server:
        client = client_of(server.url)
        for count in range(1, 4):
            assert client.scan(TableName="t") == {}
            assert len(asked) == count
            time.sleep(NOW_AND_THEN)  # until its end has come
    assert server.connections == 3


@pytest.mark.parametrize("before", [(), (OK,)], ids=["new", "kept"])
def test_a_request_that_may_have_been_applied_is_not_sent_again(before: tuple[bytes, ...]) -> None:
    asked: list[bytes] = []
    with RawServer(says(*before, b"", asked=asked)) as server:
        client = client_of(server.url)
        for _ in before:
            client.scan(TableName="t")
        (reply,) = DynamoAcceptor("table", lambda: client).read([ItemKey("p", "s")])
    assert isinstance(reply, NoReply)
    assert reply.kind == "unreachable"
    assert (server.connections, len(asked)) == (1, len(before) + 1)


def test_bytes_that_belong_to_no_request_are_no_answer_to_the_next() -> None:
    with RawServer(always(OK + OK.replace(b"{}", b"[]"))) as server:
        client = client_of(server.url)
        assert [client.scan(TableName="t") for _ in range(2)] == [{}, {}]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
    ids=["closes", "is old", "gives no length"],
)
def test_a_server_that_closes_gets_a_new_connection_each_time(answer: bytes) -> None:
    with RawServer(says(answer)) as server:
        client = client_of(server.url)
        assert [client.scan(TableName="t") for _ in range(2)] == [{}, {}]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n02\r\n{}\r\n0\r\nlast: one\r\n\r\n",
        b"HTTP/1.1 200\r\ncontent-length:2\r\n\r\n{}",
    ],
    ids=["a word in between", "chunks", "headers that come last", "few words"],
)
def test_answers_of_all_forms_are_read_to_their_end(answer: bytes) -> None:
    with RawServer(always(answer)) as server:
        client = client_of(server.url)
        assert [client.scan(TableName="t") for _ in range(3)] == [{}] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 OK\r\n\r\n{}",
        b"SSH-2.0-server\r\n\r\n",
        b"x" * 100_000,
    ],
    ids=lambda answer: str(answer[:60]),
)
def test_half_an_answer_or_none_of_http_is_no_answer(answer: bytes) -> None:
    with RawServer(says(answer)) as server, pytest.raises(BotoCoreError) as raised:
        client_of(server.url).scan(TableName="t")
    assert not isinstance(raised.value, ClientError)


def test_an_answer_of_many_megabytes_is_read() -> None:
    text = "a" * 5_000_000
    body = json.dumps({"Items": [text]}).encode()
    with RawServer(always(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)) as server:
        assert client_of(server.url).scan(TableName="t") == {"Items": [text]}


# -- time


def drips(begin: bytes, forever: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        request_on(connection)
        connection.sendall(begin)
        while True:
            time.sleep(NOW_AND_THEN)
            connection.sendall(forever)

    return talk


def reads_nothing(connection: socket.socket) -> None:
    time.sleep(5)


@pytest.mark.parametrize(
    "talk",
    [
        drips(b"", b"x"),
        drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["head", "body", "chunks", "without a length", "words in between"],
)
def test_a_server_that_drips_holds_a_request_no_longer_than_one_that_is_silent(
    talk: Callable[[socket.socket], None],
) -> None:
    with RawServer(talk) as server:
        client = client_of(server.url, seconds=0.3)
        began = time.monotonic()
        with pytest.raises(ReadTimeoutError):
            client.batch_execute_statement(Statements=STATEMENTS)
        assert 0.3 <= time.monotonic() - began < 1.3


def test_a_server_that_takes_no_request_holds_it_no_longer_either() -> None:
    with RawServer(reads_nothing) as server:
        client = KeepAliveClient(server.url, 1, access("eu-1").authorities)
        body, began = bytes(50_000_000), time.monotonic()
        with pytest.raises(ReadTimeoutError):
            client.post("", body, began + 0.5)
        assert 0.5 <= time.monotonic() - began < 1.5


def test_a_handshake_and_a_look_up_of_a_name_are_bound_by_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RawServer(reads_nothing) as server:
        urls = [server.url.replace("http:", "https:"), "http://store.test"]
        for url in urls:
            began = time.monotonic()
            with pytest.raises(ConnectTimeoutError):
                client_of(url, seconds=0.3).scan(TableName="t")
            assert 0.3 <= time.monotonic() - began < 1.3
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3))


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(always()) as server, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
            for port in (full.getsockname()[1], server.port)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert client_of("http://store.test", seconds=2).scan(TableName="t") == {}
        for one in waiting:
            one.close()


def test_no_request_waits_for_the_acknowledgement_of_its_own_beginning(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[tuple[Any, ...]] = []

    class Watched(socket.socket):
        def setsockopt(self, *given: Any) -> None:
            options.append(given)
            super().setsockopt(*given)

    monkeypatch.setattr(socket, "socket", Watched)
    client_of(endpoint.url).scan(TableName="t")
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in options
