"""Send requests of the DynamoDB API as JSON, signed and sent by botocore, without boto3's models.

boto3 walks through every value of a request and an answer by its model, in Python. Here parameters are the
JSON that is sent, and the answer is the JSON that comes (docs/adr/0018).
"""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.httpsession import URLLib3Session

_API = "DynamoDB_20120810"
_SERVICE = "dynamodb"
_CONTENT_TYPE = "application/x-amz-json-1.0"
_CHECKSUM = "x-amz-crc32"
# Headers and body go one after the other. With Nagle's algorithm each request would wait 40 ms between them
# for an acknowledgement. boto3's client sets this; a bare session does not.
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]

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


class WireClient:
    """A client of one endpoint; thread-safe. One attempt a request, none longer than `timeout_seconds`.

    Its methods are called as boto3's are, and return the answer's JSON. They raise ClientError where the
    endpoint says so or its answer can't be read, and other BotoCoreErrors where it does not answer. Without
    `credentials` those of boto3 are used.
    """

    def __init__(
        self,
        url: str,
        region: str,
        timeout_seconds: float,
        connections: int,
        credentials: Credentials | None = None,
    ) -> None:
        self._url = url
        self._http = URLLib3Session(
            timeout=timeout_seconds, max_pool_connections=connections, socket_options=_SOCKET_OPTIONS
        )
        self._region = region
        # A session of its own: boto3's default one is not safe to share between threads while it is made.
        self._credentials = credentials or boto3.session.Session().get_credentials()

    def __getattr__(self, name: str) -> Callable[..., Mapping[str, Any]]:
        """A method for each operation, named as boto3 names it."""
        if name not in _OPERATIONS:
            raise AttributeError(name)
        return partial(self._call, _OPERATIONS[name])

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, operation: str, **request: Any) -> Mapping[str, Any]:
        headers = {"Content-Type": _CONTENT_TYPE, "X-Amz-Target": f"{_API}.{operation}"}
        outgoing = AWSRequest("POST", self._url, headers, json.dumps(request))
        self._sign(outgoing)
        response = self._http.send(outgoing.prepare())
        answer = _answer(response.content, response.headers.get(_CHECKSUM))
        if response.status_code >= 300 or answer is None:
            raise ClientError(_error(response.status_code, answer), operation)
        return answer

    def _sign(self, outgoing: AWSRequest) -> None:
        if self._credentials is None:
            raise NoCredentialsError
        # Frozen: a renewal in between would leave them half old and half new.
        SigV4Auth(self._credentials.get_frozen_credentials(), _SERVICE, self._region).add_auth(outgoing)


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
