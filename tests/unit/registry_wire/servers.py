"""Servers on loopback that answer as they are told to, and clients of them."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from botocore.credentials import Credentials

from photon.registry.dynamodb.credentials import Access, CredentialSource, access
from photon.registry.dynamodb.wire import WireClient

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


def client_of(
    url: str, seconds: float = 5, connections: int = 1, credentials: Credentials = CREDENTIALS
) -> WireClient:
    source = CredentialSource(lambda: credentials)
    return WireClient(url, Access("eu-1", source, access("eu-1").authorities), seconds, connections)
