"""Send requests of the DynamoDB API as JSON, without boto3's models and botocore's HTTP session.

boto3 walks through every value of a request and an answer by its model, in Python. Here parameters are the
JSON that is sent, and the answer is the JSON that comes (docs/adr/0018).
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from photon.registry.dynamodb.credentials import Access, Signer
from photon.registry.dynamodb.keep_alive import KeepAliveClient, host_of

_API = "DynamoDB_20120810"
_CHECKSUM = "x-amz-crc32"

_OPERATIONS = {
    name: "".join(word.title() for word in name.split("_"))
    for name in (
        "batch_execute_statement",
        "batch_get_item",
        "create_table",
        "delete_table",
        "describe_table",
        "execute_transaction",
        "get_item",
        "list_tables",
        "put_item",
        "query",
        "scan",
        "transact_write_items",
    )
}

UNREADABLE = "UnreadableAnswer"  # our own code, for an answer that is not what the API promises


# The endpoint does not know these credentials, or not any more: others may have taken their place.
_OUTDATED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "UnrecognizedClientException",
)

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class CredentialsMissing(BotoCoreError):
    """No credentials were found for an endpoint, or they could not be renewed: nothing was sent."""

    fmt = "no credentials for {endpoint_url}: {error}"


class WireClient:
    """A client of one endpoint; thread-safe. One attempt a request, none longer than `timeout_seconds`.

    Its methods are called as boto3's are, or by `post`, and return the answer's JSON. They raise ClientError
    where the endpoint says so or its answer can't be read, CredentialsMissing, and other BotoCoreErrors where
    it does not answer. It keeps at most `connections`.
    """

    def __init__(self, url: str, access: Access, timeout_seconds: float, connections: int) -> None:
        self.url = url
        self._timeout_seconds = timeout_seconds
        self._credentials = access.credentials
        self._http = KeepAliveClient(url, connections, access.authorities)
        self._signer = Signer(host_of(url), urlsplit(url).path or "/", access.region)

    def __getattr__(self, name: str) -> Callable[..., Mapping[str, Any]]:
        """A method for each operation, named as boto3 names it."""
        if name not in _OPERATIONS:
            raise AttributeError(name)
        return partial(self._call, _OPERATIONS[name])

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._http.close()

    def post(self, operation: str, body: bytes) -> Mapping[str, Any]:
        """Send a request whose JSON is there already; `operation` as boto3 names it."""
        return self._send(_OPERATIONS[operation], body)

    def _call(self, operation: str, **request: Any) -> Mapping[str, Any]:
        return self._send(operation, _encode(request).encode())

    def _send(self, operation: str, body: bytes) -> Mapping[str, Any]:
        deadline = time.monotonic() + self._timeout_seconds
        headers = self._signed(operation, body, deadline)
        response = self._http.post(headers, body, deadline)
        answer = _answer(response.body, response.headers.get(_CHECKSUM))
        if response.status >= 300 or answer is None:
            error = _error(response.status, answer)
            if error["Error"]["Code"] in _OUTDATED:
                self._credentials.forget()
            raise ClientError(error, operation)
        return answer

    def _signed(self, operation: str, body: bytes, deadline: float) -> str:
        try:
            credentials = self._credentials.current(deadline)
        except Exception as error:  # of boto3's chain, of STS, of a program that gives them: all kinds
            reason = str(error) or "none were found in time"
            raise CredentialsMissing(endpoint_url=self.url, error=reason) from error
        return self._signer.headers(f"{_API}.{operation}", body, credentials)


def _answer(body: bytes, checksum: str | None) -> dict[str, Any] | None:
    """The answer's JSON; None if it is none, or does not have the checksum that it came with."""
    if checksum is not None and zlib.crc32(body) != int(checksum):
        return None
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _error(status: int, answer: dict[str, Any] | None) -> Any:
    """An error in boto3's form: its name without the namespace, and all else that came with it."""
    if answer is None:
        return {"Error": {"Code": UNREADABLE, "Message": f"an answer with HTTP status {status}"}}
    name = str(answer.get("__type", status)).split("#")[-1].split(":")[0]
    message = str(answer.get("message", answer.get("Message", "")))
    return {**answer, "Error": {"Code": name, "Message": message}}
