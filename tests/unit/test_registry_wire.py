"""The client of the DynamoDB API: what goes over the wire, and how answers are read."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    ReadTimeoutError,
    SSLError,
)
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline, Registry
from photon.registry.address import EndpointAddress
from photon.registry.consensus.acceptor import NoReply
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import Access, CredentialSource, access
from photon.registry.dynamodb.keep_alive import KeepAliveClient, ProxyUnusable
from photon.registry.dynamodb.wire import UNREADABLE, WireClient
from photon.registry.interface import Claim, RegistryUnavailable, Won
from photon.registry.open import connection
from photon.registry.operations.directory import DIRECTORY, Directory, EndpointSilent
from photon.registry.operations.init import ask_endpoint, classify_endpoints
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

CREDENTIALS = Credentials("key", "secret", "session")
NOW_AND_THEN = 0.05  # seconds between the bytes of a slow server
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
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
                endpoint.asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
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


class RawServer:
    """Connections on loopback, each given to `talk` on a thread of its own and closed after it."""

    def __init__(self, talk: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self._talk, self._tls = talk, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls is None:
                self._talk(connection)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as secret:
                    self._talk(secret)


def request_on(connection: socket.socket) -> bytes:
    """A whole request; empty if the client has closed the connection."""
    got = b""
    while b"\r\n\r\n" not in got:
        if not (part := connection.recv(65536)):
            return b""
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while len(body) < (int(length[1]) if length else 0):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def says(*answers: bytes, asked: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    """Answer one request after the other on a connection, then close it."""

    def talk(connection: socket.socket) -> None:
        for answer in answers:
            request = request_on(connection)
            if asked is not None and request:
                asked.append(request)
            connection.sendall(answer)

    return talk


def always(answer: bytes = OK, asked: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    """Answer every request on a connection."""

    def talk(connection: socket.socket) -> None:
        while request := request_on(connection):
            if asked is not None:
                asked.append(request)
            connection.sendall(answer)

    return talk


def client_of(url: str, seconds: float = 5, connections: int = 1, region: str = "eu-1") -> WireClient:
    usual = access(region)
    return WireClient(
        url, Access(region, CredentialSource(lambda: CREDENTIALS), usual.authorities), seconds, connections
    )


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.stop()


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[WireClient]:
    made = client_of(endpoint.url)
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
    for name in ("content-type", "x-amz-target", "x-amz-security-token"):
        assert our_headers[name] == their_headers[name]
    scope = our_headers["authorization"].partition("SignedHeaders")[0]
    assert scope == their_headers["authorization"].partition("SignedHeaders")[0]


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
    assert endpoint.url not in raised.value.reply.reason, "it is said once"


DENIAL = b'{"__type": "x#AccessDeniedException", "message": "not you"}'


def test_who_may_not_read_a_directory_hears_what_to_mend(endpoint: Endpoint) -> None:
    endpoint.answer = (400, DENIAL, {})
    address = EndpointAddress(endpoint.url)
    remedy = "does not let us in (AccessDeniedException: not you; mend this endpoint's credentials or rights"
    for call in (lambda: Directory(address, ManualClock()).create("table"), lambda: found(address)):
        with pytest.raises(RegistryUnavailable, match=f"{endpoint.url} {re.escape(remedy)}"):
            call()


def test_who_has_no_credentials_for_a_directory_hears_what_to_mend(endpoint: Endpoint) -> None:
    address = EndpointAddress(endpoint.url, profile="nobody")
    with pytest.raises(EndpointSilent, match=f"{endpoint.url} does not let us in .no credentials.*mend"):
        Directory(address, ManualClock()).create("table")
    assert endpoint.asked == []


def found(address: EndpointAddress) -> object:
    pipeline = Pipeline.model_construct(name="clicks", file=Path("clicks.yaml"))
    return classify_endpoints(pipeline, [address], [ask_endpoint("clicks", address)])


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


@pytest.mark.parametrize("token", ["session", None])
@pytest.mark.parametrize("path", ["", "/a store/here"])
def test_a_signature_is_the_one_that_botocore_makes(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, token: str | None, path: str
) -> None:
    monkeypatch.setitem(globals(), "CREDENTIALS", Credentials("key", "secret", token))
    url = endpoint.url + path.replace(" ", "%20")
    client = client_of(url)
    for _ in range(2):
        client.batch_execute_statement(Statements=STATEMENTS)
    for headers, body in endpoint.asked:
        at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda at=at: at)
        signed = ("content-type", "x-amz-target")
        request = AWSRequest("POST", url, {name: headers[name] for name in signed}, body)
        SigV4Auth(CREDENTIALS.get_frozen_credentials(), "dynamodb", "eu-1").add_auth(request)
        assert headers["authorization"] == request.headers["Authorization"]


def test_an_endpoint_that_is_gone_is_no_error_of_its_own(endpoint: Endpoint) -> None:
    endpoint.stop()
    with pytest.raises(BotoCoreError) as raised:
        client_of(endpoint.url).query(TableName="table")
    assert not isinstance(raised.value, ClientError)
    endpoint.stop = lambda: None  # type: ignore[method-assign]


# -- connections


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


# -- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority (`ca.pem`) and a server's certificate with its key (`server.pem`)."""
    folder = tmp_path_factory.mktemp("certificates")
    now, usual = datetime.now(UTC), SHA256()

    def certificate(name: str, key: Any, by: str, signed_with: Any, *extensions: Any) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signed_with, usual)

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    is_ca, is_none = (x509.BasicConstraints(ca, path_length=None) for ca in (True, False))
    names = x509.SubjectAlternativeName(
        [x509.DNSName("store.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    ca = certificate("authority", ca_key, "authority", ca_key, is_ca)
    own = certificate("other.test", key, "authority", ca_key, is_none, names)
    pem, secret = Encoding.PEM, (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(own.public_bytes(pem) + key.private_bytes(*secret))
    return folder


@pytest.fixture
def tls(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    return context


def test_an_authority_that_is_named_is_trusted_and_no_other(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with RawServer(always(), tls) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(SSLError, match="certificate verify failed"):
            client_of(url).scan(TableName="t")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nothing.pem"))
        with pytest.raises(SSLError, match=r"nothing\.pem can't be read"):
            client_of(url).scan(TableName="t")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
        assert client_of(url).scan(TableName="t") == {}
        monkeypatch.delenv("AWS_CA_BUNDLE")
        (tmp_path / "config").write_text(f"[profile far]\nca_bundle = {certificates / 'ca.pem'}\n")
        source = CredentialSource(lambda: CREDENTIALS)
        of_profile = Access("eu-1", source, access("eu-1", "far").authorities)
        assert WireClient(url, of_profile, 5, 1).scan(TableName="t") == {}


def test_a_secret_connection_is_kept_like_any_other(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server:
        client = client_of(f"https://127.0.0.1:{server.port}")
        assert [client.scan(TableName="t") for _ in range(3)] == [{}] * 3
    assert server.connections == 1


@pytest.mark.parametrize("name", ["localhost", "other.test"])
def test_a_certificate_of_another_name_is_refused(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(SSLError, match="Hostname mismatch"):
            client_of(f"https://{name}:{server.port}").scan(TableName="t")
        assert client_of(f"https://store.test:{server.port}").scan(TableName="t") == {}


# -- proxies


def tunnel_to(server: RawServer, asked: list[bytes]) -> Callable[[socket.socket], None]:
    """A proxy that knows one place only."""

    def talk(connection: socket.socket) -> None:
        asked.append(request_on(connection))
        with socket.create_connection(("127.0.0.1", server.port)) as there:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n")
            back = threading.Thread(target=pump, args=(there, connection), daemon=True)
            back.start()
            pump(connection, there)

    return talk


def pump(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            to.sendall(part)
        to.shutdown(socket.SHUT_WR)


def test_an_https_endpoint_is_reached_by_a_tunnel_through_the_proxy(
    certificates: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
    with RawServer(always(), tls) as server, RawServer(tunnel_to(server, asked)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:p%40ss@"))
        client = client_of("https://store.test")
        assert [client.scan(TableName="t") for _ in range(3)] == [{}] * 3
    (request,) = asked
    assert request.startswith(b"CONNECT store.test:443 HTTP/1.1\r\nHost: store.test:443\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in request


def test_an_http_endpoint_is_asked_for_by_its_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with RawServer(always(asked=asked)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:pass@"))
        assert client_of("http://store.test:8000/here").scan(TableName="t") == {}
    (request,) = asked
    assert request.startswith(b"POST http://store.test:8000/here HTTP/1.1\r\nHost: store.test:8000\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:pass") in request


def test_no_proxy_is_asked_for_hosts_that_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with RawServer(always()) as server:
        assert client_of(server.url).scan(TableName="t") == {}, "this machine's own addresses"
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setenv("NO_PROXY", ".test,other.example")
        assert client_of("http://store.test").scan(TableName="t") == {}


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b"", b"no HTTP\r\n\r\n"]
)
def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with RawServer(says(answer)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:secret@"))
        with pytest.raises(ProxyUnusable, match=f"127.0.0.1:{proxy.port}") as raised:
            client_of("https://store.test").scan(TableName="t")
    assert "secret" not in str(raised.value)


def test_a_proxy_that_is_itself_spoken_to_by_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "https://proxy.test")
    with pytest.raises(ProxyUnusable, match="its URL does not begin with http://"):
        client_of("https://store.test").scan(TableName="t")


# -- credentials

KEY_LINES = "aws_access_key_id = {0}\naws_secret_access_key = {0}-secret\n"


def users(asked: Sequence[tuple[dict[str, str], bytes]]) -> list[str]:
    """The access keys that requests were signed with."""
    return [sent["authorization"].split("Credential=")[1].split("/")[0] for sent, _ in asked]


def reply_of(client: WireClient) -> NoReply:
    (reply,) = DynamoAcceptor("table", lambda: client).read([ItemKey("p", "s")])
    assert isinstance(reply, NoReply)
    return reply


@pytest.mark.parametrize(
    ("file", "profile", "reason"),
    [
        ("", None, "Unable to locate credentials"),
        ("[default]\naws_access_key_id = a\n", None, "Partial credentials"),
        ("", "far", r"The config profile \(far\) could not be found"),
        ("not a file of profiles", None, "parse"),
    ],
)
def test_without_credentials_nothing_is_sent_and_the_reply_says_what_to_do(
    endpoint: Endpoint, tmp_path: Path, file: str, profile: str | None, reason: str
) -> None:
    (tmp_path / "credentials").write_text(file)
    reply = reply_of(WireClient(endpoint.url, access("eu-1", profile), 5, 1))
    assert reply.kind == "denied"
    assert re.search(f"no credentials for {endpoint.url}: .*{reason}.*mend", reply.reason)
    assert endpoint.asked == []


def test_credentials_that_are_put_there_later_are_found(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("photon.registry.dynamodb.credentials._PAUSE_SECONDS", 0)
    client = WireClient(endpoint.url, access("eu-1"), 5, 1)
    assert reply_of(client).kind == "denied"
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("one"))
    assert client.scan(TableName="t") == {}
    endpoint.answer = (400, b'{"__type": "x#ExpiredTokenException"}', {})
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("other"))
    assert reply_of(client).kind == "denied"
    endpoint.answer = (200, b"{}", {})
    client.scan(TableName="t")
    assert users(endpoint.asked) == ["one", "one", "other"]


def test_each_endpoint_has_credentials_of_its_own_profile(endpoint: Endpoint, tmp_path: Path) -> None:
    profiles = "".join(f"[{name}]\n" + KEY_LINES.format(name) for name in ("default", "near", "far"))
    (tmp_path / "credentials").write_text(profiles)
    for profile in ("near", "far", None):
        address = EndpointAddress(endpoint.url, "eu-1", profile=profile)
        connection(address, timedelta(seconds=5), 1)().scan(TableName="t")
    assert users(endpoint.asked) == ["near", "far", "default"]


def test_a_role_is_assumed_by_sts_and_again_before_its_credentials_expire(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text("[near]\n" + KEY_LINES.format("near"))
    role, asked = "arn:aws:iam::123456789012:role/photon", list[bytes]()
    given = iter([("first", 30), ("second", 3600)])

    def sts(connection: socket.socket) -> None:
        asked.append(request_on(connection))
        key, seconds = next(given)
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = (
            "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>"
            f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
            f"<SessionToken>token-{key}</SessionToken><Expiration>{until}</Expiration></Credentials>"
            "</AssumeRoleResult></AssumeRoleResponse>"
        ).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    monkeypatch.setattr("photon.registry.dynamodb.credentials._PAUSE_SECONDS", 0)
    with RawServer(sts) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        client = WireClient(endpoint.url, access("eu-1", "near", role), 5, 1)
        for _ in range(3):
            client.scan(TableName="t")
    assert users(endpoint.asked) == ["first", "second", "second"]
    assert [headers["x-amz-security-token"] for headers, _ in endpoint.asked][1:] == ["token-second"] * 2
    assert len(asked) == 2
    for request in asked:
        assert b"Credential=near/" in request
        assert b"RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fphoton" in request


def test_a_role_that_may_not_be_assumed_is_a_denial(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text("[default]\n" + KEY_LINES.format("me"))
    refusal = (
        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    )
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
    with RawServer(always(answer)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        granted = access("eu-1", role="arn:aws:iam::123456789012:role/photon")
        reply = reply_of(WireClient(endpoint.url, granted, 5, 1))
    assert reply.kind == "denied"
    assert "not you" in reply.reason
    assert endpoint.asked == []


def test_a_search_for_credentials_is_done_once_for_all_who_wait_and_holds_nobody_up(
    endpoint: Endpoint,
) -> None:
    searches: list[float] = []
    may_end = threading.Event()

    def find() -> Credentials:
        searches.append(time.monotonic())
        may_end.wait(10)
        return CREDENTIALS

    source = CredentialSource(find)
    client = WireClient(endpoint.url, Access("eu-1", source, access("eu-1").authorities), 0.3, 4)
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: reply_of(client), range(8)))
    assert time.monotonic() - began < 2
    assert all("in time" in reply.reason for reply in replies)
    may_end.set()
    source.current(time.monotonic() + 5)
    assert client.scan(TableName="t") == {}
    assert len(searches) == 1


def test_lost_rights_are_said_once_with_what_to_do_and_never_raised(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = (400, b'{"__type": "x#AccessDeniedException", "message": "not you"}', {})
    clock = ManualClock()
    acceptor = DynamoAcceptor("table", lambda: client_of(endpoint.url))
    stores = [FaultyStore(clock) for _ in range(2)]
    memory_registry(*stores, FaultyStore(clock), clock=clock).close()
    registry = QuorumRegistry([*stores, acceptor], Registry(), clock)
    for name in "abc":
        assert registry.commit([Claim(EventKey(name), "east:e:1#p:1:0")]) == [Won()]
    registry.close()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "endpoint 3 of the registry does not let us in: AccessDeniedException: not you; mend"
    )
