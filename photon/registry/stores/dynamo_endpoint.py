"""An endpoint with the DynamoDB API."""

from __future__ import annotations

from datetime import timedelta

from photon.process.clock import SystemClock
from photon.registry.address import EndpointAddress
from photon.registry.stores.dynamo import DynamoStore
from photon.registry.stores.dynamo_connection import DynamoConnection
from photon.registry.stores.dynamo_directory import DynamoDirectory


class DynamoEndpoint:
    """Implements `photon.registry.stores.endpoint.StoreEndpoint`."""

    def __init__(self, address: EndpointAddress, timeout: timedelta, requests_at_once: int) -> None:
        self._connection = DynamoConnection(address, timeout, requests_at_once)
        self.directory = DynamoDirectory(address, SystemClock(), self._connection)

    def store(self, table: str) -> DynamoStore:
        return DynamoStore(table, self._connection)
