"""The credentials of one endpoint, as boto3 finds them, and the signatures that are made with them.

Who asks a registry on his own machine needs none, and imports nothing of botocore's search for them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from botocore.exceptions import NoCredentialsError

from photon.registry.dynamodb.keep_alive import in_background, seconds_left

_CONTENT_TYPE = "application/x-amz-json-1.0"
_SERVICE = "dynamodb"
LOCAL_REGION = "local"
_LOCAL_KEY = "photon"  # DynamoDB Local wants a key and takes any
_SESSION = "photon"  # how CloudTrail names who assumed a role
_STS_SECONDS = 5
# Credentials that are valid for less are renewed before they are used; longer ones, while they are.
_LAST_SECONDS = 60
_PAUSE_SECONDS = 1.0  # between two searches: it reads files, and may ask other services


@dataclass(frozen=True, slots=True)
class _LocalCredentials:
    """Those of the local registry, which asks for some and takes any."""

    access_key: str = _LOCAL_KEY
    secret_key: str = _LOCAL_KEY
    token: str | None = None

    def get_frozen_credentials(self) -> _LocalCredentials:
        return self


if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials

    Found: TypeAlias = Credentials | _LocalCredentials
    Frozen: TypeAlias = ReadOnlyCredentials | _LocalCredentials


class CredentialSource:
    """The credentials of one endpoint: found when they are first needed, renewed before they expire.

    Thread-safe. `find` may take long, for it may ask other services: nobody waits beyond his own deadline.
    """

    def __init__(self, find: Callable[[], Found | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._found: Found | None = None
        # Frozen: a renewal in between would leave them half old and half new.
        self._frozen: Frozen | None = None
        self._search: Future[Frozen] | None = None
        self._search_again_at = 0.0

    def current(self, deadline: float) -> Frozen:
        """Valid ones. Whatever finding them raises; TimeoutError at `deadline` by `time.monotonic()`."""
        frozen, found = self._frozen, self._found
        refresh_needed = getattr(found, "refresh_needed", None)  # of those that expire
        if frozen is None or (refresh_needed is not None and refresh_needed(_LAST_SECONDS)):
            return self._searching().result(seconds_left(deadline))
        if refresh_needed is not None and refresh_needed():
            self._searching()
        return frozen

    def forget(self) -> None:
        """Find them anew: the endpoint does not take these any more."""
        with self._lock:
            self._found = self._frozen = None

    def _searching(self) -> Future[Frozen]:
        """The search that goes on, or the last one if it has only just ended."""
        with self._lock:
            is_over = self._search is None or self._search.done()
            if self._search is None or (is_over and time.monotonic() >= self._search_again_at):
                self._search = in_background(self._renew)
                self._search_again_at = time.monotonic() + _PAUSE_SECONDS
            return self._search

    def _renew(self) -> Frozen:
        found = self._found or self._find()
        if found is None:
            raise NoCredentialsError
        frozen = found.get_frozen_credentials()
        with self._lock:
            self._found, self._frozen = found, frozen
        return frozen


@dataclass(frozen=True, slots=True)
class Access:
    """What an endpoint is spoken to with; `authorities` names the file of certificates that are trusted."""

    region: str
    credentials: CredentialSource
    authorities: Callable[[], str]


def access(region: str, profile: str | None = None, role: str | None = None) -> Access:
    """As boto3 has it: credentials of its chain or of a `profile`, or those that STS gives them for a `role`.

    Certificates are those of AWS_CA_BUNDLE, of the profile, or the usual ones. In the region `local` no
    credentials are needed.
    """
    return Access(
        region, CredentialSource(partial(_find, region, profile, role)), partial(_authorities, profile)
    )


class Signer:
    """Signs requests to one server by AWS Signature Version 4. The key of a day is made once."""

    def __init__(self, host: str, path: str, region: str) -> None:
        self._host = host
        self._path = "/" if path == "/" else _normal(path)
        self._region = region
        self._last: tuple[str, Frozen, bytes] | None = None

    def headers(self, target: str, body: bytes, credentials: Frozen) -> str:
        """The headers that a POST request with this body needs, each ending in CRLF."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {"content-type": _CONTENT_TYPE, "host": self._host, "x-amz-date": now}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        signed["x-amz-target"] = target
        names = ";".join(signed)
        lines = "\n".join(f"{name}:{value}" for name, value in signed.items())
        canonical = f"POST\n{self._path}\n\n{lines}\n\n{names}\n{_hash(body)}"
        scope = f"{now[:8]}/{self._region}/{_SERVICE}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{_hash(canonical.encode())}"
        signature = _hmac(self._key(now[:8], credentials), text).hex()
        del signed["host"]  # it goes first
        return "".join(f"{name}: {value}\r\n" for name, value in signed.items()) + (
            f"authorization: AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope},"
            f" SignedHeaders={names}, Signature={signature}\r\n"
        )

    def _key(self, day: str, credentials: Frozen) -> bytes:
        last = self._last
        if last is not None and last[:2] == (day, credentials):
            return last[2]
        key = f"AWS4{credentials.secret_key}".encode()
        for part in (day, self._region, _SERVICE, "aws4_request"):
            key = _hmac(key, part)
        self._last = (day, credentials, key)
        return key


def _find(region: str, profile: str | None, role: str | None) -> Found | None:
    if region == LOCAL_REGION and profile is None and role is None:
        return _LocalCredentials()
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import Session

    session = Session(profile=profile)
    found: Credentials | None = session.get_credentials()
    if found is None or role is None:
        return found
    sts = Config(connect_timeout=_STS_SECONDS, read_timeout=_STS_SECONDS)
    ask_sts = partial(session.create_client, region_name=region, config=sts)
    fetcher = AssumeRoleCredentialFetcher(ask_sts, found, role, extra_args={"RoleSessionName": _SESSION})
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


def _authorities(profile: str | None) -> str:
    from botocore.httpsession import get_cert_path
    from botocore.session import Session

    configured = Session(profile=profile).get_config_variable("ca_bundle")
    return str(configured or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(True))


def _normal(path: str) -> str:
    from botocore.utils import normalize_url_path

    return quote(normalize_url_path(path), safe="/~")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
