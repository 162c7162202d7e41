"""The DynamoDB API as JSON goes over the wire: signed and sent by botocore, without boto3's models.

boto3 walks through every value of a request and an answer by its model, in Python. Here parameters are the
JSON that is sent, and the answer is the JSON that comes (docs/adr/0018). Methods are called, and fail, as
boto3's do. What requests say belongs in `photon.registry.dynamodb.requests` and, for tables, `.directory`.
"""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Mapping
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
# Headers and body are sent one after the other: with Nagle's algorithm each request would wait 40 ms for an
# acknowledgement in between. Nobody sets it where a session is made without boto3's client.
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]

UNREADABLE = "UnreadableAnswer"  # our own code, for an answer that is not what the API promises


class WireClient:
    """A client of one endpoint; thread-safe. One attempt a request, none longer than `timeout_seconds`.

    Methods return the answer's JSON. They raise ClientError where the endpoint says so or its answer can't be
    read, and other BotoCoreErrors where it does not answer. Without `credentials` those of boto3 are used.
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

    def batch_execute_statement(self, **request: Any) -> Mapping[str, Any]:
        """Statements, each for itself: `{"Responses": [...]}`, in their order."""
        return self._call("BatchExecuteStatement", request)

    def execute_transaction(self, **request: Any) -> Mapping[str, Any]:
        """Statements, all or none; ClientError has `CancellationReasons` in their order."""
        return self._call("ExecuteTransaction", request)

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """Puts under conditions, all or none; it fails as `execute_transaction` does."""
        return self._call("TransactWriteItems", request)

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Items by their keys: `{"Responses": {table: [...]}, "UnprocessedKeys": {...}}`."""
        return self._call("BatchGetItem", request)

    def scan(self, **request: Any) -> Mapping[str, Any]:
        """A page of all items: `{"Items": [...], "LastEvaluatedKey": ...}`."""
        return self._call("Scan", request)

    def query(self, **request: Any) -> Mapping[str, Any]:
        """A page of the items with one partition key, as `scan`."""
        return self._call("Query", request)

    def batch_write_item(self, **request: Any) -> Mapping[str, Any]:
        """Puts and deletes without a condition: `{"UnprocessedItems": {...}}`."""
        return self._call("BatchWriteItem", request)

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """One item: `{"Item": {...}}`, or without `Item` if there is none."""
        return self._call("GetItem", request)

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """Store an item, under a condition if there is one."""
        return self._call("PutItem", request)

    def create_table(self, **request: Any) -> Mapping[str, Any]:
        """Begin to make a table."""
        return self._call("CreateTable", request)

    def delete_table(self, **request: Any) -> Mapping[str, Any]:
        """Begin to remove a table."""
        return self._call("DeleteTable", request)

    def list_tables(self, **request: Any) -> Mapping[str, Any]:
        """A page of the names of all tables: `{"TableNames": [...], "LastEvaluatedTableName": ...}`."""
        return self._call("ListTables", request)

    def describe_table(self, **request: Any) -> Mapping[str, Any]:
        """What the endpoint says of a table: `{"Table": {"TableStatus": ..., "ItemCount": ..., ...}}`."""
        return self._call("DescribeTable", request)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
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
        # Frozen: credentials that are renewed meanwhile would be half old and half new.
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
    """An error as boto3 tells it: its name without the namespace, and all else that came with it."""
    if answer is None:
        return {"Error": {"Code": UNREADABLE, "Message": f"an answer with HTTP status {status}"}}
    name = str(answer.get("__type", status)).split("#")[-1].split(":")[0]
    message = str(answer.get("message", answer.get("Message", "")))
    return {**answer, "Error": {"Code": name, "Message": message}}
