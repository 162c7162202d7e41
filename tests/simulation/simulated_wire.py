"""The product's own requests and answers over the simulated network, to a store that interprets them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.wire import UNREADABLE
from tests.simulation.keyword_client import KeywordClient
from tests.simulation.network import ClientOfRequests
from tests.simulation.simulated_stores import TABLE, Store, Stores

_URL = "http://simulated"


class Wire(KeywordClient):
    """A client of one store, as `WireClient` is one: each call is a message, and may meet any weather."""

    def __init__(self, client: ClientOfRequests, store: Store) -> None:
        self._client = client
        self._store = store

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return partial(self._call, operation)

    def _call(self, operation: str, **request: Any) -> Any:
        timed_out: Any = ReadTimeoutError(endpoint_url=_URL)
        answer = self._client.ask(self._store, lambda: self._serve(operation, request), timed_out)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _serve(self, operation: str, request: dict[str, Any]) -> Any:
        """What the store answers at this moment: an answer, or the error that the client is to raise."""
        chance, weather = self._client.network.chance, self._client.network.weather
        if not self._store.is_there:
            return _error("ResourceNotFoundException")
        if self._store.is_down:
            return EndpointConnectionError(endpoint_url=_URL)
        if chance.random() < weather.throttled:
            return _error("ThrottlingException")
        try:
            answer = getattr(self._store.interpreter, operation)(**request)
        except ClientError as error:
            answer = error
        return _error(UNREADABLE) if chance.random() < weather.unreadable else answer


def acceptor_of(
    client: ClientOfRequests, stores: Stores, transactions: bool, slot: int, incarnation: str
) -> DynamoAcceptor:
    """The product's acceptor of a store, for one client; its calls take several requests."""
    store = stores.store(slot, incarnation)
    acceptor = DynamoAcceptor(TABLE, lambda: Wire(client, store), transactions)
    acceptor.writes_per_request = store.writes_per_request
    acceptor.reads_per_request = store.reads_per_request
    return acceptor


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "Simulated")
