"""The page's addresses, each with what answers it; answers and errors are JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from photon.page.access import Access
from photon.page.asking import Busy
from photon.page.event import EventTraces
from photon.page.guard import LOGIN, Guard
from photon.page.history import History
from photon.page.now import Now, Offered
from photon.page.points import Points
from photon.page.records import RecordsPage
from photon.page.refusals import (
    BadRequest,
    NoToken,
    RequestRefused,
    TooMany,
    TooManyAtOnce,
    as_json,
    error_response,
)
from photon.page.registry import RegistrySeen
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.errors import UserError

BODY_SECONDS = 5.0  # one that comes more slowly would keep others waiting
STATIC = Path(__file__).parent / "static"
Asked = Mapping[str, str]  # the values of a request's query
MOST_DIGITS = 20
log = logging.getLogger(__name__)


def page_of(pipeline: Pipeline, access: Access, clock: Clock, offered: Offered) -> ASGIApp:
    """The page of a pipeline, for those who have access; `offered` finds the commands of a sentence."""
    registry = RegistrySeen(pipeline, clock)
    points = {name: Points(pipeline, name, clock) for name in pipeline.datacenters}
    now = Now(pipeline, registry, points, clock, offered)
    history, records = History(pipeline, now, points, clock), RecordsPage(pipeline, clock, offered)
    events = EventTraces(pipeline, offered)
    answers: dict[str, Callable[[Asked], Awaitable[dict[str, Any]]]] = {
        "/api/now": lambda asked: now.answer(),
        "/api/history": lambda asked: history.answer(_whole(asked, "from_us"), _whole(asked, "to_us")),
        "/api/records": lambda asked: records.answer(_whole(asked, "hours")),
        "/api/event": lambda asked: events.answer(asked.get("id", "")),
    }
    app = Starlette(
        routes=[
            *(Route(path, _answering(answer)) for path, answer in answers.items()),
            Route(LOGIN, _login(access), methods=["POST"]),
            Mount("/", StaticFiles(directory=STATIC, html=True)),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    return Guard(app, access, clock)


def _answering(
    answer: Callable[[Asked], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return as_json(await answer(request.query_params))
        except RequestRefused as error:
            return error_response(error)
        except Busy as error:
            return error_response(TooMany(str(error), "wait a moment, and ask again"))
        except (UserError, OSError) as error:
            return error_response(TooManyAtOnce(str(error)))

    return endpoint


def _login(access: Access) -> Callable[[Request], Awaitable[Response]]:
    """Begin a session for a browser that sends the token."""

    async def endpoint(request: Request) -> Response:
        try:
            given = json.loads(await asyncio.wait_for(request.body(), BODY_SECONDS))["token"]
        except (ValueError, KeyError, TypeError, TimeoutError, RecursionError):
            given = None
        if access.token is not None and not (isinstance(given, str) and access.is_token(given)):
            return error_response(
                NoToken("that is not the token", "give the one that photon ui was started with")
            )
        response = Response(status_code=204)
        if access.token is not None:
            is_secure = request.url.scheme == "https"
            response.set_cookie(
                access.cookie, access.session, httponly=True, samesite="strict", secure=is_secure
            )
        return response

    return endpoint


def _whole(asked: Asked, name: str) -> int | None:
    """A whole number of the query; None: it says nothing. BadRequest."""
    if name not in asked:
        return None
    try:
        return int(asked[name][:MOST_DIGITS])
    except ValueError as error:
        raise BadRequest(f"{name}={asked[name][:MOST_DIGITS]!r}: expected a whole number") from error


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what_to_do = "the page itself is at /" if error.status_code == 404 else ""
    return as_json({"error": error.detail, "what_to_do": what_to_do}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s failed", request.url.path, exc_info=error)
    told = {
        "error": "a defect of Photon: the log of photon ui says more",
        "what_to_do": "report it with that log",
    }
    return as_json(told, 500)
