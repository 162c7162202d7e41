"""A proxy in front of a store that speaks S3, which fails as networks and stores do."""

from __future__ import annotations

import http.client
import math
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

# "busy": 503 without effect, and "busy late" with it. "cut": the connection is reset before the request has
# an effect, and "cut late" after it. "silent": nobody answers until `mend`. "archived": as S3 answers for an
# object of Glacier, which MinIO does not have. "ended": as S3 answers to keys whose time is over.
Fault = Literal["busy", "busy late", "cut", "cut late", "silent", "archived", "ended"]
_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_ARCHIVED = (
    b"<Error><Code>InvalidObjectState</Code><Message>The operation is not valid for the object's storage"
    b" class</Message><StorageClass>GLACIER</StorageClass></Error>"
)
_ENDED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_NOT_FORWARDED = {"Connection", "Transfer-Encoding"}


class FaultyS3:
    """The store at `to_url`, at a URL of its own."""

    def __init__(self, to_url: str) -> None:
        self.to_port = urlsplit(to_url).port or 80
        self.delay_seconds = 0.0  # before each request
        self.met: Counter[Fault] = Counter()
        self._lock = threading.Lock()
        self.is_mended = threading.Event()
        self.mend()
        self._port = 0
        self.listen()
        self.url = f"http://127.0.0.1:{self._port}"

    def meet(
        self,
        fault: Fault,
        requests: float = math.inf,
        share: float = 1.0,
        seed: int = 0,
        among: Callable[[str, str], bool] = lambda method, path: True,
    ) -> None:
        """The next requests, or all until `mend`, meet a fault: a share of those that `among` chooses."""
        with self._lock:
            self.is_mended.clear()
            self._fault: Fault | None = fault
            self._left, self._share, self._rng, self._among = requests, share, random.Random(seed), among

    def mend(self) -> None:
        """Answer again, at once."""
        with self._lock:
            self.delay_seconds = 0.0
            self._fault = None
            self.is_mended.set()

    def refuse(self) -> None:
        """Refuse connections until `listen`, and end those that there are."""
        self._server.shutdown()
        self._server.server_close()

    def listen(self) -> None:
        """Accept connections, always at the same port."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.faulty = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            is_chosen = self._fault is not None and self._left > 0 and self._among(method, path)
            if self._fault is None or not is_chosen or self._rng.random() >= self._share:
                return None
            self._left -= 1
            self.met[self._fault] += 1
            return self._fault


class _Server(ThreadingHTTPServer):
    faulty: FaultyS3
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # many objects are asked for at once; the default holds five

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for each in list(self._open):
            with suppress(OSError):  # the connection has ended
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        faulty = self.server.faulty
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(faulty.delay_seconds)
        fault = faulty.next_fault(self.command, self.path)
        if fault == "silent":
            faulty.is_mended.wait()
        if fault in ("cut", "busy", "archived", "ended"):
            return self._fail(fault)
        there = http.client.HTTPConnection("127.0.0.1", faulty.to_port)
        there.request(self.command, self.path, content, dict(self.headers))
        found = there.getresponse()
        if found.getheader("Content-Type") == "text/event-stream":
            return self._give_on(found)
        answer = found.read()
        there.close()
        if fault in ("busy late", "cut late"):
            return self._fail(fault)
        headers = {name.title(): value for name, value in found.getheaders()}
        headers.setdefault("Content-Length", str(len(answer)))
        self.send_response_only(found.status, found.reason)
        for name in headers.keys() - _NOT_FORWARDED:
            self.send_header(name, headers[name])
        self.end_headers()
        self.wfile.write(answer)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _give_on(self, stream: http.client.HTTPResponse) -> None:
        """Pass on the store's notices of objects until the listener has gone."""
        self.close_connection = True
        self.send_response_only(stream.status)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with suppress(OSError), stream:
            while told := stream.read1():
                self.wfile.write(told)

    def _fail(self, fault: Fault) -> None:
        self.close_connection = True
        if fault.startswith("cut"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            return os.close(self.connection.detach())
        status, says = {"archived": (403, _ARCHIVED), "ended": (400, _ENDED)}.get(fault, (503, _BUSY))
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(says)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(says)

    def log_message(self, format: str, *args: object) -> None:
        pass
