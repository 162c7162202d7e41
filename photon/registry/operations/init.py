"""Make a pipeline's registry, and find it again from what its endpoints answer."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from photon.clock import Clock, SystemClock
from photon.in_time import NotInTime, Question
from photon.ledger.address import EndpointAddress, table_name
from photon.ledger.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.pipeline.file import Pipeline, pipelines_beside, settings_hash
from photon.registry.address import RegistryAddress, tables_of
from photon.registry.consensus.acceptor import NoReply
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH
from photon.registry.consensus.register import Members, Register, ShardConfig, decode_register, with_horizon
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.open import connection, open_registry
from photon.registry.operations.directory import ADMIN_TIMEOUT, TABLE_SECONDS, Directory, EndpointSilent

log = logging.getLogger(__name__)

GRACE_SECONDS = 1.5  # for a minority of the endpoints, where a majority has answered
ANSWER_SECONDS = 300.0  # an endpoint gives up long before: each of its requests has a time-out


def init_registry(pipeline: Pipeline, clock: Clock) -> RegistryAddress:
    """Make the pipeline's registry, or return the one that is there with the same settings.

    Making it needs every endpoint, once. RegistryMismatch if the one that is there was made with other
    settings, or the endpoints do not belong together. RegistryUnavailable if one does not answer; then init
    can be repeated, for what it has done so far does no harm.
    """
    endpoints = endpoints_of(pipeline)
    try:
        found = _find(pipeline, endpoints)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(
            f"{error}; to make a registry every endpoint has to answer, once: bring it up, then repeat:"
            f" photon registry init {pipeline.typed}"
        ) from error
    if found is None:
        _make(pipeline, endpoints, clock)
        # That of another init which was faster, maybe: at each endpoint one of them wins.
        found = _find(pipeline, endpoints)
    if found is None:
        raise RegistryUnavailable("the registry that was just made does not answer; repeat the init")
    return _checked(pipeline, endpoints, found)


def find_registry(pipeline: Pipeline, grace_seconds: float | None = None) -> RegistryAddress:
    """The pipeline's registry, never made here; a minority of its endpoints may be down or wiped.

    `grace_seconds`: a minority that takes longer is not waited for.

    RegistryMissing if there is none, RegistryMismatch if it belongs to other settings or its endpoints do not
    belong together, RegistryUnavailable if too few endpoints answer.
    """
    endpoints = endpoints_of(pipeline)
    found = _find(pipeline, endpoints, grace_seconds)
    if found is None:
        places = ", ".join(map(str, endpoints))
        makes_it = "join" if pipeline.registry.endpoints == "local" else "registry init"
        raise RegistryMissing(
            f"There is no registry for the pipeline {pipeline.name} at {places}. If it is new, make it: "
            f"photon {makes_it} {pipeline.typed}. If it has joined before, its endpoints have lost their "
            "data, or the pipeline file names other ones: put the data back, or the file right. If the data "
            "is lost for good, make an empty registry, and put the ids of all rows into it: "
            f"photon registry init {pipeline.typed}, then photon registry refill {pipeline.typed}"
        )
    return _checked(pipeline, endpoints, found)


def find_registry_soon(pipeline: Pipeline) -> RegistryAddress:
    """As `find_registry`, for people who wait: a minority of endpoints that hang is not waited for."""
    return find_registry(pipeline, GRACE_SECONDS)


def endpoints_of(pipeline: Pipeline) -> tuple[EndpointAddress, ...]:
    """The stores that the pipeline file names, by slot."""
    endpoints, server = pipeline.registry.endpoints, pipeline.registry.local_server
    if endpoints == "local":
        folder = pipeline.registry_folder
        return (EndpointAddress(folder, transactions=True, local_server=server),)
    return tuple(EndpointAddress(e.url, e.region, e.transactions, e.profile, e.role) for e in endpoints)


def _checked(
    pipeline: Pipeline, endpoints: tuple[EndpointAddress, ...], found: RegistryFound
) -> RegistryAddress:
    """The address of a registry that was found. RegistryMismatch if it was made for other settings."""
    for slot, problem in found.problems.items():
        log.warning(
            "registry of %s: %s %s (a store without its data: photon registry repair %s --endpoint %s)",
            pipeline.name,
            endpoints[slot],
            problem,
            pipeline.typed,
            endpoints[slot],
        )
    address = RegistryAddress(pipeline.name, endpoints, found.members, pipeline.registry)
    register = open_registry(address).register.read()
    where = f"{pipeline.file}: the registry {address.tables[0]} at {endpoints[0]}"
    if register.pipeline != pipeline.name:
        raise RegistryMismatch(
            f"{where} belongs to the pipeline {register.pipeline}; give each pipeline its own name"
        )
    if register.settings_hash != settings_hash(pipeline):
        raise RegistryMismatch(
            f"{where} was made with other settings of ids and times: it would not know what is joined."
            f" Put those settings back; or begin anew, with everything joined again: {begin_anew(pipeline)}"
        )
    if register.shard_hash != SHARD_HASH:
        raise RegistryMismatch(
            f"{where} spreads ids by {register.shard_hash}, this version of Photon by {SHARD_HASH};"
            " use the version that made it"
        )
    return address


def begin_anew(pipeline: Pipeline) -> str:
    """What to do so that everything is joined again: what to remove, as a command, and what else.

    A registry that other pipelines have too is not removed: this one gets a new name there.
    """
    is_local = pipeline.registry.endpoints == "local"
    is_shared = any(other.registry.endpoints == "local" for other in pipelines_beside(pipeline.file))
    places = [
        place
        for each in pipeline.datacenters.values()
        for place in (each.lake, each.state, each.work)
        if place is not None
    ]
    folders = [place for place in places if isinstance(place, Path)]
    folders += [pipeline.registry_folder] if is_local and not is_shared else []
    # Forced: a datacenter that never ran has no folders.
    steps = [f"rm -rf {' '.join(shlex.quote(str(folder)) for folder in folders)}"]
    steps += [f"remove all below {place}" for place in places if not isinstance(place, Path)]
    if is_shared or not is_local:
        steps.append("give the pipeline a new `name`, since its registry keeps what was joined")
    if not is_local:
        steps.append(f"make the registry of that name: photon registry init {pipeline.typed}")
    return "; ".join(steps)


# -- asking


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said: the table that its directory names, and the register in that table, if any."""

    table: str | None
    register: Register | None


EndpointReply = Answer | NoReply


def _find(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], grace_seconds: float | None = None
) -> RegistryFound | None:
    """See `classify_endpoints`. `grace_seconds`: do without those that take longer, if a registry can."""
    asked = [Question(partial(ask_endpoint, pipeline.name, endpoint)) for endpoint in endpoints]
    if grace_seconds is not None:
        ends = time.monotonic() + grace_seconds
        in_time = [_reply_within(one, max(0.0, ends - time.monotonic())) for one in asked]
        with suppress(RegistryUnavailable, RegistryMismatch):
            if (found := classify_endpoints(pipeline, endpoints, in_time)) is not None:
                return found
    return classify_endpoints(pipeline, endpoints, [one.answer(ANSWER_SECONDS) for one in asked])


def _reply_within(asked: Question[EndpointReply], seconds: float) -> EndpointReply:
    try:
        return asked.answer(seconds)
    except NotInTime as error:
        return NoReply(str(error))


def ask_endpoint(pipeline: str, endpoint: EndpointAddress) -> EndpointReply:
    """What an endpoint has of a pipeline; asked once, for at most `ADMIN_TIMEOUT` a request."""
    try:
        table = Directory(endpoint, SystemClock()).table_of(pipeline)
    except EndpointSilent as silent:
        return silent.reply
    except RegistryUnavailable as error:  # a local one that does not start
        return NoReply(str(error))
    if table is None:
        return Answer(None, None)
    (stored,) = DynamoAcceptor(table, connection(endpoint, ADMIN_TIMEOUT, 1)).read([REGISTER_KEY])
    if isinstance(stored, NoReply):
        return stored
    return Answer(table, None if stored.value is None else decode_register(stored.value))


# -- making


def _make(pipeline: Pipeline, endpoints: tuple[EndpointAddress, ...], clock: Clock) -> None:
    tables = [Directory(endpoint, clock).ensure_table_of(pipeline.name) for endpoint in endpoints]
    _require_distinct_stores(pipeline, endpoints, tables)
    members = Members(1, tuple(table.removeprefix(table_name(pipeline.name, "")) for table in tables))
    # Others may be making it at the same moment, and outbid us for a while.
    patient = pipeline.registry.model_copy(update={"total_timeout": timedelta(seconds=TABLE_SECONDS)})
    address = RegistryAddress(pipeline.name, endpoints, members, patient)
    open_registry(address).register.create(_first_register(pipeline, members, clock.now_us()))


def _first_register(pipeline: Pipeline, members: Members, now_us: int) -> Register:
    has_times = pipeline.ids_carry_time
    register = Register(
        pipeline=pipeline.name,
        settings_hash=settings_hash(pipeline),
        shard_hash=SHARD_HASH,
        members=members,
        configs=(ShardConfig(pipeline.registry.shards),) if has_times else (),
        horizon_us=now_us if has_times else None,
    )
    return with_horizon(register, now_us, pipeline.registry.horizon_step // timedelta(microseconds=1))


# -- which endpoints make a registry together: pure


@dataclass(frozen=True, slots=True)
class RegistryFound:
    """A registry that a majority of endpoints belongs to, and what is wrong with the others, by slot."""

    members: Members
    problems: dict[int, str]


def classify_endpoints(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], replies: Sequence[EndpointReply]
) -> RegistryFound | None:
    """The registry that these endpoints, in the order of the pipeline file, make together.

    None if all answer and none has a register: there is no registry yet, or an init did not end.
    RegistryMismatch if they do not belong together, RegistryUnavailable if too few answer to know.
    """
    n = len(replies)
    tables = [reply.table if isinstance(reply, Answer) else None for reply in replies]
    _require_distinct_stores(pipeline, endpoints, tables)
    registers = [r.register for r in replies if isinstance(r, Answer) and r.register is not None]
    # The newest first. A majority of one membership and one of the next have an endpoint in common.
    for register in sorted(registers, key=lambda r: r.members.version, reverse=True):
        members = register.members
        named = tables_of(pipeline.name, members)
        right = [s for s in range(n) if s not in members.down and s < len(named) and tables[s] == named[s]]
        if len(named) == n and len(right) >= majority(n):
            return RegistryFound(members, _problems(pipeline.name, members, replies))
    reasons = {s: f"{r.problem} ({r.reason})" for s, r in enumerate(replies) if isinstance(r, NoReply)}
    if registers and n - len(reasons) >= majority(n):
        problems = _problems(pipeline.name, registers[0].members, replies)
        raise RegistryMismatch(
            f"{pipeline.file}: {_listed(endpoints, problems)}; no majority of the registry's endpoints is"
            " left: name those that it was made over, or bring back their data"
        )
    if reasons:
        raise RegistryUnavailable(f"too few endpoints of the registry answer: {_listed(endpoints, reasons)}")
    return None


def _require_distinct_stores(
    pipeline: Pipeline, endpoints: Sequence[EndpointAddress], tables: Sequence[str | None]
) -> None:
    """RegistryMismatch if two endpoints are one and the same store (protocol B9)."""
    for slot, table in enumerate(tables):
        if table is not None and table in tables[:slot]:
            raise RegistryMismatch(
                f"{pipeline.file}: {endpoints[tables.index(table)]} and {endpoints[slot]} are one and the"
                " same store; give the registry stores of their own"
            )


def _listed(endpoints: Sequence[EndpointAddress], problems: Mapping[int, str]) -> str:
    return "; ".join(f"{endpoints[slot]} {problem}" for slot, problem in problems.items())


def _problems(pipeline: str, members: Members, replies: Sequence[EndpointReply]) -> dict[int, str]:
    """What is wrong with each endpoint that does not count, with its remedy."""
    named = tables_of(pipeline, members)
    problems: dict[int, str] = {}
    for slot, reply in enumerate(replies):
        match reply:
            case NoReply(reason, "denied"):  # with its remedy
                problems[slot] = f"{reply.problem} ({reason})"
            case NoReply(reason):
                problems[slot] = f"{reply.problem} ({reason}); bring it back"
            case Answer(register=Register(pipeline=owner)) if owner != pipeline:
                problems[slot] = (
                    f"has a registry that belongs to the pipeline {owner}; give each its own name"
                )
            case _ if slot >= len(named):
                problems[slot] = f"is one too many: the registry was made over {len(named)}"
            case _ if slot in (*members.down, *members.fresh):
                problems[slot] = "is out of use until a repair of it has ended; run it again"
            case Answer(table) if table == named[slot] and len(replies) < len(named):
                problems[slot] = (
                    f"is one of {len(named)} that the registry was made over, and the pipeline file names"
                    f" {len(replies)}"
                )
            case Answer(table) if table == named[slot]:
                continue
            case Answer(None):
                problems[slot] = "has lost its data, or is a new store; it is not used until it is repaired"
            case Answer(str() as table) if table in named:
                problems[slot] = f"is number {named.index(table) + 1}: put the endpoints in their old order"
            case _:
                problems[slot] = "has the data of another registry; it is not used until it is repaired"
    return problems
