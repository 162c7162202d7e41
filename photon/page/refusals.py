"""Requests that are not answered, each with its status of HTTP, and how answers and errors are sent."""

from __future__ import annotations

import json

from starlette.responses import Response

MOST_ANSWER_BYTES = 4 * 2**20


class RequestRefused(Exception):
    """A request that is not answered; the message says why, `what_to_do` what would help."""

    status = 400

    def __init__(self, why: str, what_to_do: str = "") -> None:
        super().__init__(why)
        self.what_to_do = what_to_do


class BadRequest(RequestRefused):
    """The request says something that can't be used."""


class NoToken(RequestRefused):
    """The request has no token, or a wrong one."""

    status = 401


class CrossSite(RequestRefused):
    """A page of somebody else's asks."""

    status = 403


class TooMany(RequestRefused):
    """Somebody asks for more than his share, or for what is done one at a time."""

    status = 429


class TooManyAtOnce(RequestRefused):
    """All together ask for more than the process answers; also one that can't be answered now."""

    status = 503


def as_json(value: object, status: int = 200) -> Response:
    """The value as JSON. Its type tells browsers that no text in it is markup."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) > MOST_ANSWER_BYTES:
        return error_response(
            TooManyAtOnce(f"the answer has more than {MOST_ANSWER_BYTES:,} bytes", "ask for less")
        )
    return Response(text, status, media_type="application/json", headers={"Cache-Control": "no-store"})


def error_response(error: RequestRefused) -> Response:
    """An error for people."""
    return as_json({"error": str(error), "what_to_do": error.what_to_do}, error.status)
