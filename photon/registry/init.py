"""Making a registry and finding it again: the only code that creates tables (protocol B9).

A directory table at the endpoint names the table of each pipeline, so that of two inits at once
one wins. What is in a registry's table belongs in `photon.registry.layout` and `.register`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from photon.clock import Clock
from photon.pipeline import Pipeline, settings_hash
from photon.registry.address import EndpointAddress, RegistryAddress
from photon.registry.endpoints import Deadline
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.registry.layout import SHARD_HASH
from photon.registry.open import connection, open_register
from photon.registry.register import Members, Register, ShardConfig, with_horizon

DIRECTORY = "photon-pipelines"
ADMIN_TIMEOUT = timedelta(seconds=10)  # tables are made more slowly than items
TABLE_SECONDS = 120.0  # AWS takes about ten to make a table

Answer = TypeVar("Answer")


class RegistryMissing(Exception):
    """There is no registry for the pipeline yet; the message says how to make it."""


def init_registry(pipeline: Pipeline, clock: Clock) -> RegistryAddress:
    """Make the pipeline's registry, or return the one that is there with the same settings.

    RegistryMismatch if the one that is there was made with other settings; RegistryUnavailable if
    an endpoint does not answer: what was done so far does no harm, and init can be repeated.
    """
    endpoint = endpoint_of(pipeline)
    client = _client(endpoint)
    table = _table_of(client, pipeline.name)
    if table is None:
        table = _make(client, pipeline, clock)
    return _checked(pipeline, _address(pipeline, endpoint, table))


def find_registry(pipeline: Pipeline) -> RegistryAddress:
    """The pipeline's registry, never made here.

    RegistryMissing if there is none, RegistryMismatch if it belongs to other settings,
    RegistryUnavailable if an endpoint does not answer.
    """
    endpoint = endpoint_of(pipeline)
    table = _table_of(_client(endpoint), pipeline.name)
    if table is None:
        raise RegistryMissing(
            f"There is no registry for the pipeline {pipeline.name} at {endpoint}."
            f" If it was never made, make it: photon registry init {pipeline.file}."
            " If it was, its endpoint has lost its data, or the pipeline file names another one."
        )
    return _checked(pipeline, _address(pipeline, endpoint, table))


def ids_carry_time(pipeline: Pipeline) -> bool:
    """Whether events of this pipeline have a time in their key (protocol C4)."""
    return pipeline.foreign.time_in_id or pipeline.foreign.id_codec is not None


def endpoint_of(pipeline: Pipeline) -> EndpointAddress:
    """The store that the pipeline file names."""
    endpoints = pipeline.registry.endpoints
    if endpoints == "local":
        return EndpointAddress(None, pipeline.registry_folder, transactions=True)
    assert len(endpoints) == 1, "the pipeline file is refused with more endpoints than are served"
    (endpoint,) = endpoints
    return EndpointAddress(endpoint.url, None, endpoint.region, endpoint.transactions)


def _address(pipeline: Pipeline, endpoint: EndpointAddress, table: str) -> RegistryAddress:
    return RegistryAddress(
        pipeline=pipeline.name,
        endpoints=(endpoint,),
        table=table,
        settings=pipeline.registry,
        settings_hash=settings_hash(pipeline),
        time_in_id=ids_carry_time(pipeline),
    )


def _checked(pipeline: Pipeline, address: RegistryAddress) -> RegistryAddress:
    problem = mismatch(address, open_register(address).read())
    if problem is not None:
        raise RegistryMismatch(f"{pipeline.file}: {problem}")
    return address


def mismatch(address: RegistryAddress, register: Register) -> str | None:
    """Why this register does not belong to the pipeline of `address`, with the remedy; None if it does."""
    where = f"the registry {address.table} at {address.endpoints[0]}"
    if register.pipeline != address.pipeline:
        return f"{where} belongs to the pipeline {register.pipeline}; give each pipeline its own name"
    if register.settings_hash != address.settings_hash:
        return (
            f"{where} was made with other settings of ids and times: it would not know what is joined."
            " Put those settings back, or give the pipeline a new name and new lakes and make its registry"
            " with: photon registry init"
        )
    if register.shard_hash != SHARD_HASH:
        return (
            f"{where} spreads ids by {register.shard_hash}, this version of Photon by {SHARD_HASH};"
            " use the version that made it"
        )
    return None


# -- making


def _make(client: Any, pipeline: Pipeline, clock: Clock) -> str:
    """The pipeline's new table, or that of another init which was faster."""
    _create_table(client, DIRECTORY, clock)
    table = f"photon-{pipeline.name}-{secrets.token_hex(8)}"
    _create_table(client, table, clock)
    address = _address(pipeline, endpoint_of(pipeline), table)
    open_register(address).create(_first_register(pipeline, clock.now_us()))
    try:
        # Last, so that a registry that can be found is complete.
        client.put_item(
            TableName=DIRECTORY,
            Item={"p": {"S": "pipeline"}, "s": {"S": pipeline.name}, "t": {"S": table}},
            ConditionExpression="attribute_not_exists(p)",
        )
        return table
    except client.exceptions.ConditionalCheckFailedException:
        # Nobody has heard of ours: the directory names another table, for good.
        _call(lambda: client.delete_table(TableName=table))
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error
    return _table_of(client, pipeline.name) or table


def _first_register(pipeline: Pipeline, now_us: int) -> Register:
    step_us = pipeline.registry.horizon_step // timedelta(microseconds=1)
    timed = ids_carry_time(pipeline)
    register = Register(
        pipeline=pipeline.name,
        settings_hash=settings_hash(pipeline),
        shard_hash=SHARD_HASH,
        members=Members(1, (secrets.token_hex(8),)),
        configs=(ShardConfig(pipeline.registry.shards),) if timed else (),
        horizon_us=now_us if timed else None,
    )
    return with_horizon(register, now_us, step_us)


def _create_table(client: Any, table: str, clock: Clock) -> None:
    """Make a table, unless it is there, and wait until it can be used."""
    try:
        client.create_table(
            TableName=table,
            KeySchema=[
                {"AttributeName": "p", "KeyType": "HASH"},
                {"AttributeName": "s", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "p", "AttributeType": "S"},
                {"AttributeName": "s", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    except client.exceptions.ResourceInUseException:
        pass
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error
    deadline = Deadline(clock, TABLE_SECONDS)
    while _call(lambda: client.describe_table(TableName=table))["Table"]["TableStatus"] != "ACTIVE":
        if not deadline.pause():
            raise RegistryUnavailable(f"the table {table} was not ready within {TABLE_SECONDS:.0f} s")


# -- asking


def _client(endpoint: EndpointAddress) -> Any:
    return _call(connection(endpoint, ADMIN_TIMEOUT, 1))


def _table_of(client: Any, pipeline: str) -> str | None:
    """The table that the directory names for a pipeline; None if it names none."""
    key = {"p": {"S": "pipeline"}, "s": {"S": pipeline}}
    try:
        answer = client.get_item(TableName=DIRECTORY, Key=key, ConsistentRead=True)
    except client.exceptions.ResourceNotFoundException:
        return None
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error
    item = answer.get("Item")
    return None if item is None else str(item["t"]["S"])


def _call(request: Callable[[], Answer]) -> Answer:
    try:
        return request()
    except (BotoCoreError, ClientError) as error:
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> RegistryUnavailable:
    return RegistryUnavailable(f"the registry does not answer: {error}")
