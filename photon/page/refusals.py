"""Requests that are not answered, each with its status of HTTP."""

from __future__ import annotations

from photon.errors import UserError


class Refused(UserError):
    """A request that is not answered; the message says why, `what_to_do` what would help."""

    status = 400

    def __init__(self, why: str, what_to_do: str = "") -> None:
        super().__init__(why)
        self.what_to_do = what_to_do


class BadRequest(Refused):
    """The request says something that can't be used."""
