"""The page's addresses, each with what answers it; answers and errors are JSON."""

from __future__ import annotations

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

from photon.errors import UserError
from photon.page.asking import Busy
from photon.page.event import Events
from photon.page.now import Now
from photon.page.records import Records
from photon.page.refusals import BadRequest, Refused
from photon.page.registry import RegistrySeen
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock

STATIC = Path(__file__).parent / "static"
Asked = Mapping[str, str]  # the values of a request's query
log = logging.getLogger(__name__)


def page_of(pipeline: Pipeline, clock: Clock) -> Starlette:
    """The page of a pipeline."""
    registry = RegistrySeen(pipeline, clock)
    now, records, events = (
        Now(pipeline, registry, clock),
        Records(pipeline, clock),
        Events(pipeline, registry),
    )
    return Starlette(
        routes=[
            Route("/api/now", _answering(lambda asked: now.answer())),
            Route("/api/records", _answering(lambda asked: records.answer(_whole(asked, "hours", 24)))),
            Route("/api/event", _answering(lambda asked: events.answer(asked.get("id", "")))),
            Mount("/", StaticFiles(directory=STATIC, html=True)),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )


def _answering(
    answer: Callable[[Asked], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return as_json(await answer(request.query_params))
        except Refused as error:
            return error_response(error.status, str(error), error.what_to_do)
        except Busy as error:
            return error_response(429, str(error), "wait a moment, and ask again")
        except (UserError, OSError) as error:
            return error_response(503, str(error), "")

    return endpoint


def _whole(asked: Asked, name: str, default: int) -> int:
    """A whole number of the query. BadRequest."""
    try:
        return int(asked.get(name, default))
    except ValueError as error:
        raise BadRequest(f"{name}={asked[name]!r:.40}: expected a whole number") from error


def as_json(value: object, status: int = 200) -> Response:
    """The value as JSON: text with any content, of which a browser makes no markup."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json", headers={"Cache-Control": "no-store"})


def error_response(status: int, error: str, what_to_do: str) -> Response:
    """An error for people: what went wrong, and what to do."""
    return as_json({"error": error, "what_to_do": what_to_do}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what_to_do = "the page itself is at /" if error.status_code == 404 else ""
    return error_response(error.status_code, error.detail, what_to_do)


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s failed", request.url.path, exc_info=error)
    return error_response(500, "a defect of Photon: its log says more", "report it with the log")
