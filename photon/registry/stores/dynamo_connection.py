"""Connections to an endpoint with the DynamoDB API, by boto3.

boto3 is imported when the first client is made: commands that ask no store need not wait for it.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from photon.registry.address import LOCAL_REGION, EndpointAddress

_LOCAL_KEY = "photon"  # servers of a machine want a key and take any
# A session reads the API's description, which takes 0.1 s; it makes clients for one thread at a time.
_sessions = threading.Lock()


class DynamoConnection:
    """How to get a client of one endpoint. One thread calls it at a time."""

    def __init__(self, endpoint: EndpointAddress, timeout: timedelta, connections: int) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout.total_seconds()
        self._connections = connections
        self._client: Any = None

    def __call__(self) -> Any:
        """A client; always the same one."""
        if self._client is None:
            self._client = self._make()
        return self._client

    def _make(self) -> Any:
        from botocore.config import Config

        from photon.registry.stores.dynamo_keys import heed_refusal, keys_of

        endpoint = self._endpoint
        config = Config(
            retries={"total_max_attempts": 1},  # whether to ask again is for the rounds to say (B2)
            connect_timeout=self._timeout_seconds,
            read_timeout=self._timeout_seconds,
            max_pool_connections=self._connections,
            tcp_keepalive=True,
        )
        is_open = endpoint.region == LOCAL_REGION and endpoint.profile is None and endpoint.role is None
        keys = {"aws_access_key_id": _LOCAL_KEY, "aws_secret_access_key": _LOCAL_KEY} if is_open else {}
        of_keys = endpoint.profile, endpoint.role, endpoint.region
        with _sessions:
            client = _session(*of_keys).client(
                "dynamodb", endpoint_url=endpoint.where, region_name=endpoint.region, config=config, **keys
            )
        client.meta.events.register("after-call.dynamodb", partial(heed_refusal, partial(keys_of, *of_keys)))
        return client


@lru_cache
def _session(profile: str | None, role: str | None, region: str) -> Any:
    """A session whose clients make each request with the keys of then."""
    import boto3
    import botocore.session

    from photon.registry.stores.dynamo_keys import KeysNow, keys_of

    core = botocore.session.Session(profile=profile)
    core._credentials = KeysNow(partial(keys_of, profile, role, region))
    return boto3.session.Session(botocore_session=core)
