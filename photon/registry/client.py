"""The boto3 client of one endpoint: one attempt a request, and as little work in between as boto3 allows.

The DynamoDB API is JSON, and so are our parameters and what we read of answers: texts all of them. botocore
walks over every one of them three times, to check, to convert and to parse; its own events let us leave that
out. What is asked belongs in `photon.registry.dynamodb`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3
from botocore.config import Config

LOCAL_REGION = "local"
_LOCAL_KEY = "photon"  # local servers want a key and take any

_BODY = "photon_body"  # of the request, in the context that botocore hands from event to event


def dynamodb_client(url: str, region: str, timeout: timedelta, connections: int) -> Any:
    """A client that makes one attempt a request (protocol B2), none longer than `timeout`.

    Answers have the types of JSON. In the region `local` no credentials are needed. An answer that is not
    JSON is a ValueError.
    """
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout.total_seconds(),
        read_timeout=timeout.total_seconds(),
        max_pool_connections=connections,
        tcp_keepalive=True,
        parameter_validation=False,
    )
    keys = (
        {"aws_access_key_id": _LOCAL_KEY, "aws_secret_access_key": _LOCAL_KEY}
        if region == LOCAL_REGION
        else {}
    )
    # A session of its own: boto3's default one is not safe to share between threads while it is made.
    client = boto3.session.Session().client(
        "dynamodb", endpoint_url=url, region_name=region, config=config, **keys
    )
    # Client CPU an id, 100 ids a request: 50 -> 10 us for an insert, 40 -> 8 us for a read.
    client.meta.events.register_last("before-parameter-build.dynamodb", _write_body)
    client.meta.events.register("before-call.dynamodb", _use_body)
    client.meta.events.register("before-parse.dynamodb", _read_body)
    return client


def _write_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context[_BODY] = json.dumps(params).encode()
    for name, value in params.items():
        if isinstance(value, list | dict):
            params[name] = type(value)()  # nothing left to convert


def _use_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    params["body"] = context[_BODY]


def _read_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    if response_dict["status_code"] == 200:  # errors are botocore's to read
        customized_response_dict.update(json.loads(response_dict["body"]))
        response_dict["body"] = b"{}"
