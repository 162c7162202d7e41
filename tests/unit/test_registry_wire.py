"""The client of the DynamoDB API: what goes over the wire, and how answers are read."""

from __future__ import annotations

import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from urllib3.util import connection

from bench.manual_clock import ManualClock
from photon.registry.address import EndpointAddress
from photon.registry.consensus.acceptor import NoReply
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.wire import UNREADABLE, WireClient
from photon.registry.operations.directory import DIRECTORY, Directory, EndpointSilent
from photon.registry.operations.init import ask_endpoint

CREDENTIALS = Credentials("key", "secret", "session")
STATEMENTS = [{"Statement": "INSERT", "Parameters": [{"S": "Käse \ud800"}]}]


class Endpoint:
    """A server on loopback that answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes, dict[str, str]] = (200, b"{}", {})
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.on_request: Callable[[], None] = lambda: None
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append((dict(self.headers), body))
                endpoint.on_request()
                status, content, headers = endpoint.answer
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True  # or it would wait for connections that clients keep
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.stop()


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[WireClient]:
    made = WireClient(endpoint.url, "eu-1", 5, 1, CREDENTIALS)
    yield made
    made.close()


def test_a_request_is_what_boto3_would_have_sent(endpoint: Endpoint, client: WireClient) -> None:
    endpoint.answer = (200, b'{"Responses": []}', {})
    ours = client.batch_execute_statement(Statements=STATEMENTS)
    session = boto3.session.Session("key", "secret", "session", "eu-1")
    config = Config(retries={"total_max_attempts": 1})
    boto = session.client("dynamodb", endpoint_url=endpoint.url, config=config)
    theirs = boto.batch_execute_statement(Statements=STATEMENTS)
    boto.close()
    (our_headers, our_body), (their_headers, their_body) = endpoint.asked
    assert json.loads(our_body) == json.loads(their_body)
    assert ours["Responses"] == theirs["Responses"]
    for name in ("Content-Type", "X-Amz-Target", "X-Amz-Security-Token"):
        assert our_headers[name] == their_headers[name]
    scope = our_headers["Authorization"].partition("SignedHeaders")[0]
    assert scope == their_headers["Authorization"].partition("SignedHeaders")[0]


def test_an_error_has_its_plain_name_and_what_came_with_it(endpoint: Endpoint, client: WireClient) -> None:
    reasons = [{"Code": "None"}, {"Code": "DuplicateItem"}]
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "cancelled",
        "CancellationReasons": reasons,
    }
    endpoint.answer = (400, json.dumps(body).encode(), {})
    with pytest.raises(ClientError) as raised:
        client.execute_transaction(TransactStatements=STATEMENTS)
    assert raised.value.response["Error"] == {"Code": "TransactionCanceledException", "Message": "cancelled"}
    assert raised.value.response["CancellationReasons"] == reasons


@pytest.mark.parametrize("content", [b"<html>a proxy</html>", b"[]", b'"text"', b""])
def test_what_is_no_answer_of_the_api_is_an_error(
    endpoint: Endpoint, client: WireClient, content: bytes
) -> None:
    endpoint.answer = (200, content, {})
    with pytest.raises(ClientError, match=UNREADABLE):
        client.scan(TableName="table")


@pytest.mark.parametrize(
    "content",
    [b"<html>a proxy</html>", b"[]", b'"text"', b"", b'{"Item": []}', b'{"Item": {"t": 5}}', b'{"Item": {}}'],
)
def test_one_that_is_no_store_of_a_registry_is_an_endpoint_that_does_not_answer(
    endpoint: Endpoint, content: bytes
) -> None:
    endpoint.answer = (200, content, {})
    address = EndpointAddress(endpoint.url)
    assert isinstance(ask_endpoint("clicks", address), NoReply)
    with pytest.raises(EndpointSilent, match=f"^{endpoint.url} does not answer") as raised:
        Directory(address, ManualClock()).create("table")
    assert endpoint.url not in raised.value.reason, "it is said once"


def test_the_tables_of_a_pipeline_are_on_all_pages_and_not_those_of_others(endpoint: Endpoint) -> None:
    mine, more = ["photon-clicks-" + c * 16 for c in "0a"], "photon-clicks-more-" + "0" * 16
    pages = iter(
        [
            {"TableNames": [mine[0], more], "LastEvaluatedTableName": more},
            {"TableNames": [mine[1], DIRECTORY]},
        ]
    )
    endpoint.on_request = lambda: setattr(endpoint, "answer", (200, json.dumps(next(pages)).encode(), {}))
    assert Directory(EndpointAddress(endpoint.url), ManualClock()).tables_of("clicks") == mine
    assert [json.loads(body) for _, body in endpoint.asked] == [{}, {"ExclusiveStartTableName": more}]


@pytest.mark.parametrize("checksum", ["", "none"])
def test_a_checksum_that_is_none_leaves_the_answer_unread(
    endpoint: Endpoint, client: WireClient, checksum: str
) -> None:
    endpoint.answer = (200, b'{"Responses": []}', {"x-amz-crc32": checksum})
    (reply,) = DynamoAcceptor("table", lambda: client).read([ItemKey("p", "s")])
    assert isinstance(reply, NoReply)


def test_an_answer_that_was_damaged_on_the_way_is_an_error(endpoint: Endpoint, client: WireClient) -> None:
    content = b'{"Responses": []}'
    endpoint.answer = (200, content, {"x-amz-crc32": str(zlib.crc32(content))})
    assert client.batch_execute_statement(Statements=STATEMENTS) == {"Responses": []}
    endpoint.answer = (200, content, {"x-amz-crc32": str(zlib.crc32(content) ^ 1)})
    with pytest.raises(ClientError, match=UNREADABLE):
        client.batch_execute_statement(Statements=STATEMENTS)


def test_an_endpoint_that_is_gone_is_no_error_of_its_own(endpoint: Endpoint) -> None:
    endpoint.stop()
    client = WireClient(endpoint.url, "eu-1", 5, 1, CREDENTIALS)
    with pytest.raises(BotoCoreError) as raised:
        client.query(TableName="table")
    assert not isinstance(raised.value, ClientError)
    endpoint.stop = lambda: None  # type: ignore[method-assign]


def test_missing_credentials_are_said_at_the_first_request(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3.session.Session, "get_credentials", lambda self: None)
    client = WireClient(endpoint.url, "eu-1", 5, 1)
    with pytest.raises(NoCredentialsError):
        client.scan(TableName="table")
    assert endpoint.asked == []


def test_no_request_waits_for_the_acknowledgement_of_its_own_headers(
    endpoint: Endpoint, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    connect = connection.create_connection

    def create_connection(*arguments: Any, **options: Any) -> socket.socket:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(connection, "create_connection", create_connection)
    client.scan(TableName="t")
    assert made
    assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in made)
