"""Stands before every answer: limits, checks of who asks, and headers that forbid browsers things."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from photon.page.access import Access
from photon.page.refusals import (
    BadRequest,
    CrossSite,
    NoToken,
    RequestRefused,
    TooMany,
    TooManyAtOnce,
    error_response,
)
from photon.process.clock import MICROSECONDS, Clock

API, LOGIN = "/api/", "/api/login"
MOST_ADDRESS_BYTES = 16 * 1024  # an id has up to 4 kB, and a byte takes up to three characters
MOST_BODY_BYTES = 4 * 1024
MOST_AT_ONCE = 32  # of those who may look; and as many of all others, so that these keep none of them out
# A page that is opened asks for some twenty files and answers, and then for two each two seconds.
BURST, PER_SECOND = 200.0, 20.0
LOGIN_COSTS = 20.0
MOST_CLIENTS = 1_000  # whose rates are known; who asked longest ago is forgotten
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Rates:
    """How much each client may still ask: so much at once, and so much a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, client: str, cost: float) -> bool:
        """Whether the client may ask; then it has as much less."""
        now_us = self._clock.elapsed_us()
        left, since_us = self._left.pop(client, (BURST, now_us))
        left = min(BURST, left + (now_us - since_us) * PER_SECOND / MICROSECONDS)
        may = left >= cost
        self._left[client] = (left - cost if may else left, now_us)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return may


class Guard:
    """Answers what is refused itself, and gives everything else on."""

    def __init__(self, app: ASGIApp, access: Access, clock: Clock) -> None:
        self._app, self._access, self._rates = app, access, Rates(clock)
        self._at_once: Counter[bool] = Counter()  # questions that are being answered, by `_may_look`

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        request = Request(scope)
        may_look = self._may_look(request)
        try:
            self._check(request, may_look)
        except RequestRefused as error:
            await error_response(error)(scope, receive, send_guarded)
            return
        self._at_once[may_look] += 1
        try:
            await self._app(scope, receive, send_guarded)
        finally:
            self._at_once[may_look] -= 1

    def _may_look(self, request: Request) -> bool:
        """Whether the request shows that it may look. A login, whose body may come slowly, never does."""
        return request.url.path != LOGIN and self._access.lets_in(request.headers, request.cookies)

    def _check(self, request: Request, may_look: bool) -> None:
        """Raise Refused."""
        path, headers = request.url.path, request.headers
        if not self._access.knows(headers.get("host", "")):
            raise BadRequest(
                f"the page is not served under the name {headers.get('host', '')[:80]!r}",
                "open it by its address, or start it with --name and this name",
            )
        if len(path) + len(request.url.query) > MOST_ADDRESS_BYTES or _body_bytes(headers) > MOST_BODY_BYTES:
            raise BadRequest(
                f"the request is too large; expected an address of at most {MOST_ADDRESS_BYTES:,} bytes, "
                f"and a body of at most {MOST_BODY_BYTES:,}"
            )
        client = request.client.host if request.client is not None else ""
        if not self._rates.take(client, LOGIN_COSTS if path == LOGIN else 1.0):
            raise TooMany("you ask too often", "wait some seconds")
        if self._at_once[may_look] >= MOST_AT_ONCE:
            raise TooManyAtOnce(f"{MOST_AT_ONCE} questions are being answered", "wait some seconds")
        if not path.startswith(API):
            return  # files of Photon's own, without anything of the pipeline
        if not self._access.is_own(headers):
            raise CrossSite("another page asks", "open the page itself")
        if path != LOGIN and not may_look:
            raise NoToken(
                "the token is missing, or another one", "give the token that photon ui was started with"
            )


def _body_bytes(headers: Any) -> int:
    """The length of a body. One that does not say it counts as too long."""
    if "transfer-encoding" in headers:
        return MOST_BODY_BYTES + 1
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() else MOST_BODY_BYTES + 1
