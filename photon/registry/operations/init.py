"""Make a pipeline's registry, and find it again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

from photon.clock import Clock, SystemClock
from photon.errors import UserError
from photon.pipeline.file import Pipeline, settings_hash
from photon.registry.address import EndpointAddress, RegistryAddress
from photon.registry.consensus.acceptor import NoReply, Stored
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH
from photon.registry.consensus.register import Members, Register, ShardConfig, decode_register, with_horizon
from photon.registry.dynamodb.requests import DynamoAcceptor
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.registry.open import connection, open_register
from photon.registry.operations.directory import ADMIN_TIMEOUT, TABLE_SECONDS, Directory, EndpointSilent
from photon.registry.operations.membership import (
    Answer,
    Found,
    Judgement,
    NoMajority,
    NotMade,
    OneStoreTwice,
    Said,
    Silent,
    TooFewAnswer,
    find,
)

log = logging.getLogger(__name__)


class RegistryMissing(UserError):
    """There is no registry for the pipeline yet; the message says how to make it."""


def init_registry(pipeline: Pipeline, clock: Clock) -> RegistryAddress:
    """Make the pipeline's registry, or return the one that is there with the same settings.

    Making it needs every endpoint, once. RegistryMismatch if the one that is there was made with other
    settings, or the endpoints do not belong together; RegistryUnavailable if one does not answer: what was
    done so far does no harm, and init can be repeated.
    """
    endpoints = endpoints_of(pipeline)
    there = find(pipeline.name, _ask(pipeline, endpoints))
    if isinstance(there, NotMade):
        there = _make(pipeline, endpoints, clock)
    elif isinstance(there, TooFewAnswer):
        raise RegistryUnavailable(
            f"{_silent(endpoints, there.silent)}; to make a registry every endpoint has to answer, once:"
            f" bring it up, then repeat: photon registry init {pipeline.file}"
        )
    return _checked(pipeline, endpoints, there)


def find_registry(pipeline: Pipeline) -> RegistryAddress:
    """The pipeline's registry, never made here; a minority of its endpoints may be down or wiped.

    RegistryMissing if there is none, RegistryMismatch if it belongs to other settings or its endpoints do not
    belong together, RegistryUnavailable if too few endpoints answer.
    """
    endpoints = endpoints_of(pipeline)
    there = find(pipeline.name, _ask(pipeline, endpoints))
    if isinstance(there, NotMade):
        places = ", ".join(str(endpoint) for endpoint in endpoints)
        raise RegistryMissing(
            f"There is no registry for the pipeline {pipeline.name} at {places}."
            f" If it was never made, make it: photon registry init {pipeline.file}."
            " If it was, its endpoints have lost their data, or the pipeline file names other ones."
        )
    return _checked(pipeline, endpoints, there)


def endpoints_of(pipeline: Pipeline) -> tuple[EndpointAddress, ...]:
    """The stores that the pipeline file names, by slot."""
    endpoints = pipeline.registry.endpoints
    if endpoints == "local":
        return (EndpointAddress(None, pipeline.registry_folder, transactions=True),)
    return tuple(EndpointAddress(e.url, None, e.region, e.transactions) for e in endpoints)


def _checked(
    pipeline: Pipeline,
    endpoints: tuple[EndpointAddress, ...],
    there: Judgement,
) -> RegistryAddress:
    """The address of a registry that was found and belongs to the pipeline; anything else is an error."""
    match there:
        case OneStoreTwice((one, other)):
            raise RegistryMismatch(
                f"{pipeline.file}: {endpoints[one]} and {endpoints[other]} are one and the same store;"
                " give the registry stores of their own"
            )
        case NoMajority(problems):
            raise RegistryMismatch(
                f"{pipeline.file}: {_listed(endpoints, problems)}; no majority of the registry's endpoints is"
                " left: name those that it was made over, or bring back their data"
            )
        case TooFewAnswer(silent):
            raise RegistryUnavailable(
                f"too few endpoints of the registry answer: {_silent(endpoints, silent)}"
            )
        case NotMade():
            raise RegistryUnavailable("the registry that was just made does not answer; repeat the init")
    assert isinstance(there, Found)
    for slot, problem in there.problems.items():
        log.warning("registry of %s: %s %s%s", pipeline.name, endpoints[slot], problem, _remedy(pipeline))
    address = RegistryAddress(
        pipeline=pipeline.name,
        endpoints=endpoints,
        tables=there.tables,
        settings=pipeline.registry,
        settings_hash=settings_hash(pipeline),
        time_in_id=pipeline.ids_carry_time,
        members=there.members,
    )
    store = open_register(address)
    register = store.read()
    if register.settings_hash == _hash_with_shards(pipeline, register):
        register = store.change(lambda now: replace(now, settings_hash=address.settings_hash))
    mismatched = mismatch(address, register)
    if mismatched is not None:
        raise RegistryMismatch(f"{pipeline.file}: {mismatched}")
    return address


def _hash_with_shards(pipeline: Pipeline, register: Register) -> str:
    """The hash of earlier versions, in which the number of shards could not change."""
    made_with = register.configs[0].shards if register.configs else pipeline.registry.shards
    return settings_hash(pipeline, shards=made_with)


def _remedy(pipeline: Pipeline) -> str:
    return f" (a store without its data: photon registry repair {pipeline.file} --endpoint URL)"


def _listed(endpoints: Sequence[EndpointAddress], problems: dict[int, str]) -> str:
    return "; ".join(f"{endpoints[slot]} {problem}" for slot, problem in problems.items())


def _silent(endpoints: Sequence[EndpointAddress], reasons: dict[int, str]) -> str:
    return _listed(endpoints, {slot: f"does not answer ({why})" for slot, why in reasons.items()})


def mismatch(address: RegistryAddress, register: Register) -> str | None:
    """Why this register does not belong to the pipeline of `address`, with the remedy; None if it does."""
    where = f"the registry {address.tables[0]} at {address.endpoints[0]}"
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


# -- asking


def _ask(pipeline: Pipeline, endpoints: Sequence[EndpointAddress]) -> list[Said]:
    """What each endpoint says; all are asked at once, each for at most `ADMIN_TIMEOUT` a request."""
    with ThreadPoolExecutor(len(endpoints)) as pool:
        return list(pool.map(lambda endpoint: what_it_says(pipeline.name, endpoint), endpoints))


def what_it_says(pipeline: str, endpoint: EndpointAddress) -> Said:
    """What an endpoint says of a pipeline; asked once, for at most `ADMIN_TIMEOUT` a request."""
    try:
        table = Directory(endpoint, SystemClock()).table_of(pipeline)
    except EndpointSilent as silent:
        return Silent(silent.reason)
    except RegistryUnavailable as error:  # a local one that does not start
        return Silent(str(error))
    if table is None:
        return Answer(None, None)
    (stored,) = DynamoAcceptor(table, connection(endpoint, ADMIN_TIMEOUT, 1)).read([REGISTER_KEY])
    if isinstance(stored, NoReply):
        return Silent(stored.reason)
    assert isinstance(stored, Stored)
    return Answer(table, None if stored.value is None else decode_register(stored.value))


# -- making


def _make(pipeline: Pipeline, endpoints: tuple[EndpointAddress, ...], clock: Clock) -> Judgement:
    """The new registry, or that of another init which was faster: at each endpoint one of them wins."""
    tables = [Directory(endpoint, clock).ensure_table_of(pipeline.name) for endpoint in endpoints]
    said = find(pipeline.name, [Answer(table, None) for table in tables])
    if isinstance(said, OneStoreTwice):
        return said
    incarnations = tuple(table.removeprefix(f"photon-{pipeline.name}-") for table in tables)
    members = Members(1, incarnations)
    address = RegistryAddress(
        pipeline.name,
        endpoints,
        tuple(tables),
        # Others may be making it at the same moment, and outbid us for a while.
        pipeline.registry.model_copy(update={"total_timeout": timedelta(seconds=TABLE_SECONDS)}),
        settings_hash(pipeline),
        pipeline.ids_carry_time,
        members,
    )
    open_register(address).create(_first_register(pipeline, members, clock.now_us()))
    return find(pipeline.name, _ask(pipeline, endpoints))


def _first_register(pipeline: Pipeline, members: Members, now_us: int) -> Register:
    step_us = pipeline.registry.horizon_step // timedelta(microseconds=1)
    timed = pipeline.ids_carry_time
    register = Register(
        pipeline=pipeline.name,
        settings_hash=settings_hash(pipeline),
        shard_hash=SHARD_HASH,
        members=members,
        configs=(ShardConfig(pipeline.registry.shards),) if timed else (),
        horizon_us=now_us if timed else None,
    )
    return with_horizon(register, now_us, step_us)
