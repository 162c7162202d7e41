"""HTTP requests to one server over connections that are kept, each request with one deadline for all of it.

A general HTTP library costs ten times as much as the socket (docs/adr/0018), and its time-outs are of one
read: a server that sends a byte now and then holds a request for as long as it likes (protocol B15).
"""

from __future__ import annotations

import ipaddress
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

_PORTS = {"http": 80, "https": 443}
_RECEIVE_BYTES = 1 << 16
_MOST_HEAD_BYTES = 1 << 16

T = TypeVar("T")


class ProxyUnusable(BotoCoreError):
    """The endpoint can't be reached by the proxy that the environment names."""

    fmt = "the proxy {proxy_url} can't be used: {error}"


class _Closed(OSError):
    """The server has closed the connection before its answer was complete."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def host_of(url: str) -> str:
    """The Host header for a URL: small letters, and the port unless it is the scheme's own."""
    parts = urlsplit(url)
    port = parts.port
    return _in_brackets(parts) if port in (None, _PORTS[parts.scheme]) else f"{_in_brackets(parts)}:{port}"


def in_background(work: Callable[[], T]) -> Future[T]:
    """What `work` will return, on a thread of its own that no process waits for when it ends."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="registry-wire", daemon=True).start()
    return done


def seconds_left(deadline: float) -> float:
    """The time until a moment of `time.monotonic()`. TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class KeepAliveClient:
    """POST requests to one URL; thread-safe. Keeps up to `connections` that nobody uses.

    Each request is sent once. A kept connection that the server has closed is replaced before anything is
    sent. If it breaks later, the request may have been applied, and the caller is told so (protocol B2).
    `authorities` names a file of certificates. Proxies are those of the environment when it is made, as for
    boto3, but never for the machine's own addresses.
    """

    def __init__(self, url: str, connections: int, authorities: Callable[[], str]) -> None:
        self._url = url
        self._connections = connections
        self._authorities = authorities
        self._server = urlsplit(url)
        self._proxy_url, for_proxy = (None, {}) if _is_own_machine(self._server) else _proxy_of(url)
        self._proxy = None if self._proxy_url is None else urlsplit(self._proxy_url)
        self._proxy_headers = "".join(f"{name}: {value}\r\n" for name, value in for_proxy.items())
        # Behind a proxy that takes part in HTTP, the first line has the whole URL.
        is_forwarded = self._proxy is not None and self._server.scheme == "http"
        path = self._server.path or "/"
        target = f"http://{host_of(url)}{path}" if is_forwarded else path
        self._head = (
            f"POST {target} HTTP/1.1\r\nHost: {host_of(url)}\r\nUser-Agent: photon\r\n"
            f"Accept-Encoding: identity\r\n{self._proxy_headers if is_forwarded else ''}"
        )
        self._idle: list[_Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        _close_all(self._idle)

    def post(self, headers: str, body: bytes, deadline: float) -> Response:
        """The answer, if all of it is there before `deadline` by `time.monotonic()`; else a BotoCoreError.

        `headers`: lines that end in CRLF.
        """
        request = f"{self._head}{headers}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
        connection = self._kept() or self._opened(deadline)
        try:
            response, may_be_kept = connection.exchange(request, deadline)
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except OSError as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self._url, error=error) from error
        except ValueError as error:  # no HTTP
            connection.close()
            raise HTTPClientError(error=error) from error
        except BaseException:
            connection.close()
            raise
        if may_be_kept and len(self._idle) < self._connections:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def _kept(self) -> _Connection | None:
        while True:
            try:
                connection = self._idle.pop()  # the one used last: the server has waited least for it
            except IndexError:
                return None
            if connection.is_quiet():
                return connection
            connection.close()

    def _opened(self, deadline: float) -> _Connection:
        """A new connection. Nothing of the request has been sent when this fails."""
        try:
            return self._open(deadline)
        except BotoCoreError:
            raise
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self._url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self._url, error=error) from error
        except (OSError, ValueError) as error:
            if self._proxy_url is not None:
                from botocore.httpsession import mask_proxy_url

                raise ProxyUnusable(proxy_url=mask_proxy_url(self._proxy_url), error=error) from error
            raise EndpointConnectionError(endpoint_url=self._url, error=error) from error

    def _open(self, deadline: float) -> _Connection:
        if self._proxy is not None and self._proxy.scheme != "http":
            raise ValueError("its URL does not begin with http://")
        sock = _connect(self._proxy or self._server, deadline)
        try:
            if self._server.scheme == "http":
                return _Connection(sock)
            if self._proxy is not None:
                self._have_tunnel(sock, deadline)
            tls = self._tls
            sock.settimeout(seconds_left(deadline))  # bounds all of the handshake
            return _Connection(tls.wrap_socket(sock, server_hostname=self._server.hostname))
        except BaseException:
            sock.close()
            raise

    def _have_tunnel(self, sock: socket.socket, deadline: float) -> None:
        place = f"{_in_brackets(self._server)}:{_port(self._server)}"
        request = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{self._proxy_headers}\r\n"
        status = _Connection(sock).begin(request.encode("latin-1"), deadline)[0]
        if not 200 <= status < 300:
            raise OSError(f"it answers CONNECT with HTTP status {status}")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        from botocore.httpsession import create_urllib3_context

        context: ssl.SSLContext = create_urllib3_context()
        context.check_hostname = True  # urllib3 would do that itself
        context.hostname_checks_common_name = False
        authorities = self._authorities()
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            reason = f"the certificates in {authorities} can't be read: {error}"
            raise SSLError(endpoint_url=self._url, error=reason) from error
        return context


class _Connection:
    """One connection, used by one thread at a time. Raises OSError, or ValueError for what is no HTTP."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = bytearray()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last answer: neither its end nor bytes that belong nowhere."""
        return not self._poll.poll(0)

    def exchange(self, request: bytes, deadline: float) -> tuple[Response, bool]:
        """Send a request: its answer, and whether another request may follow on this connection."""
        status, headers, version = self.begin(request, deadline)
        length = headers.get("content-length")
        may_be_kept = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if status in (204, 304):
            body = b""
        elif "transfer-encoding" in headers:
            body = self._chunks(deadline)
        elif length is not None:
            body = self._take(_number(length, 10), deadline)
        else:
            body, may_be_kept = self._rest(deadline), False
        return Response(status, headers, body), may_be_kept and not self._received

    def begin(self, request: bytes, deadline: float) -> tuple[int, Mapping[str, str], str]:
        """Send a request: the status, headers and HTTP version of its answer, whose body is still to come."""
        left = memoryview(request)
        while left:
            self._socket.settimeout(seconds_left(deadline))
            left = left[self._socket.send(left) :]
        while True:
            first, *lines = self._take_to(b"\r\n\r\n", deadline).decode("latin-1").split("\r\n")
            version, _, rest = first.partition(" ")
            status = _number(rest[:3], 10)
            if not version.startswith("HTTP/"):
                raise ValueError(f"no HTTP: {first[:80]!r}")
            if status >= 200:  # else only a word in between
                break
        fields = (line.partition(":") for line in lines)
        return status, {name.lower(): value.strip() for name, _, value in fields}, version

    def _chunks(self, deadline: float) -> bytes:
        body = bytearray()
        while size := _number(self._take_to(b"\r\n", deadline).partition(b";")[0].strip().decode(), 16):
            body += self._take(size, deadline)
            if self._take(2, deadline) != b"\r\n":
                raise ValueError("a chunk is longer than it says")
        while self._take_to(b"\r\n", deadline) != b"\r\n":  # headers that come last
            pass
        return bytes(body)

    def _rest(self, deadline: float) -> bytes:
        try:
            while True:
                self._receive(deadline)
        except _Closed:
            return self._take(len(self._received), deadline)

    def _take_to(self, end: bytes, deadline: float) -> bytes:
        while (at := self._received.find(end)) < 0:
            if len(self._received) > _MOST_HEAD_BYTES:
                raise ValueError("no end of the headers")
            self._receive(deadline)
        return self._take(at + len(end), deadline)

    def _take(self, count: int, deadline: float) -> bytes:
        while len(self._received) < count:
            self._receive(deadline)
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _receive(self, deadline: float) -> None:
        self._socket.settimeout(seconds_left(deadline))
        part = self._socket.recv(_RECEIVE_BYTES)
        if not part:
            raise _Closed("closed by the server")
        self._received += part


def _proxy_of(url: str) -> tuple[str | None, Mapping[str, str]]:
    """The proxy that the environment names for a URL, if any, and the headers that it is sent."""
    # Here, for it takes 0.07 s, and nobody needs it who asks a registry on his own machine.
    from botocore.httpsession import ProxyConfiguration
    from botocore.utils import get_environ_proxies

    proxies = ProxyConfiguration(get_environ_proxies(url))
    proxy_url: str | None = proxies.proxy_url_for(url)
    return proxy_url, {} if proxy_url is None else proxies.proxy_headers_for(proxy_url)


def _connect(to: SplitResult, deadline: float) -> socket.socket:
    """A connection to the first address of a host that takes one. Looking up a name knows no time-out."""
    looked_up = in_background(
        lambda: socket.getaddrinfo(to.hostname, _port(to), type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    )
    addresses = looked_up.result(seconds_left(deadline))
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        is_last = number == len(addresses)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(seconds_left(deadline) / (1 if is_last else 2))
            sock.connect(address)
            # A request may be several segments: none is to wait for the acknowledgement of the one before.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock
        except OSError:
            sock.close()
            if is_last:
                raise
    raise OSError(f"{to.hostname} has no address")


def _close_all(idle: list[_Connection]) -> None:
    while idle:
        with suppress(IndexError):  # another thread has just taken it
            idle.pop().close()


def _port(place: SplitResult) -> int:
    return place.port or _PORTS[place.scheme]


def _in_brackets(place: SplitResult) -> str:
    host = place.hostname or ""
    return f"[{host}]" if ":" in host else host


def _is_own_machine(place: SplitResult) -> bool:
    try:
        return ipaddress.ip_address(place.hostname or "").is_loopback
    except ValueError:
        return place.hostname == "localhost"


def _number(digits: str, base: int) -> int:
    """The number that digits say; ValueError for signs and underscores, which `int` takes."""
    if not digits.isalnum():
        raise ValueError(f"no number: {digits[:20]!r}")
    return int(digits, base)
