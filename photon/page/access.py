"""Who may look at a page: names under which it is reached, and a token where others than this machine can."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from photon.process.errors import WrongUsage

TOKEN_VARIABLE = "PHOTON_UI_TOKEN"
LEAST_TOKEN_CHARACTERS = 16
_TOKEN_BYTES = 24
_BEARER = "Bearer "


@dataclass(frozen=True)
class Access:
    """Who may look. Without a `token` everybody may who reaches the page.

    `names`: host names of the page, besides addresses and localhost.
    """

    names: frozenset[str] = frozenset()
    token: str | None = None
    cookie: str = "photon-ui"

    @property
    def session(self) -> str:
        """The value of the cookie. The token can't be computed from it."""
        assert self.token is not None
        return hmac.new(self.token.encode(), b"a session of photon ui", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether it is the token; an answer takes the same time whatever is given."""
        return self.token is not None and hmac.compare_digest(_digest(given), _digest(self.token))

    def lets_in(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Whether a request has the token, or a session that it began."""
        if self.token is None:
            return True
        sent = headers.get("authorization", "")
        if sent.startswith(_BEARER):
            return self.is_token(sent.removeprefix(_BEARER))
        return hmac.compare_digest(_digest(cookies.get(self.cookie, "")), _digest(self.session))

    def knows(self, host: str) -> bool:
        """Whether the page is reached under this name of a Host header.

        A page of somebody else's may have his name mean this machine ("DNS rebinding"): so any other name is
        refused, while an address means nobody else.
        """
        name = _name_of(f"//{host}")
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
            return True
        except ValueError:
            return name == "localhost" or name in self.names

    def is_own(self, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from the page itself, or from no page at all."""
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        return urlsplit(origin).netloc == headers.get("host") or _name_of(origin) in self.names


def _name_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def token_for(address: str, given: str | None) -> tuple[str | None, bool]:
    """The token of a page at this address, and whether it was made just now. WrongUsage.

    Where others than this machine reach it, there is always one.
    """
    if given:
        if len(given) < LEAST_TOKEN_CHARACTERS:
            raise WrongUsage(
                f"{TOKEN_VARIABLE} has {len(given)} characters; expected at least {LEAST_TOKEN_CHARACTERS}, "
                "such as those of: openssl rand -hex 16"
            )
        return given, False
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return None, False
    return secrets.token_urlsafe(_TOKEN_BYTES), True
