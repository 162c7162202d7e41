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
_STS_SECONDS = 5
# A session reads the API's description, which takes 0.1 s; it makes clients for one thread at a time.
_sessions = threading.Lock()
_SESSION = "photon"  # how CloudTrail names who assumed a role


class Connection:
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
        with _sessions:
            return _session(endpoint.profile, endpoint.role, endpoint.region).client(
                "dynamodb", endpoint_url=endpoint.where, region_name=endpoint.region, config=config, **keys
            )


@lru_cache
def _session(profile: str | None, role: str | None, region: str) -> Any:
    """A session with the credentials of boto3's chain or of a profile, or of a role assumed with them."""
    import boto3
    import botocore.session
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    core = botocore.session.Session(profile=profile)
    if role is not None:
        source = core.get_credentials()
        sts = Config(connect_timeout=_STS_SECONDS, read_timeout=_STS_SECONDS)
        fetcher = AssumeRoleCredentialFetcher(
            partial(core.create_client, region_name=region, config=sts),
            source,
            role,
            extra_args={"RoleSessionName": _SESSION},
        )
        core = botocore.session.Session(profile=profile)
        core._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return boto3.session.Session(botocore_session=core)
